"""The watch's own thread: it goes on through hangs, crashes, releases and driver reloads."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, gpu
from tests.fake_nvml.node import GpuNode, wait_until
from tests.fake_nvml.scenario import Scenario, handles_held

from kwhere.devices.gpu import DeviceState, GpuDevice, Vendor
from kwhere.devices.gpu_fields import GpuField

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
