"""What OAR's four dialects say of jobs and resources, as units and nodes."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerUnit
from kwhere.resource_managers.oar import unit_of
from kwhere.resource_managers.oar_fields import (
    Faults,
    decode,
    parse_id,
    parse_length,
    parse_number,
    parse_text,
    parse_time,
    parse_words,
)
from kwhere.resource_managers.oar_jobs import OarJob, read_jobs
from kwhere.resource_managers.oar_resources import Resource, allocation_of, nodes_of, read_resources

RECORDED = Path(__file__).parents[2] / "fixtures" / "oar"
NOW = datetime(2026, 11, 30, 2, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")
JOB: dict[str, Any] = {"Job_Id": 42, "owner": "alice", "state": "Running", "startTime": 1_700_000_000, "stopTime": 0}


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def jobs_of(*records: dict[str, Any], zone: ZoneInfo | None = None) -> tuple[list[OarJob], Faults]:
    faults = Faults()
    return list(read_jobs(list(records), "oarstat", zone, faults)), faults


def recorded_jobs(name: str) -> dict[str, OarJob]:
    faults = Faults()
    document = decode((RECORDED / name).read_bytes(), name)
    found = {job.job_id: job for job in read_jobs(document, name, None, faults)}
    assert faults.count == 0
    return found


def recorded_resources(name: str) -> dict[str, Resource]:
    faults = Faults()
    found = read_resources(decode((RECORDED / name).read_bytes(), name), name, NOW, faults)
    assert faults.count == 0
    return found


def recorded_units(jobs: str, resources: str) -> dict[str, ManagerUnit]:
    known = recorded_resources(resources)
    return {key: unit_of("c1", job, known) for key, job in recorded_jobs(jobs).items()}


def test_a_real_oar_2_5_is_read__case_users_36_37() -> None:
    units = recorded_units("oarstat2.json", "oarnodes2.json")

    first, array, killed, failed = units["1"], units["4"], units["2"], units["5"]
    assert sorted(units) == ["1", "2", "3", "4", "5"]
    assert (first.name, first.user, first.project, first.queue) == ('cfd a|b "q"', "kwalice", "proj1", "default")
    assert (first.submitted_at, first.started_at, first.ended_at) == (at(1796003004), at(1796003018), at(1796003047))
    assert (first.run, first.nodes, first.state) == ("1@1796003018", ("localhost",), "terminated")
    assert (array.tags["array_id"], array.tags["array_index"]) == ("3", "2")
    assert (killed.state, killed.queue, killed.tags["types"]) == ("error", "besteffort", "besteffort")
    assert "exit_code" not in killed.tags
    assert failed.tags["exit_code"] == "3"
    assert (failed.allocation.cpus, dict(failed.allocation.gpus), failed.allocation.nodes) == (2.0, {"a100": 2.0}, 1)


@pytest.mark.parametrize(
    ("jobs", "resources"),
    [("rest2_jobs.json", "rest2_resources.json"), ("rest3_jobs.json", "rest3_resources.json")],
)
def test_all_dialects_say_the_same_of_one_job(jobs: str, resources: str) -> None:
    expected = recorded_units("oarstat2.json", "oarnodes2.json")
    units = recorded_units(jobs, resources)

    assert {key: without_array(unit) for key, unit in units.items()} == {
        key: without_array(unit) for key, unit in expected.items()
    }


def without_array(unit: ManagerUnit) -> ManagerUnit:
    """REST of OAR 2 leaves a job's place in its array empty."""
    return replace(unit, tags={name: value for name, value in unit.tags.items() if not name.startswith("array")})


def test_the_commands_of_oar_3_name_no_place_and_none_is_made_up() -> None:
    expected = recorded_units("oarstat2.json", "oarnodes2.json")
    units = recorded_units("oarstat3.json", "oarnodes2.json")

    assert all(unit.nodes is None and unit.allocation.cpus is None for unit in units.values())
    assert {key: (u.run, u.user, u.project, u.queue, u.ended_at, u.name) for key, u in units.items()} == {
        key: (u.run, u.user, u.project, u.queue, u.ended_at, u.name) for key, u in expected.items()
    }


def test_gantt_s_made_up_ends_are_not_believed() -> None:
    running = {**JOB, "job_id": 7, "stop_time": 1_700_000_300, "state": "Running"}

    found, _ = jobs_of(running)

    assert found[0].ended_at is None
    assert recorded_jobs("gantt2.json")["5"].ended_at == at(1796003073)


