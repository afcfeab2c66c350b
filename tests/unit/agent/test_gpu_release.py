"""GPU handles given back and taken again: by command, by file, by the clock."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.agent.gpu_release import GpuRelease, ReleaseState, names_a_pause
from kwhere.devices.gpu import GpuSnapshot, Vendor

SECOND = 1_000_000_000


@dataclass
class Gpus:
    """Handles of one vendor's GPUs."""

    held: bool = True
    hangs: bool = False

    def release(self, timeout_seconds: float = 10.0) -> bool:
        self.held = self.hangs
        return not self.held

    def acquire(self) -> None:
        self.held = True

    def snapshot(self) -> GpuSnapshot:
        return GpuSnapshot(Vendor.NVIDIA)


@dataclass
class Bench:
    """A release over two vendors, with a clock and a file."""

    directory: Path
    now_ns: int = 0
    gpus: tuple[Gpus, Gpus] = field(default_factory=lambda: (Gpus(), Gpus()))
    release: GpuRelease = field(init=False)

    def __post_init__(self) -> None:
        self.release = GpuRelease(self.gpus, file=self.file, most_seconds=600, monotonic_ns=lambda: self.now_ns)

    @property
    def file(self) -> Path:
        return self.directory / "release"

    def look(self, seconds: float = 1.0) -> list[bool]:
        """Let time pass, look once, and say who holds handles."""
        self.now_ns += int(seconds * SECOND)
        self.release.look()
        return [gpus.held for gpus in self.gpus]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_command_gives_back_and_takes_again(bench: Bench) -> None:
    assert bench.release.release()
    assert bench.look(5) == [False, False]
    assert bench.release.state() == ReleaseState(True, "command", 5, 595)

    bench.release.acquire()

    assert bench.look() == [True, True]
    assert bench.release.state() == ReleaseState(False)


def test_a_gpu_that_hangs_is_told(bench: Bench) -> None:
    bench.gpus[0].hangs = True

    assert not bench.release.release()


def test_handles_are_taken_again_after_a_while(bench: Bench) -> None:
    bench.release.release()

    assert bench.look(599) == [False, False]
    assert bench.look(1) == [True, True]


def test_a_command_that_is_repeated_begins_the_while_anew(bench: Bench) -> None:
    bench.release.release()
    bench.look(500)
    bench.release.release()

    assert bench.look(500) == [False, False]


def test_a_file_asks_for_as_long_as_it_is_there(bench: Bench) -> None:
    bench.file.touch()
    assert bench.look() == [False, False]
    assert bench.release.state().by == "file"

    bench.file.unlink()

    assert bench.look() == [True, True]


def test_a_file_that_stays_does_not_ask_twice(bench: Bench) -> None:
    bench.file.touch()
    bench.look()

    assert bench.look(600) == [True, True]
    assert bench.look(600) == [True, True]


def test_a_file_that_goes_leaves_what_a_command_asked(bench: Bench) -> None:
    bench.release.release()
    bench.file.touch()
    bench.look()
    bench.file.unlink()

    assert bench.look() == [False, False]


def test_the_mig_managers_label_asks(bench: Bench) -> None:
    bench.file.write_text("nvidia.com/gpu.deploy.dcgm-exporter=paused-for-mig-change\n")
    assert bench.look() == [False, False]

    bench.file.write_text("nvidia.com/gpu.deploy.dcgm-exporter=true\n")

    assert bench.look() == [True, True]


@pytest.mark.parametrize(
    ("text", "paused"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param(" \n", True, id="blanks"),
        pytest.param("nvidia.com/gpu.deploy.dcgm=paused-for-driver-upgrade", True, id="a driver's upgrade"),
        pytest.param("a=b,nvidia.com/gpu.deploy.device-plugin=paused-for-mig-change,c=d", True, id="with commas"),
        pytest.param('{"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}', True, id="JSON"),
        pytest.param('nvidia.com/gpu.deploy.dcgm="paused-for-mig-change"', True, id="a downward API volume"),
        pytest.param("nvidia.com/gpu.deploy.dcgm-exporter=false", False, id="false for good"),
        pytest.param("nvidia.com/gpu.deploy.dcgm=true\nnvidia.com/mig.config.state=pending", False, id="true"),
        pytest.param("nvidia.com/mig.config=paused-for-mig-change", False, id="another label"),
        pytest.param("kubernetes.io/hostname=n1", False, id="no such label"),
    ],
)
def test_labels(text: str, paused: bool) -> None:
    assert names_a_pause(text) is paused


@given(st.text())
def test_any_text_asks_or_does_not(text: str) -> None:
    assert names_a_pause(text) in (True, False)
