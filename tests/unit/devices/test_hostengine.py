"""nv-hostengine tells what NVML does not: through the real child process, over a libdcgm of our own in C."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_dcgm.library import install_fake_dcgm, play
from tests.fake_nvml.gpus import A100, gpu, split
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import Scenario

from kwhere.apps.gpus import outside_of
from kwhere.core.errors import SourceError
from kwhere.devices.gpu_activity import NothingOutside, OutsideActivity
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.hostengine import FirstOf, HostEngineSource, Told, read_told

GRAPHICS, TENSOR = GpuField.PROF_GRAPHICS_RATIO, GpuField.PROF_TENSOR_RATIO
SENT = GpuField.PROF_PCIE_TX_BYTES_PER_SECOND
GPUS = ("gpu 0 GPU-a", "gpu 1 GPU-b", "instance 8 1 3", "instance 9 1 5")


@pytest.fixture
def address() -> Iterator[str]:
    """Return where somebody listens: an nv-hostengine's port is knocked at before its library is loaded."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def source(tmp_path: Path, address: str) -> Iterator[HostEngineSource]:
    made = HostEngineSource(address, str(install_fake_dcgm(tmp_path, *GPUS)), lambda: False)
    yield made
    made.close()


def values(source: HostEngineSource) -> dict[tuple[str, int | None], dict[GpuField, float]]:
    source.ask()
    found = source.latest()
    return {} if found is None else {place: dict(told) for place, told in found.values.items()}


@pytest.mark.service("cc")
def test_gpus_and_instances_are_told_by_uuid(source: HostEngineSource, tmp_path: Path) -> None:
    play(
        tmp_path / "libdcgm.so.4",
        *GPUS,
        "value 1 0 1001 d 0.25 0 1",
        "value 1 0 1009 i 123456789012 0 1",
        "value 4 8 1001 d 0.75 0 1",
        "value 4 8 1004 d 0.5 0 1",
    )

    assert values(source) == {
        ("GPU-a", None): {GRAPHICS: 0.25, SENT: 123456789012},
        ("GPU-b", 3): {GRAPHICS: 0.75, TENSOR: 0.5},
    }
    assert (source.states()[0].up, source.states()[0].reason) == (True, "")


@pytest.mark.service("cc")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param("value 1 0 1001 d 140737488355330 0 1", id="not supported"),
        pytest.param("value 1 0 1001 d nan 0 1", id="no number"),
        pytest.param("value 1 0 1001 d 0.5 -6 1", id="a status"),
        pytest.param("value 1 0 1001 d 0.5 0 300", id="old"),
        pytest.param("value 1 0 1001 b 0.5 0 1", id="another type"),
        pytest.param("value 1 0 1009 i 9223372036854775794 0 1", id="case_gpu_1"),
        pytest.param("value 1 7 1001 d 0.5 0 1", id="a GPU that is not listed"),
    ],
)
def test_what_is_not_known_is_absent(source: HostEngineSource, tmp_path: Path, line: str) -> None:
    play(tmp_path / "libdcgm.so.4", *GPUS, line)

    assert values(source) == {}
    assert source.states()[0].reason == "no_data"


@pytest.mark.service("cc")
def test_an_instance_that_says_more_than_all_is_all_of_it_case_gpu_8(source: HostEngineSource, tmp_path: Path) -> None:
    play(tmp_path / "libdcgm.so.4", *GPUS, "value 4 9 1001 d 1.5 0 1")

    assert values(source) == {("GPU-b", 5): {GRAPHICS: 1.0}}


@pytest.mark.service("cc")
def test_a_field_that_is_not_watched_takes_no_other_along(source: HostEngineSource, tmp_path: Path) -> None:
    play(tmp_path / "libdcgm.so.4", *GPUS, "watch 1001 -6", "value 1 0 1004 d 0.5 0 1")

    assert values(source) == {("GPU-a", None): {TENSOR: 0.5}}


@pytest.mark.service("cc")
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param(["connect -21"], "refused", id="no nv-hostengine"),
        pytest.param([f"watch {field} -6" for field in range(1001, 1013)], "unsupported", id="nothing is watched"),
    ],
)
def test_an_engine_that_does_not_help_says_why(
    source: HostEngineSource, tmp_path: Path, lines: list[str], reason: str
) -> None:
    play(tmp_path / "libdcgm.so.4", *GPUS, *lines)

    assert values(source) == {}
    assert source.states()[0].reason == reason

    play(tmp_path / "libdcgm.so.4", *GPUS, "value 1 0 1001 d 0.5 0 1")

    assert values(source) == {("GPU-a", None): {GRAPHICS: 0.5}}


def test_a_library_that_is_not_there_is_absent(address: str, tmp_path: Path) -> None:
    source = HostEngineSource(address, str(tmp_path / "libdcgm.so.4"), lambda: False)

    source.ask()
    source.close()

    assert source.states()[0].reason == "absent"


def test_where_nobody_listens_no_process_is_started() -> None:
    source = HostEngineSource("127.0.0.1:1", is_wanted=lambda: False)

    source.ask()

    assert (source.states()[0].reason, source.latest()) == ("absent", None)
    source.close()


@pytest.mark.service("cc")
def test_a_divided_a100_has_its_activity_by_the_engine(address: str, tmp_path: Path) -> None:
    device = split(gpu(A100, 0), ["3g.20gb", "1g.5gb"])
    instance = device.migs[0].gpu_instance
    library = install_fake_dcgm(
        tmp_path, f"gpu 0 {device.uuid}", f"instance 0 0 {instance}", "value 4 0 1001 d 0.75 0 1"
    )
    node = GpuNode(tmp_path, Scenario([device]))
    outside = outside_of(
        GpuSettings(hostengine=address, dcgm_library=str(library), dcgm_exporter_url=""), lambda: False
    )
    node.watch = node.new_watch(outside=outside)
    outside.ask()

    first, second = node.device().instances
    node.close()

    assert (first.readings.ratio(GRAPHICS), first.readings.activity) == (0.75, "hostengine")
    assert (second.readings.ratio(GRAPHICS), second.readings.activity) == (None, "")


def test_the_first_that_knows_speaks() -> None:
    class Knows(NothingOutside):
        def latest(self) -> OutsideActivity:
            return OutsideActivity("x", {})

    assert FirstOf([NothingOutside(), Knows()]).latest() == OutsideActivity("x", {})
    assert FirstOf([]).latest() is None


@given(st.binary() | st.sampled_from([b'{"places":[{"uuid":"a","gpu_instance":null,"values":{"x":1}}]}', b"[]", b"{}"]))
def test_any_line_is_an_answer_or_an_error(line: bytes) -> None:
    try:
        assert isinstance(read_told(line), Told)
    except SourceError:
        return
