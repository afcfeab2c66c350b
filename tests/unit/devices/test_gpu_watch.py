"""The watch's own thread: it goes on through hangs, crashes, releases and driver reloads."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, gpu
from tests.fake_nvml.node import GpuNode, wait_until
from tests.fake_nvml.scenario import NOT_SUPPORTED, Scenario, handles_held
from tests.sampling_world import START_UTC_NS

from kwhere.devices.gpu import DeviceState, EventWatch, GpuDevice, Vendor
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.gpu_watch import PastXid
from kwhere.devices.xid import XidLine

pytestmark = pytest.mark.service("cc")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GpuNode]:
    made = GpuNode(tmp_path, Scenario([gpu(A100, 0, watts=100), gpu(A100, 1, watts=200)]))
    made.watch.start()
    wait_until(lambda: all(state.up for state in states(made)) and len(states(made)) == 2)
    yield made
    made.close()


def states(node: GpuNode) -> tuple[DeviceState, ...]:
    return node.watch.snapshot().devices


def energy_uj(state: DeviceState) -> int:
    assert state.readings is not None
    return state.readings.integer(GpuField.ENERGY_UJ) or 0


def test_before_anything_is_known_nothing_is_said(tmp_path: Path) -> None:
    found = GpuNode(tmp_path).watch.snapshot()

    assert (found.answered, found.devices) == (False, ())


def test_energy_goes_on_by_itself(node: GpuNode) -> None:
    before = energy_uj(states(node)[0])

    wait_until(lambda: energy_uj(states(node)[0]) > before)


def test_a_hung_gpu_is_told_while_the_other_goes_on(node: GpuNode) -> None:
    node.gpus[0].hang("DeviceGetMemoryInfo_v2")
    node.write()
    wait_until(lambda: states(node)[0].reason == "timeout")

    before = energy_uj(states(node)[1])

    wait_until(lambda: energy_uj(states(node)[1]) > before)
    assert states(node)[1].up


def test_a_child_that_was_killed_is_started_again(node: GpuNode) -> None:
    (marker,) = node.library.parent.glob(f"{node.library.name}.scenario.open.*")
    pid = int(marker.suffix[1:])

    os.kill(pid, signal.SIGKILL)

    wait_until(lambda: not node.watch.snapshot().library.up)
    wait_until(lambda: all(state.up for state in states(node)))


def test_a_driver_that_was_reloaded_is_taken_up_again(node: GpuNode) -> None:
    node.scenario.reload_driver()
    node.write()

    wait_until(lambda: node.watch.snapshot().library.reason == "reopen")
    wait_until(lambda: all(state.up for state in states(node)))


def test_handles_are_given_back_while_released(node: GpuNode) -> None:
    assert node.watch.release()
    assert not handles_held(node.library)
    wait_until(lambda: node.watch.snapshot().library.reason == "released")

    node.watch.acquire()

    wait_until(lambda: handles_held(node.library) and all(state.up for state in states(node)))


def test_a_gpu_that_is_missing_after_a_reboot_is_absent(tmp_path: Path) -> None:
    made = GpuNode(tmp_path, Scenario([gpu(A100, 0)]))
    gone = GpuDevice("GPU-gone", 1, Vendor.NVIDIA, "NVIDIA A100-SXM4-40GB")
    made.watch = type(made.watch)(Vendor.NVIDIA, made.watch._argv, made.watch._settings, known=[gone])

    found = made.poll().devices
    made.close()

    assert [(state.device.uuid, state.up, state.reason) for state in found] == [
        (made.gpus[0].uuid, True, ""),
        ("GPU-gone", False, "absent"),
    ]


@dataclass
class KernelLog:
    """XIDs that the kernel's log holds."""

    lines: list[PastXid] = field(default_factory=list)

    def add(self, xid: int, bus: str = "07") -> None:
        now_ns = time.monotonic_ns()
        self.lines.append(PastXid(XidLine(f"0000:{bus}:00.0", xid), now_ns, START_UTC_NS + now_ns))


@pytest.fixture
def log() -> KernelLog:
    return KernelLog()


@pytest.fixture
def logged(tmp_path: Path, log: KernelLog) -> Iterator[GpuNode]:
    """A node whose kernel's log has XIDs of before."""
    log.add(79)
    log.add(31, bus="17")
    log.add(13, bus="c1")  # of a GPU that is another's
    made = GpuNode(tmp_path, Scenario([gpu(A100, 0), gpu(A100, 1)]))
    made.watch = made.new_watch(past_xids=lambda: tuple(log.lines))
    yield made
    made.close()


def xids(node: GpuNode, index: int = 0) -> dict[int, int]:
    return {one.xid: one.count for one in states(node)[index].xids}


def tells_events(node: GpuNode) -> bool:
    events = node.watch.snapshot().events
    return events is not None and events.up


def test_xids_of_before_the_start_are_counted_case_gpu_77(logged: GpuNode, log: KernelLog) -> None:
    logged.poll()

    assert (xids(logged, 0), xids(logged, 1)) == ({79: 1}, {31: 1})
    assert states(logged)[0].xids[0].last_utc_ns == log.lines[0].utc_ns


def test_an_event_that_was_told_is_not_counted_again(logged: GpuNode, log: KernelLog) -> None:
    logged.watch.start()
    wait_until(lambda: tells_events(logged))
    logged.scenario.xid(0, 31)
    logged.write()
    wait_until(lambda: xids(logged) == {79: 1, 31: 1})
    log.add(31)  # the log has it too
    logged.watch.release()
    log.add(94)  # while nobody told events
    logged.scenario.system["events_before"] = 1  # a driver tells an event once
    logged.write()

    logged.watch.acquire()

    wait_until(lambda: states(logged)[0].up and 94 in xids(logged))
    assert xids(logged) == {79: 1, 31: 1, 94: 1}


def test_without_events_the_log_is_read_again_and_again(logged: GpuNode, log: KernelLog) -> None:
    for device in logged.gpus:
        device.facts.pop("EventTypes")
        device.fail("DeviceRegisterEvents", NOT_SUPPORTED)
    logged.write()
    logged.watch.start()
    wait_until(lambda: logged.watch.snapshot().events is not None)
    log.add(48)

    wait_until(lambda: xids(logged) == {79: 1, 48: 1})

    events = logged.watch.snapshot().events
    assert events == EventWatch(False, "NVML: no device tells events")
