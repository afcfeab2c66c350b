"""What is remembered of a node's GPUs between starts."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hand_gpus import HandGpus
from tests.sampling_world import HandClock

from kwhere.apps.known_gpus import FILE, FORGOTTEN_NS, read_known, write_known

NOW = 1_800_000_000_000_000_000


def gpus(*uuids: str) -> HandGpus:
    found = HandGpus(HandClock())
    for uuid in uuids:
        found.add(uuid, slices=7, instances=[("MIG-1", 3)])
    return found


def names(state_dir: Path, utc_ns: int = NOW) -> list[str]:
    return [known.device.uuid for known in read_known(state_dir, utc_ns)]


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    here = gpus("GPU-0", "GPU-1")
    write_known(tmp_path, [], [here.snapshot()], NOW)

    assert [known.device for known in read_known(tmp_path, NOW)] == [s.device for s in here.snapshot().devices]


def test_a_gpu_that_is_missing_is_kept_for_two_weeks(tmp_path: Path) -> None:
    write_known(tmp_path, [], [gpus("GPU-0", "GPU-1").snapshot()], NOW)
    later = NOW + FORGOTTEN_NS - 1
    write_known(tmp_path, read_known(tmp_path, later), [gpus("GPU-0").snapshot()], later)

    assert names(tmp_path, later) == ["GPU-0", "GPU-1"]
    assert names(tmp_path, NOW + FORGOTTEN_NS) == ["GPU-0"]


def test_a_gpu_that_is_down_is_not_seen(tmp_path: Path) -> None:
    here = gpus("GPU-0")
    here.lose("GPU-0")
    write_known(tmp_path, [], [here.snapshot()], NOW)

    assert names(tmp_path) == []


@pytest.mark.parametrize("text", [b"", b"{}", b"[{}]", b"\xff\xfe", b"<html>"])
def test_nonsense_is_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)

    assert names(tmp_path) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)

    assert isinstance(read_known(tmp_path, NOW), list)


def test_a_place_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    write_known(tmp_path / "missing", [], [gpus("GPU-0").snapshot()], NOW)

    assert names(tmp_path / "missing") == []
