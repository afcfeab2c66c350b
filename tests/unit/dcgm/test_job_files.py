"""Files of a prolog: names, contents, and what does not stop the others."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.dcgm.hand_made import device, instance, samples, snapshot

from kwhere.dcgm.holdings import Holders
from kwhere.dcgm.job_files import JobFiles, read_job_files
from kwhere.devices.gpu_fields import GpuField

POWER = "DCGM_FI_DEV_POWER_USAGE"


def read(directory: Path) -> tuple[JobFiles, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    return read_job_files(directory, lambda file, reason: told.append((file, reason))), told


def jobs_of(line: str) -> str | None:
    return line.partition('hpc_job="')[2].partition('"')[0] or None


def test_an_empty_file_leaves_the_gpu_its_series_case_gpu_56(tmp_path: Path) -> None:
    for index in range(4):
        (tmp_path / str(index)).write_text("" if index == 3 else f"job{index}\n")
    found, _ = read(tmp_path)
    node = snapshot(*(device(index, {GpuField.POWER_UW: 0}) for index in range(4)))

    lines = samples(node, POWER, holders=Holders((), found))

    assert [jobs_of(line) for line in lines] == ["job0", "job1", "job2", None]


def test_blank_lines_and_carriage_returns_are_no_jobs_case_gpu_57(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"123\n\n456\r\n  \n123\n")
    found, _ = read(tmp_path)

    lines = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, holders=Holders((), found))

    assert [jobs_of(line) for line in lines] == ["123", "456"]


@pytest.mark.parametrize("name", [pytest.param("0.1", id="case_gpu_34"), pytest.param("0-1", id="case_users_58")])
def test_files_of_instances(tmp_path: Path, name: str) -> None:
    (tmp_path / "0").write_text("whole\n")
    (tmp_path / name).write_text("first\n")
    (tmp_path / "MIG-2-0").write_text("second\n")
    found, _ = read(tmp_path)
    divided = device(0, {GpuField.POWER_UW: 0}, instances=[instance(1), instance(2), instance(3)])

    lines = samples(snapshot(divided), POWER, holders=Holders((), found))

    assert [jobs_of(line) for line in lines] == ["first", "second", None]


def test_a_file_that_cannot_be_read_names_itself_and_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "0").symlink_to("0")  # a loop: no right helps
    (tmp_path / "1").write_text("j\n")

    found, told = read(tmp_path)

    assert found.jobs == {"1": ("j",)}
    assert [Path(file).name for file, _ in told] == ["0"]


def test_what_is_no_job_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0")
    (tmp_path / "1").mkdir()
    (tmp_path / "2.tmp").write_text("j\n")
    (tmp_path / "٣").write_text("j\n")

    found, told = read(tmp_path)

    assert found.jobs == {}
    assert told == []


def test_a_directory_that_is_not_there_yet_has_no_jobs(tmp_path: Path) -> None:
    found, told = read(tmp_path / "later")

    assert (found.jobs, told) == ({}, [])


@pytest.mark.parametrize("name", ["0", "GPU-0"])
def test_a_gpu_may_be_named_by_index_or_uuid(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("j")
    found, _ = read(tmp_path)

    [line] = samples(snapshot(device(0, {GpuField.POWER_UW: 0})), POWER, holders=Holders((), found))

    assert jobs_of(line) == "j"


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_jobs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0").write_bytes(content)

    found, told = read(tmp_path)

    assert all(job == job.strip() != "" for jobs in found.jobs.values() for job in jobs)
    assert not told
