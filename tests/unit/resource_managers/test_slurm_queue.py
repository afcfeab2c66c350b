"""SLURM's queue: jobs that wait with all they ask for, and what has begun, by squeue and slurmrestd."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Queue, WaitingUnit
from kwhere.resource_managers.resource_manager import QueueingManager
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_queue import FIELDS, queue_format, read_queue, read_queue_json
from kwhere.resource_managers.slurm_sacct import Faults

DELIMITER, ENDING = "\x1fa1b2c3d4\x1f", "\x1fe5f6a7b8\x1f"
JOB = {
    "JobID": "42", "JobArrayID": "42", "State": "PENDING", "Reason": "Resources", "StartTime": "N/A",
    "SubmitTime": "1796012914", "PriorityLong": "4294901758", "UserName": "alice", "UserID": "1000",
    "GroupName": "phys", "Account": "cfd", "Partition": "main", "QOS": "normal",
    "tres-alloc": "cpu=8,mem=16G,node=2,billing=8,gres/gpu=4", "NumNodes": "2", "Comment": "(null)", "Name": "solve",
}  # fmt: skip


def line(**changes: str) -> str:
    job = {**JOB, **{name.replace("tres", "tres-alloc"): word for name, word in changes.items()}}
    return DELIMITER.join([*(job[name] for name in FIELDS), job["JobID"]]) + f"{ENDING}\n"


def read(text: str) -> tuple[Queue, Faults]:
    faults = Faults()
    return read_queue(text, DELIMITER, ENDING, "c1", (), faults), faults


def one(**changes: str) -> WaitingUnit:
    queue, faults = read(line(**changes))
    assert faults.count == 0, faults.first
    (unit,) = queue.waiting
    return unit


def test_case_users_21_gpus_are_known_however_they_were_asked_for() -> None:
    unit = one()

    assert (unit.asked.gpus, unit.asked.cpus, unit.asked.memory_bytes, unit.asked.nodes) == (
        {"gpu": 4.0},
        8.0,
        16 * 1024**3,
        2,
    )
    assert one(tres="cpu=1,mem=1G,node=1,gres/gpu:a100=2,gres/gpu=2").asked.gpus == {"a100": 2.0}
    assert "tres-alloc:" in queue_format(DELIMITER, ENDING)
    assert "%b" not in queue_format(DELIMITER, ENDING)


def test_a_job_that_waits_has_all_that_is_known_of_it() -> None:
    unit = one(StartTime="1796020114", Comment="a|b")

    assert (unit.unit, unit.state, unit.name, unit.user, unit.project) == ("42", "pending", "solve", "alice", "cfd")
    assert (unit.group, unit.queue, unit.reason, unit.priority) == ("phys", "main", "Resources", 4294901758.0)
    assert unit.submitted_at == datetime(2026, 11, 30, 4, 28, 34, tzinfo=UTC)
    assert unit.expected_start_at == datetime(2026, 11, 30, 6, 28, 34, tzinfo=UTC)
    assert dict(unit.tags) == {"qos": "normal", "comment": "a|b"}


@pytest.mark.parametrize(
    ("shown", "tasks", "tags"),
    [
        pytest.param("42_[1-5,9%2]", 6, {"job": "42_[1-5,9%2]", "array_job": "42"}, id="case_users_29"),
        pytest.param("42_[9-11,13,16-20]", 9, {"job": "42_[9-11,13,16-20]", "array_job": "42"}, id="case_users_29_9"),
        pytest.param("41+1", 1, {"job": "41+1", "het_job": "41"}, id="case_users_26"),
        pytest.param("40_2", 1, {"job": "40_2", "array_job": "40"}, id="case_users_27"),
        pytest.param("42", 1, {}, id="plain"),
        pytest.param(
            "42_[0-4000000%9]", 4_000_001, {"job": "42_[0-4000000%9]", "array_job": "42"}, id="case_users_29_all"
        ),
        pytest.param("42_[1-5,...]", 5, {"job": "42_[1-5,...]", "array_job": "42"}, id="cut_short"),
    ],
)
def test_tasks_of_arrays_wait_together(shown: str, tasks: int, tags: dict[str, str]) -> None:
    unit = one(JobArrayID=shown)

    assert (unit.unit, unit.tasks) == ("42", tasks)
    assert {name: word for name, word in unit.tags.items() if name != "qos"} == tags


def test_what_has_begun_lives_and_what_has_just_ended_is_known_still() -> None:
    states = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "COMPLETED", "FOO")
    text = "".join(line(JobID=str(100 + at), State=state) for at, state in enumerate(states))
    text += line(JobID="7", State="REQUEUE_HOLD")

    queue, faults = read(text)

    assert queue.living == frozenset(str(100 + at) for at in range(len(states)))
    assert [(unit.unit, unit.state) for unit in queue.waiting] == [("7", "requeue_hold")]
    assert faults.count == 0


@pytest.mark.parametrize("name", ["a|b\nc", "\n", "x\n42", "\x1f", "é\t…", " lead"])
def test_names_come_whole(name: str) -> None:
    assert one(Name=name).name == name


def test_a_user_who_was_deleted_is_still_somebody() -> None:
    assert one(UserName="").user == "unknown (uid 1000)"


def test_a_record_that_is_cut_short_is_counted() -> None:
    queue, faults = read(line() + line(JobID="43")[:60])

    assert [unit.unit for unit in queue.waiting] == ["42"]
    assert faults.count == 1


@given(st.text(max_size=400))
def test_any_text_is_a_queue_or_faults(text: str) -> None:
    read(text)


WORDS = st.sampled_from(["jobs", "job_id", "job_state", "array_job_id", "array_task_string", "name", "x"])
LEAVES = st.none() | st.integers() | st.text(max_size=8)


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner)))
def test_any_document_is_a_queue_or_an_error(document: object) -> None:
    with contextlib.suppress(SourceError):
        read_queue_json(document, "c1", (), Faults())


def test_slurmrestd_says_the_same() -> None:
    jobs = [
        {
            "job_id": 42, "job_state": "PENDING", "state_reason": "Resources", "start_time": 0,
            "submit_time": 1796012914, "priority": 4294901758, "user_name": "alice", "user_id": 1000,
            "group_name": "phys", "account": "cfd",
            "partition": "main", "qos": "normal", "tres_req_str": JOB["tres-alloc"], "comment": "", "name": "solve",
            "node_count": {"set": True, "infinite": False, "number": 2}, "array_job_id": {"set": True, "number": 0},
        },
        {"job_id": 43, "job_state": ["RUNNING"]},
    ]  # fmt: skip
    faults = Faults()

    queue = read_queue_json({"jobs": jobs}, "c1", (), faults)

    assert queue == Queue((one(),), frozenset({"43"}))
    assert faults.count == 0


def slurm(directory: Path, squeue: str) -> Slurm:
    script = directory / "squeue"
    script.write_text(f"#!/bin/sh\n{squeue}\n", encoding="utf-8")
    script.chmod(0o755)
    return Slurm(SlurmSettings(manager="slurm", cluster="c1", programs_dir=directory, slurm_cluster="big"))


def test_squeue_is_asked_for_all_jobs_of_that_cluster(tmp_path: Path) -> None:
    manager = slurm(tmp_path, f'echo "$TZ $SLURM_BITSTR_LEN $@" > {tmp_path}/asked')

    assert isinstance(manager, QueueingManager)
    assert manager.fetch_queue() == Queue(living=frozenset())
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert asked.startswith("UTC 0 --all --noheader --states=all --clusters=big --Format=JobID:")


def test_a_record_that_cannot_be_read_leaves_open_what_lives(tmp_path: Path) -> None:
    manager = slurm(tmp_path, "echo nonsense")

    assert manager.fetch_queue().living is None


def test_a_controller_that_is_away_is_no_empty_queue(tmp_path: Path) -> None:
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    manager = slurm(tmp_path, f"echo '{away}' >&2; exit 1")

    with pytest.raises(Unavailable, match="Unable to contact"):
        manager.fetch_queue()
