"""What no column of a database holds takes no good record with it: a manager that tells it is read on all the same."""

from collections.abc import Mapping

import pytest
from sqlalchemy import Engine, select
from tests.account_site import Site, worked_case
from tests.journals import T0_NS, HandJournal
from tests.managed_site import tell, turn_of

from kwhere.core.managed import ManagerUnit
from kwhere.database import schema
from kwhere.database.inventory import note_inventory_error
from kwhere.database.managed_units import write_accounts, write_nodes
from kwhere.database.manager_states import note_error
from kwhere.database.nodes import record_failure, record_target_failure
from kwhere.database.waiting import write_queue
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_json import read_accounts, read_jobs, read_nodes
from kwhere.resource_managers.slurm_known import RecordReader
from kwhere.resource_managers.slurm_queue import read_queue_json
from kwhere.resource_managers.slurm_sacct import NEEDED, WANTED, Faults, Table

HALF = "\ud800"
"""Half of a pair, as JSON may escape it: no text in UTF-8."""
HUGE = 2**63
DELIMITER = "\x1fd\x1f"
FIELDS = (*NEEDED, *WANTED, "JobIDRaw")
_SACCT: tuple[Mapping[str, str], ...] = (
    {"AllocTRES": "cpu=1P,mem=999999999999999999E,node=999999999999999999P,gres/gpu=999999999999999999P"},
    {"AllocTRES": "", "AllocNodes": "999999999999", "AllocCPUS": "999999999999", "ReqMem": f"{'9' * 24}Yc"},
    {"JobName": "a\0b\x1b[2J", "User": "al\0ice", "Account": "x" * 5000, "Comment": "\0", "QOS": "q" * 9999},
    {"State": "S" * 500, "Partition": "p" * 9999, "Group": "g" * 9999},
    {"State": "\0", "NodeList": "n" * 5000},
    {"End": "253402300799", "Submit": "1", "ElapsedRaw": "999999999999"},
    {"JobID": "9" * 18, "JobIDRaw": "9" * 18},
    {"UID": "9999999999", "User": ""},
    {"SLUID": "s" + "0" * 9999},
    {"SLUID": "\0"},
    {"SLUID": HALF},
)
_JOBS: tuple[Mapping[str, object], ...] = (
    {"job_id": HUGE},
    {"sluid": HALF},
    {"sluid": "\0"},
    {"name": HALF, "user": HALF, "account": HALF, "group": HALF, "partition": HALF, "comment": {"job": HALF}},
    {"nodes": f"n{HALF}"},
    {"state": {"current": [HALF]}},
    {"user_id": HUGE},
    {"time": {"start": 253402300799, "end": 253402300799}},
    {"tres": {"allocated": [{"type": kind, "count": HUGE} for kind in ("cpu", "mem", "node")]}},
    {"tres": {"allocated": [{"type": "gres", "name": f"gpu:{HALF}", "count": HUGE}]}},
)
_WAITING: tuple[Mapping[str, object], ...] = (
    {"user_name": HALF, "account": HALF, "name": HALF, "partition": HALF, "state_reason": HALF, "comment": HALF},
    {"node_count": 2**40, "priority": HUGE},
    {"tres_req_str": f"cpu=1P,mem={'9' * 18}P,node={'9' * 18}P,gres/gpu=9P"},
    {"submit_time": 253402300799, "start_time": 253402300799},
    {"array_job_id": 3, "array_task_string": "0-99999999999999999"},
)
_NODES: tuple[Mapping[str, object], ...] = (
    {"name": HALF},
    {"name": "n\0"},
    {"reason": HALF, "features": [HALF], "partitions": [HALF], "state": [HALF]},
    {"cpus": HUGE, "alloc_cpus": HUGE, "real_memory": HUGE, "alloc_memory": HUGE},
)


