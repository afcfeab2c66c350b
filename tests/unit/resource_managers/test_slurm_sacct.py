"""What sacct writes, read back whole."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerUnit
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_known import RecordReader
from kwhere.resource_managers.slurm_sacct import Faults, Table, choose_fields, draw_delimiter, offered_fields

OFFERED = """
Account AllocCPUS AllocNodes AllocTRES Comment ElapsedRaw End ExitCode Group JobID JobIDRaw JobName
NodeList Partition QOS ReqMem SLUID Start State Submit UID User
"""
FIELDS = choose_fields(offered_fields(OFFERED))
TABLE = Table(FIELDS, "\x1f1a2b\x1f")
DEFAULTS = {
    "JobIDRaw": "42",
    "JobID": "42",
    "Start": "1700000000",
    "End": "1700000060",
    "State": "COMPLETED",
    "Submit": "1699999990",
    "User": "alice",
    "UID": "1000",
    "Group": "phys",
    "Account": "cfd",
    "Partition": "main",
    "NodeList": "n[1-2]",
    "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=2,mem=8G,node=2",
    "AllocCPUS": "4",
    "JobName": "solve",
    "ExitCode": "0:0",
}


def record(**changes: str) -> str:
    values = {**DEFAULTS, **changes}
    return TABLE.delimiter.join(values.get(name, "") for name in FIELDS)


def units(text: str, **settings: object) -> tuple[list[ManagerUnit], Faults]:
    faults, reader = Faults(), JobReader("c1", **settings)  # type: ignore[arg-type]
    found = list(RecordReader(reader).read(text, TABLE, faults))
    return [unit for unit in found if unit is not None], faults


def one(**changes: str) -> ManagerUnit:
    (found,), faults = units(record(**changes) + "\n")
    assert faults.count == 0
    return found


def test_a_job_is_a_unit() -> None:
    unit = one()

    assert (unit.cluster, unit.manager, unit.unit, unit.run) == ("c1", "slurm", "42", "42@1700000000")
    assert (unit.user, unit.project, unit.group, unit.queue, unit.name) == ("alice", "cfd", "phys", "main", "solve")
    assert (unit.nodes, unit.state) == (("n1", "n2"), "completed")
    given_ = unit.allocation
    assert (given_.cpus, given_.memory_bytes, given_.gpus, given_.nodes) == (4, 8 * 1024**3, {"a100": 2}, 2)
    assert unit.ended_at == datetime.fromtimestamp(1_700_000_060, UTC)
    assert unit.tags == {"exit_code": "0:0"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a|b", id="case_users_36"),
        pytest.param("a^|^b", id="case_users_36_their_delimiter"),
        pytest.param("crazy|name", id="case_users_37"),
        pytest.param("first\nsecond\n\nthird", id="case_users_39"),
        pytest.param("42\n42", id="case_users_39_like_an_end"),
        pytest.param("aàb \u202e🦀", id="case_users_40"),
        pytest.param("\x1f", id="a_separator"),
        pytest.param(" padded\t", id="spaces"),
    ],
)
def test_a_name_is_kept_as_it_is(name: str) -> None:
    found, faults = units("\n".join([record(JobName=name, Comment=name), record(JobIDRaw="43", JobID="43"), ""]))

    assert [unit.name for unit in found] == [name, "solve"]
    assert faults.count == 0


def test_case_users_40_bytes_that_are_no_text_are_replaced() -> None:
    text = record(JobName="x").encode().replace(b"\x1fx\x1f", b"\x1f\xff\xfe\x1f").decode("utf-8", "replace")

    assert units(text)[1].count == 0


def test_case_users_44_a_deleted_user_is_still_somebody() -> None:
    assert one(User="", Account="").user == "unknown (uid 1000)"
    assert one(User="1000").user == "unknown (uid 1000)"
    assert one(User="", UID="").user is None
    assert one(Account="").project is None


def test_case_users_23_a_sluid_is_the_run() -> None:
    assert one(SLUID="s0K3M7QW2X9ZAB").run == "s0K3M7QW2X9ZAB"


def test_case_users_22_a_requeued_job_has_two_runs() -> None:
    first = record(State="REQUEUED")
    second = record(Start="1700000100", End="Unknown", State="RUNNING")

    found, _ = units(f"{first}\n{second}\n")

    assert [(unit.unit, unit.run, unit.state) for unit in found] == [
        ("42", "42@1700000000", "requeued"),
        ("42", "42@1700000100", "running"),
    ]
    assert found[1].ended_at is None


def test_case_users_27_an_array_task_has_both_ids() -> None:
    unit = one(JobID="40_2")

    assert unit.unit == "42"
    assert (unit.tags["job"], unit.tags["array_job"]) == ("40_2", "40")


def test_case_users_26_parts_of_a_het_job_know_their_parent() -> None:
    text = "\n".join([record(JobIDRaw="123", JobID="123+0"), record(JobIDRaw="124", JobID="123+1")])

    assert [(unit.unit, unit.tags["het_job"]) for unit in units(text)[0]] == [("123", "123"), ("124", "123")]


def test_case_users_33_steps_are_no_jobs() -> None:
    text = "\n".join([record(State="TIMEOUT"), record(JobIDRaw="42.batch", JobID="42.batch", State="CANCELLED")])

    assert [unit.state for unit in units(text)[0]] == ["timeout"]


def test_what_has_not_started_is_no_run_yet() -> None:
    waiting = [
        record(Start="Unknown", End="Unknown", State="PENDING", NodeList="None assigned"),
        record(JobID="42_[9-11,13%4]", Start="Unknown", End="Unknown", State="PENDING"),
        # cancelled in the queue: SLURM gives it a start at its end, and no node
        record(Start="1700000060", State="CANCELLED by 0", NodeList="None assigned"),
        # started by another cluster of the federation
        record(Start="1700000000", End="1700000060", State="REVOKED", NodeList="None assigned"),
    ]

    found, faults = units("\n".join(waiting))

    assert (found, faults.count) == ([], 0)


def test_case_users_34_an_unknown_state_passes_through() -> None:
    assert one(State="FOO").state == "foo"
    assert one(State="CANCELLED by 1000").tags["cancelled_by_uid"] == "1000"


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({"AllocTRES": "", "ReqMem": "4Gc"}, 16 * 1024**3),
        ({"AllocTRES": "", "ReqMem": "4Gn", "AllocNodes": "2"}, 8 * 1024**3),
        ({"AllocTRES": "", "ReqMem": "0c"}, None),
        ({"AllocTRES": "", "ReqMem": "nonsense"}, None),
        ({"AllocTRES": "", "ReqMem": "4G", "AllocCPUS": "0"}, 4 * 1024**3),
    ],
)
def test_older_releases_say_it_in_columns(changes: dict[str, str], size: int | None) -> None:
    assert one(**changes).allocation.memory_bytes == size


def test_nodes_that_cannot_be_read_are_any_nodes() -> None:
    assert one(NodeList="n[1-").nodes is None


def test_an_end_before_the_start_is_no_life() -> None:
    unit = one(End="1699999000")

    assert unit.ended_at == unit.started_at


def test_a_broken_record_takes_no_other_with_it() -> None:
    broken = TABLE.delimiter.join(["41", "41", "1700000000"])
    found, faults = units("\n".join([record(), broken, record(JobIDRaw="43", JobID="43"), record(Start="nonsense")]))

    assert [unit.unit for unit in found] == ["42", "43"]
    assert faults.count == 2


def test_case_users_41_a_trailing_delimiter_is_told() -> None:
    assert units(record() + TABLE.delimiter)[1].count == 1


def test_fields_follow_the_release() -> None:
    assert (FIELDS[0], FIELDS[-1]) == ("JobIDRaw", "JobIDRaw")
    assert "Restarts" not in FIELDS
    with pytest.raises(SourceError, match="none called JobIDRaw"):
        choose_fields(frozenset({"JobID", "Start", "End", "State"}))


def test_nobody_guesses_the_delimiter() -> None:
    assert len({draw_delimiter() for _ in range(100)}) == 100


@given(st.text() | st.lists(st.sampled_from([TABLE.delimiter, "42", "\n", "1700000000", "x"])).map("".join))
def test_noise_is_units_or_faults(text: str) -> None:
    units(text)


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), max_size=8))
def test_whatever_names_there_are_each_job_is_read(names: list[str]) -> None:
    rows = [record(JobIDRaw=str(n), JobID=str(n), JobName=name, Comment=name) for n, name in enumerate(names, 1)]

    found, faults = units("".join(f"{row}\n" for row in rows))

    assert [(unit.unit, unit.name or "") for unit in found] == [(str(n), name) for n, name in enumerate(names, 1)]
    assert faults.count == 0


def test_case_users_35_suspended_times_are_no_time_that_was_held() -> None:
    unit = one(Start="1700000000", End="1700003600", ElapsedRaw="600", State="COMPLETED")

    assert (unit.ended_at, unit.elapsed_seconds) == (datetime.fromtimestamp(1_700_003_600, UTC), 600.0)
    assert one(ElapsedRaw="").elapsed_seconds is None
    assert one(ElapsedRaw="Unknown").elapsed_seconds is None
