"""A node with fake GPUs: a library of its own, its scenario, and the watch over the real child process."""

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import FakeGpu, Scenario

from kwhere.devices.gpu import DeviceState, GpuSnapshot, Vendor
from kwhere.devices.gpu_activity import OutsideSource
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.gpu_watch import GpuWatch, PastXid


@dataclass
class GpuNode:
    """Fake GPUs and what the agent sees of them. Close it."""

    directory: Path
    scenario: Scenario = field(default_factory=Scenario)
    answer_seconds: float = 0.5
    library: Path = field(init=False)
    watch: GpuWatch = field(init=False)

    def __post_init__(self) -> None:
        self.library = install_fake_nvml(self.directory)
        self.write()
        self.watch = self.new_watch()

    @property
    def gpus(self) -> list[FakeGpu]:
        """Return the fake devices, to change them before `write`."""
        return self.scenario.gpus

    def new_watch(
        self,
        may_open: Callable[[], str] = lambda: "",
        past_xids: Callable[[], Iterable[PastXid]] = tuple,
        outside: OutsideSource | None = None,
    ) -> GpuWatch:
        """Return a watch of its own over these GPUs."""
        return GpuWatch(
            Vendor.NVIDIA,
            (sys.executable, "-m", "kwhere.devices.gpu_child", "nvidia", str(self.library)),
            GpuSettings(answer_seconds=self.answer_seconds, interval_seconds=0.1, medium_seconds=1, slow_seconds=1),
            may_open=may_open,
            past_xids=past_xids,
            outside=outside,
        )

    def write(self) -> None:
        """Let the library play the scenario as it is now."""
        self.scenario.write(self.library)

    def poll(self, timeout_seconds: float = 30.0) -> GpuSnapshot:
        """Return everything, asked once."""
        return self.watch.poll(timeout_seconds)

    def device(self, index: int = 0) -> DeviceState:
        """Return one device, asked once."""
        return self.poll().devices[index]

    def close(self) -> None:
        """End the child."""
        self.watch.close()


def wait_until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something is true. Fails after `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.02)
