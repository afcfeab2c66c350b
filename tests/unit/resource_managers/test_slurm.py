"""SLURM's commands as programs: what they are asked, and what their failures are called."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.resource_managers.registry import find_managers
from kwhere.resource_managers.slurm import Slurm, SlurmSettings

T0 = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
HELP = "echo 'JobID JobIDRaw Start End State JobName NodeList'"


def slurm(directory: Path, sacct: str, **settings: object) -> Slurm:
    """Return a SLURM whose sacct runs these lines."""
    script = directory / "sacct"
    script.write_text(f'#!/bin/sh\n[ "$1" = --helpformat ] && {{ {HELP}; exit; }}\n{sacct}\n', encoding="utf-8")
    script.chmod(0o755)
    words = {"manager": "slurm", "cluster": "c1", "programs_dir": directory, **settings}
    return Slurm(SlurmSettings.model_validate(words))


def test_it_is_found_by_its_name() -> None:
    assert find_managers(outside=()).plugins["slurm"].claims == "slurm"


def test_it_is_asked_in_utc_for_whole_seconds(tmp_path: Path) -> None:
    manager = slurm(tmp_path, f'echo "$TZ $SLURM_TIME_FORMAT $@" > {tmp_path}/asked', slurm_cluster="big")

    assert list(manager.fetch_units(Span(T0, T0 + timedelta(seconds=1.5)))) == []

    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert asked.startswith("UTC %s --allusers --allocations --duplicates")
    assert "--clusters=big" in asked
    assert "--starttime=2026-10-25T00:30:00 --endtime=2026-10-25T00:30:02" in asked


@pytest.mark.parametrize(
    ("sacct", "reason", "words"),
    [
        pytest.param(
            "echo 'Slurm accounting storage is disabled' >&2; exit 1",
            "unsupported",
            "accounting is off",
            id="case_users_45",
        ),
        pytest.param(
            "echo 'sacct: error: slurmdbd: Access/permission denied' >&2; exit 1",
            "permission",
            "may not",
            id="case_users_45_rights",
        ),
        pytest.param(
            "echo 'You are not running a supported accounting_storage plugin' >&2; exit 1",
            "unsupported",
            "accounting is off",
            id="case_users_45_no_plugin",
        ),
        pytest.param(
            "echo 'sacct: error: Munge encode failed: Protocol authentication error' >&2; exit 1",
            "permission",
            "may not",
            id="case_users_45_munge",
        ),
        pytest.param("exit 3", "refused", "ended with 3", id="case_users_45_says_nothing"),
        pytest.param("echo 'sacct: error: Connection refused' >&2; exit 1", "refused", "Connection refused", id="down"),
        pytest.param(
            "echo 'sacct: error: Problem talking to the database' >&2", "refused", "Problem", id="error_and_0"
        ),
        pytest.param("sleep 20", "timeout", "no answer within", id="hangs"),
    ],
)
def test_why_there_is_no_answer(tmp_path: Path, sacct: str, reason: str, words: str) -> None:
    manager = slurm(tmp_path, sacct, timeout_seconds=1)

    with pytest.raises(Unavailable, match=words) as caught:
        list(manager.fetch_units(Span(T0, T0 + timedelta(hours=1))))
    assert caught.value.reason == reason


def test_programs_that_are_not_there(tmp_path: Path) -> None:
    manager = Slurm(SlurmSettings(manager="slurm", cluster="c1", programs_dir=tmp_path))

    for ask in (manager.fetch_accounts, manager.fetch_nodes):
        with pytest.raises(Unavailable) as caught:
            ask()
        assert caught.value.reason == "absent"


def test_an_answer_too_long_is_asked_for_in_halves(tmp_path: Path) -> None:
    manager = slurm(tmp_path, f'echo "$@" >> {tmp_path}/asked\nhead -c 20000 /dev/zero', max_answer_bytes=10_000)

    with pytest.raises(SourceError, match="raise max_answer_bytes"):
        list(manager.fetch_units(Span(T0, T0 + timedelta(hours=1))))

    ends = [line.split("--endtime=")[1][:19] for line in (tmp_path / "asked").read_text(encoding="utf-8").splitlines()]
    assert ends[:3] == ["2026-10-25T01:30:00", "2026-10-25T01:00:00", "2026-10-25T00:45:00"]


def test_case_users_23_a_federation_tells_of_this_cluster_alone(tmp_path: Path) -> None:
    manager = slurm(tmp_path, f'echo "$@" > {tmp_path}/asked')
    for program in ("squeue", "scontrol"):
        (tmp_path / program).write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/{program}_asked\n', encoding="utf-8")
        (tmp_path / program).chmod(0o755)

    list(manager.fetch_units(Span(T0, T0 + timedelta(hours=1))))
    manager.fetch_queue()
    manager.fetch_nodes()

    for name in ("asked", "squeue_asked", "scontrol_asked"):
        assert " --local " in f" {(tmp_path / name).read_text(encoding='utf-8')}"


@pytest.mark.parametrize(("count", "is_read"), [(1, True), (3, True), (4, False)])
def test_a_damaged_record_alone_in_a_quiet_span_stops_nothing(tmp_path: Path, count: int, is_read: bool) -> None:
    find = 'for each; do case "$each" in --delimiter=*) d="${each#*=}";; esac; done'
    # JobIDRaw, JobID, Start, End, State, NodeList, JobName and JobIDRaw once more
    record = 'echo "7${d}7${d}soon${d}Unknown${d}RUNNING${d}n1${d}x${d}7"'
    manager = slurm(tmp_path, "\n".join([find, *[record] * count]))

    if is_read:
        assert list(manager.fetch_units(Span(T0, T0 + timedelta(hours=1)))) == []
        return
    with pytest.raises(SourceError, match="no record could be read; time: expected"):
        list(manager.fetch_units(Span(T0, T0 + timedelta(hours=1))))


@pytest.mark.parametrize("words", ["Too wide of a date range in query", "Query result exceeds size limit"])
def test_a_span_too_long_for_slurmdbd_is_asked_for_in_halves(tmp_path: Path, words: str) -> None:
    fault = f"echo 'sacct: error: slurmdbd: {words}' >&2; exit 1"
    manager = slurm(tmp_path, f'echo "$@" >> {tmp_path}/asked\n{fault}')

    with pytest.raises(SourceError, match=rf"{words}, even for \d+ s$"):
        list(manager.fetch_units(Span(T0, T0 + timedelta(hours=1))))

    ends = [line.split("--endtime=")[1][:19] for line in (tmp_path / "asked").read_text(encoding="utf-8").splitlines()]
    assert ends[:3] == ["2026-10-25T01:30:00", "2026-10-25T01:00:00", "2026-10-25T00:45:00"]