def of_sacct(number: int, changes: Mapping[str, str]) -> list[ManagerUnit]:
    values = dict.fromkeys(FIELDS, "") | {
        "JobIDRaw": str(number),
        "JobID": str(number),
        "Start": "1700000000",
        "End": "1700000060",
        "State": "COMPLETED",
        "NodeList": "n1",
        **changes,
    }
    line = DELIMITER.join(values[field] for field in FIELDS) + "\n"
    found = RecordReader(JobReader("c1")).read(line, Table(FIELDS, DELIMITER), Faults())
    return [unit for unit in found if unit is not None]


def of_slurmrestd(*jobs: Mapping[str, object]) -> list[ManagerUnit]:
    plain = {"state": {"current": ["COMPLETED"]}, "nodes": "n1", "time": {"start": 1_700_000_000}}
    document = {"jobs": [{"job_id": 1000 + place, **plain, **job} for place, job in enumerate(jobs)]}
    read = [JobReader("c1").unit_of(job) for job in read_jobs(document, Faults())]
    return [unit for unit in read if unit is not None]


def kept(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return set(connection.execute(select(schema.units.c.unit)).scalars())


@pytest.mark.parametrize("changes", [{}, {"SLUID": "s0K3M7QW2X9ZAB"}])
def test_jobs_of_sacct(engine: Engine, changes: Mapping[str, str]) -> None:
    damaged = [unit for number, each in enumerate(_SACCT, 100) for unit in of_sacct(number, each)]

    tell(engine, *damaged, *of_sacct(42, changes))

    assert {"42", *(str(number) for number in range(100, 105))} < kept(engine)


def test_jobs_of_slurmrestd(engine: Engine) -> None:
    tell(engine, *of_slurmrestd(*_JOBS, {"job_id": 42}))

    assert {"42", "1001", "1002", "1003"} < kept(engine)


def test_jobs_that_wait(engine: Engine) -> None:
    jobs = [{"job_id": 1 + place, "job_state": ["PENDING"], **job} for place, job in enumerate((*_WAITING, {}))]

    count = write_queue(engine, turn_of(engine, T0_NS), read_queue_json({"jobs": jobs}, "c1", (), Faults()).waiting)

    assert count == len(jobs)


def test_nodes(engine: Engine) -> None:
    nodes = [{"name": f"n{place}", "state": ["IDLE"], **node} for place, node in enumerate((*_NODES, {}))]

    write_nodes(engine, turn_of(engine, T0_NS), [*read_nodes({"nodes": nodes})])

    with engine.connect() as connection:
        assert set(connection.execute(select(schema.manager_nodes.c.name)).scalars()) == {"n2", "n3", "n4"}


@pytest.mark.parametrize("word", [HALF, "\0", "a\0b", "x" * 300])
def test_accounts(engine: Engine, word: str) -> None:
    associations = [
        {"account": word, "user": word, "parent_account": word},
        {"account": word, "parent_account": word},
        {"account": "proj1", "user": "alice", "parent_account": word},
    ]
    found = read_accounts({"associations": associations}, {"accounts": [{"name": word, "description": word}]}, None)

    write_accounts(engine, turn_of(engine, T0_NS), found)

    with engine.connect() as connection:
        assert set(connection.execute(select(schema.projects.c.name)).scalars()) == {"proj1"}


@pytest.mark.parametrize("words", [f"sacct: {HALF}", "a\0b", "x" * 5000])
def test_why_a_source_cannot_be_read_is_any_text(engine: Engine, words: str) -> None:
    note_error(engine, turn_of(engine, T0_NS), words)
    note_inventory_error(engine, "csv", 0, words, T0_NS)
    record_target_failure(engine, "nodes", words, T0_NS)

    with engine.connect() as connection:
        for table in (schema.manager_states, schema.inventory_sources):
            (error,) = connection.execute(select(table.c.error)).scalars()
            assert 0 < len(error) <= 1000


def test_a_long_fault_of_a_node_is_news_once(engine: Engine) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal(node="n1")))

    with engine.begin() as connection:
        node_id = connection.execute(select(schema.nodes.c.id)).scalar_one()
        news = [record_failure(connection, node_id, "why\0" * 1000, now_ns) for now_ns in (T0_NS, T0_NS + 1)]

    assert news == [True, False]