@pytest.mark.parametrize(
    "record",
    [
        {**JOB, "state": "Waiting", "startTime": 0},
        {**JOB, "state": "Waiting", "reserved_resources": {"17": {"current_state": "Alive"}}, "assigned_resources": []},
        {**JOB, "state": "Hold", "startTime": None},
        {**JOB, "state": "toAckReservation"},
        {**JOB, "state": "toLaunch"},
        {**JOB, "state": "Error", "startTime": 0, "stopTime": 1_700_000_300},
        {**JOB, "startTime": "-1"},
        {**JOB, "startTime": "1970-01-01 00:00:00"},
        {**JOB, "startTime": ""},
    ],
)
def test_a_job_that_has_not_started_is_none(record: dict[str, Any]) -> None:
    found, faults = jobs_of(record)

    assert (found, faults.count) == ([], 0)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({**JOB, "Job_Id": "x"}, "expected an id"),
        ({**JOB, "Job_Id": True}, "expected an id"),
        ({**JOB, "state": None}, "job 42: expected a state"),
        ({**JOB, "startTime": "2026-10-25 02:30:00"}, "job 42: expected a start in epoch seconds (or set time_zone)"),
        ({**JOB, "state": "Terminated"}, "job 42: is terminated; expected an end after its start, found 0"),
        ({**JOB, "state": "Error", "stopTime": 1_699_999_999}, "job 42: is error; expected an end after its start"),
    ],
)
def test_a_job_that_cannot_be_read_is_counted_and_the_next_one_is_read(record: dict[str, Any], fault: str) -> None:
    found, faults = jobs_of(record, {**JOB, "Job_Id": 43})

    assert [job.job_id for job in found] == ["43"]
    assert faults.count == 1
    assert fault in faults.first[0]


def test_a_job_that_is_over_without_an_end_ended_with_its_last_event__case_users_56() -> None:
    events = [{"date": 1_700_000_050}, {"date": "1700000060"}, {"date": None}, "nothing"]

    found, _ = jobs_of({**JOB, "state": "Error", "events": events})

    assert found[0].ended_at == at(1_700_000_060)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-01-15 12:00:00", PARIS, datetime(2026, 1, 15, 11, tzinfo=UTC)),
        ("2026-07-15 12:00:00", PARIS, datetime(2026, 7, 15, 10, tzinfo=UTC)),
        ("2026-10-25 02:30:00", PARIS, datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-03-29 02:30:00", PARIS, datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("2026-07-15 12:00:00", None, None),
        ("2026-13-15 12:00:00", PARIS, None),
        (1_700_000_000, None, at(1_700_000_000)),
        ("1700000000", None, at(1_700_000_000)),
        (1_700_000_000.5, None, at(1_700_000_000).replace(microsecond=500_000)),
        (0, None, None),
        (-1, None, None),
        (None, None, None),
        (True, None, None),
        (1e300, None, None),
        (float("nan"), None, None),
    ],
)
def test_times_are_epoch_seconds_or_local_text_of_a_known_zone__case_users_48_49(
    text: object, zone: ZoneInfo | None, expected: datetime | None
) -> None:
    assert parse_time(text, zone) == expected


@pytest.mark.parametrize(
    ("value", "seconds"), [(7200, 7200.0), ("2:00:00", 7200.0), ("100:00:01", 360001.0), ("", None), (0, None)]
)
def test_walltime_is_seconds(value: object, seconds: float | None) -> None:
    assert parse_length(value) == seconds


def test_a_strange_state_passes_through_and_its_end_is_believed__case_users_34() -> None:
    found, _ = jobs_of({**JOB, "state": "Migrating"}, {**JOB, "Job_Id": 43, "state": "Gone", "stopTime": 1_700_000_009})

    assert [(job.state, job.ended_at) for job in found] == [("migrating", None), ("gone", at(1_700_000_009))]


@pytest.mark.parametrize("kind", ["deploy", "deploy=ubuntu", "cosystem", "desktop_computing"])
def test_a_job_whose_processes_run_elsewhere_is_bound_to_no_node(kind: str) -> None:
    found, _ = jobs_of({**JOB, "types": [kind], "assigned_network_address": ["n1"]})

    assert unit_of("c1", found[0], {}).nodes is None


def test_an_inner_job_names_its_container_and_a_resubmitted_one_its_first() -> None:
    found, _ = jobs_of({**JOB, "types": ["inner=40", "besteffort"], "resubmit_job_id": 41, "exit_code": 9})

    tags = unit_of("c1", found[0], {}).tags
    assert (tags["container"], tags["resubmit_of"], tags["exit_code"], tags["exit_signal"]) == ("40", "41", "0", "9")


def test_of_nodes_of_rest_only_those_assigned_count() -> None:
    nodes = [{"network_address": "n1", "status": "assigned"}, {"network_address": "n2", "status": "scheduled"}]

    found, _ = jobs_of({**JOB, "nodes": nodes, "resources": [{"id": 1, "status": "assigned"}]})

    assert (found[0].nodes, found[0].resources) == (("n1",), ("1",))


def resources_of(*records: dict[str, Any]) -> dict[str, Resource]:
    rows = [{"network_address": "n1", "state": "Alive", "resource_id": i + 1, **r} for i, r in enumerate(records)]
    return read_resources(rows, "oarnodes", NOW, Faults())


