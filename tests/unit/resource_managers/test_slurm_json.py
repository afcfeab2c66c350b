"""slurmrestd's answers: a recorded one, and the shapes of later releases."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Account, ManagerUnit, Membership
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_json import number, read_accounts, read_jobs, read_nodes
from kwhere.resource_managers.slurm_sacct import Faults

RECORDED = Path(__file__).parents[2] / "fixtures/slurm"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}-22.05.json").read_bytes())


def units(document: object) -> list[ManagerUnit]:
    faults, reader = Faults(), JobReader("c1")
    found = [reader.unit_of(job) for job in read_jobs(document, faults)]
    assert faults.count == 0, faults.first
    return [unit for unit in found if unit is not None]


def test_recorded_jobs_are_units() -> None:
    first, second, *_ = units(recorded("jobs"))

    assert (first.unit, first.run, first.state) == ("1", "1@1796003155", "completed")
    assert (first.name, first.user, first.project, first.group) == ("a|b\nc", "kwalice", "proj1", "kwalice")
    assert (first.nodes, first.queue, first.tags["comment"]) == (("n1",), "main", "x|y")
    assert (first.allocation.cpus, first.allocation.memory_bytes) == (1, 100 * 1024**2)
    assert first.allocation.gpus == {"a100": 1}
    assert (second.nodes, second.allocation.nodes) == (("n1", "n2"), 2)


def wrapped(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


def job(**changes: object) -> dict[str, object]:
    return {
        "job_id": 42,
        "name": "x",
        "user": "alice",
        "account": "cfd",
        "nodes": "n[1-2]",
        "time": {"start": 1_700_000_000, "end": 1_700_000_060, "submission": 1_699_999_990},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
        "exit_code": {"status": ["SUCCESS"], "return_code": wrapped(0)},
        **changes,
    }


def test_later_releases_wrap_their_numbers() -> None:
    times = {"start": wrapped(1_700_000_000), "end": {"set": False, "number": 0}}

    (unit,) = units({"jobs": [job(time=times, state={"current": ["RUNNING"]})]})

    assert (unit.run, unit.ended_at, unit.state) == ("42@1700000000", None, "running")


def test_case_users_56_what_is_over_without_an_end_is_counted() -> None:
    times = {"start": 1_700_000_000, "end": 0, "elapsed": 60}
    faults = Faults()

    (found,) = read_jobs({"jobs": [job(time=times)]}, faults)

    assert (found.ended_at, faults.count) == (datetime.fromtimestamp(1_700_000_060, UTC), 1)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"array": {"job_id": 40, "task_id": wrapped(0)}}, "40_0"),
        ({"array": {"job_id": 40, "task_id": 2}}, "40_2"),
        ({"het": {"job_id": 41, "job_offset": wrapped(1)}}, "41+1"),
        ({"het": {"job_id": 41, "job_offset": 0}}, "41+0"),
    ],
)
def test_case_users_27_both_ids(changes: dict[str, object], shown: str) -> None:
    (unit,) = units({"jobs": [job(**changes)]})

    assert (unit.unit, unit.tags["job"]) == ("42", shown)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((5, 5), (5.0, 5), (wrapped(7), 7), (None, None), ("5", None), (True, None), (2**70, None), (0.5, None)),
        ({"set": False, "number": 3}, None),
        ({"set": True, "infinite": True, "number": 3}, None),
        ({"number": 3}, 3),
    ],
)
def test_numbers(value: object, expected: int | None) -> None:
    assert number(value) == expected


def test_an_error_is_no_empty_answer() -> None:
    with pytest.raises(SourceError, match="expected jobs, found Unable to parse time"):
        units({"errors": [{"error": "Unable to parse time"}]})
    nothings: tuple[object, ...] = (None, [], {}, {"jobs": None}, "x")
    for document in nothings:
        with pytest.raises(SourceError, match="expected jobs"):
            units(document)


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        pytest.param(
            [{"error_number": 7000, "description": "Failed connecting to slurmdbd"}], "refused", id="case_users_45_down"
        ),
        pytest.param(
            [{"description": "Slurm accounting storage is disabled"}], "unsupported", id="case_users_45_accounting_off"
        ),
        pytest.param(
            [{"error_number": 2002, "error": "Access/permission denied"}], "permission", id="case_users_45_no_right"
        ),
        pytest.param([{"error_number": 9003}, {"error_number": 7000}], "refused", id="one_of_two"),
    ],
)
def test_case_users_45_an_empty_list_beside_an_error_is_no_answer(errors: list[object], reason: str) -> None:
    with pytest.raises(Unavailable) as caught:
        units({"jobs": [], "errors": errors})
    assert caught.value.reason == reason


@pytest.mark.parametrize("jobs", [{"jobs": []}, {"jobs": None}, {}])
def test_case_users_45_that_nothing_was_found_is_an_empty_list(jobs: dict[str, object]) -> None:
    assert units({**jobs, "errors": [{"error_number": 9003, "description": "Nothing found"}]}) == []
    assert units({"jobs": [], "errors": []}) == []


def test_an_error_beside_jobs_takes_none_of_them() -> None:
    (unit,) = units({"jobs": [job()], "errors": [{"error_number": 9003, "description": "Unable to find QOS"}]})

    assert unit.unit == "42"


def test_one_bad_job_takes_no_other_with_it() -> None:
    faults = Faults()
    jobs = list(read_jobs({"jobs": [job(job_id=None), job(), 5, job(job_id=-1)]}, faults))

    assert (len(jobs), faults.count) == (1, 2)


def test_recorded_nodes() -> None:
    node, _ = read_nodes(recorded("nodes"))

    assert (node.name, node.state, node.is_schedulable, node.cpus, node.gpus) == ("n1", "idle", True, 2, {"a100": 2})
    assert (node.memory_bytes, node.queues) == (4000 * 1024**2, ("main",))


@pytest.mark.parametrize(
    ("fields", "gpus", "used"),
    [
        ({"tres": "cpu=8,gres/gpu=4", "tres_used": "cpu=2,gres/gpu=1"}, {"gpu": 4}, {"gpu": 1}),
        ({"tres": "cpu=8,gres/gpu=4", "tres_used": "cpu=2"}, {"gpu": 4}, {}),
        # AccountingStorageTRES leaves out GPUs
        ({"tres": "cpu=8", "gres": "gpu:h100:8", "gres_used": "gpu:h100:5(IDX:0-4)"}, {"h100": 8}, {"h100": 5}),
        ({"tres": "cpu=8", "gres": "gpu:h100:8", "gres_used": "gpu:h100:0(IDX:N/A)"}, {"h100": 8}, {}),
    ],
)
def test_case_users_21_gpus_of_a_node_are_known_without_their_tres(
    fields: dict[str, str], gpus: dict[str, float], used: dict[str, float]
) -> None:
    (node,) = read_nodes({"nodes": [{"name": "n1", "cpus": 8, "alloc_cpus": 2, **fields}]})

    assert node.allocated is not None
    assert (node.gpus, node.allocated.gpus) == (gpus, used)


def test_recorded_accounts() -> None:
    document = recorded("accounts")

    found = read_accounts(document, document, "testslurm")

    assert Account("proj1", "for tests", "root") in found.accounts
    assert Membership("kwalice", "proj1") in found.memberships
    assert read_accounts(document, document, "other").memberships == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*job(), "number", "set", "current", "start", "allocated"]), inner, max_size=6
        )
    ),
    max_leaves=20,
)


@given(st.lists(_JSON, max_size=3))
def test_noise_is_units_nodes_or_a_drawn_error(items: list[object]) -> None:
    reader = JobReader("c1")
    for found in read_jobs({"jobs": items}, Faults()):
        reader.unit_of(found)
    list(read_nodes({"nodes": items}))
    read_accounts({"associations": items}, {"accounts": items}, None)


@given(_JSON)
def test_any_field_may_be_anything(value: object) -> None:
    reader = JobReader("c1")
    for field in job():
        for found in read_jobs({"jobs": [job(**{field: value})]}, Faults()):
            reader.unit_of(found)