@pytest.mark.parametrize(
    ("records", "cpus", "gpus"),
    [
        ([{"cpuset": "0,16"}, {"cpuset": "1,17"}], 4.0, {}),
        ([{"cpuset": "0-3"}, {"cpuset": "4+5"}], 6.0, {}),
        ([{"cpuset": 0, "core": 1}, {"cpuset": 0, "core": 2}], 2.0, {}),
        ([{"cpuset": 0}, {"cpuset": 0, "network_address": "n2"}], 2.0, {}),
        ([{"cpuset": "server"}], None, {}),
        ([{"core": 1, "gpu": 0, "gpudevice": 0}], 1.0, {}),
        ([{"core": 1, "gpu": 5, "gpudevice": 0}, {"core": 2, "gpu": 5, "gpudevice": 0}], 2.0, {"gpu": 1.0}),
        ([{"gpudevice": 0, "gpu_model": "Tesla V100"}, {"gpudevice": 1}], None, {"tesla_v100": 1.0, "gpu": 1.0}),
        ([{"core": 1}, {"core": 2, "type": "disk"}], 1.0, {}),
    ],
)
def test_shared_cpus_and_gpus_count_once(records: list[dict[str, Any]], cpus: float | None, gpus: object) -> None:
    given_out = allocation_of(resources_of(*records).values())

    assert (given_out.cpus, given_out.gpus) == (cpus, gpus)


def test_a_job_with_a_resource_that_is_gone_has_no_sum() -> None:
    found, _ = jobs_of({**JOB, "assigned_resources": [1, 99], "assigned_network_address": ["n1"]})

    allocation = unit_of("c1", found[0], resources_of({"core": 1})).allocation

    assert (allocation.cpus, allocation.nodes) == (None, 1)


def test_nodes_say_their_state_and_why_they_take_no_jobs() -> None:
    rows: list[dict[str, Any]] = [
        {"core": 1, "jobs": "7"},
        {"core": 2, "state": "Suspected"},
        {"core": 3},
        {"core": 1, "network_address": "n2", "state": "Absent", "available_upto": 2147483646},
        {"core": 1, "network_address": "n3", "state": "Absent", "available_upto": 0},
        {"core": 1, "network_address": "n4", "drain": "YES"},
        {"core": 1, "network_address": "n5", "state": "Dead"},
    ]

    nodes = {node.name: node for node in nodes_of(resources_of(*rows).values())}

    assert {name: (node.state, node.is_schedulable, node.reason) for name, node in nodes.items()} == {
        "n1": ("alive", True, "1 of 3 suspected"),
        "n2": ("standby", True, "1 of 1 standby"),
        "n3": ("absent", False, "1 of 1 absent"),
        "n4": ("alive", False, "1 of 1 drained"),
        "n5": ("dead", False, "1 of 1 dead"),
    }
    assert nodes["n1"].cpus == 3.0
    assert nodes["n1"].allocated is not None
    assert nodes["n1"].allocated.cpus == 1.0
    assert nodes["n2"].allocated is not None
    assert nodes["n2"].allocated.cpus == 0.0


def test_rest_that_names_no_jobs_leaves_what_is_allocated_open() -> None:
    assert all(node.allocated is None for node in nodes_of(recorded_resources("rest2_resources.json").values()))


def test_latin_1_is_read_too__case_users_40() -> None:
    body = '{"items": [{"id": 1, "state": "Running", "start_time": 5, "name": "d\xe9j\xe0"}]}'.encode("latin-1")

    assert next(read_jobs(decode(body, "rest"), "rest", None, Faults())).name == "déjà"


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b'{"1": {"Job_Id"', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_is_told(body: bytes) -> None:
    with pytest.raises(SourceError, match="oarstat: expected JSON"):
        decode(body, "oarstat")


KEYS = st.sampled_from([*json.loads((RECORDED / "oarstat2.json").read_text())["1"], "id", "nodes", "cpuset", "jobs"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["Running", "0-9"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=6),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["1", "x", "items", "jobs"]), JSON, max_size=3) | st.lists(JSON) | JSON)
def test_any_json_is_jobs_or_faults(document: object) -> None:
    faults = Faults()
    try:
        units = [unit_of("c", job, {}) for job in read_jobs(document, "oarstat", PARIS, faults)]
        list(nodes_of(read_resources(document, "oarnodes", NOW, faults).values()))
    except SourceError:
        return
    assert all(u.started_at.tzinfo is UTC and (u.ended_at is None or u.ended_at >= u.started_at) for u in units)


@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_an_error(body: bytes) -> None:
    try:
        document = decode(body, "rest")
        list(read_jobs(document, "rest", None, Faults()))
    except SourceError:
        pass


@given(JSON)
def test_any_value_is_a_value_or_none(value: object) -> None:
    for parse in (parse_id, parse_number, parse_text, parse_length, parse_words, lambda v: parse_time(v, PARIS)):
        parse(value)
