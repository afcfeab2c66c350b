"""Every kind of record that sacct and slurmrestd tell, through the server's pass and the account to the API."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.account_site import SITE, HandClock
from tests.asgi_client import AsgiClient
from tests.databases import sqlite_engine
from tests.unit.server.test_manager_pass import Always

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.reader import Reader
from kwhere.reports.sources import Sources
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.slurm import Slurm, SlurmSettings
from kwhere.resource_managers.slurm_rest import SlurmRest
from kwhere.resource_managers.slurm_tokens import SlurmRestSettings
from kwhere.server.manager_pass import ManagerPass

NOW_S = 1_700_010_000
FIELDS = (
    *("JobIDRaw", "JobID", "Start", "End", "State", "Submit", "User", "UID", "Group", "Account", "Partition"),
    *("NodeList", "AllocTRES", "ElapsedRaw", "JobName", "Comment"),
)
PLAIN = {
    "Start": str(NOW_S - 3000),
    "End": str(NOW_S - 1000),
    "State": "COMPLETED",
    "Submit": str(NOW_S - 4000),
    "User": "alice",
    "UID": "1000",
    "Group": "g",
    "Account": "proj1",
    "Partition": "main",
    "NodeList": "n[1-2]",
    "AllocTRES": "cpu=4,mem=1G,node=2",
    "ElapsedRaw": "2000",
    "JobName": "x",
    "Comment": "",
}
NAMES = {
    "100": "a|b",
    "101": "a^|^b",
    "102": "two\nlines",
    "103": "\r\n",
    "104": "=1+1",
    "105": "\x1b[2J",
    "106": "\u202egnp.exe",
    "107": "<script>alert(1)</script>",
    "108": '"; DROP TABLE units;--',
    "109": "a\x1fb\x0bc\u2028d",
    "110": "aàb שלום 🚀",
    "111": "None",
}
JOBS: Mapping[str, Mapping[str, str]] = {
    **{number: {"JobName": name, "Comment": name} for number, name in NAMES.items()},
    "200": {"User": "", "UID": "1234"},
    "201": {"Account": ""},
    "202": {"State": "FOO"},
    "203": {"State": "CANCELLED by 0"},
    "204": {"JobID": "55_3"},
    "205": {"JobID": "56+1"},
    "206": {"NodeList": "n[1-"},
    "207": {"Start": str(NOW_S - 10), "End": "Unknown", "State": "RUNNING"},
    "208": {"End": "Unknown", "ElapsedRaw": "60"},
    "209": {"AllocTRES": "cpu=0,mem=0,node=0,gres/gpu=0", "ElapsedRaw": "0"},
    "210": {"AllocTRES": "cpu=1,gres/gpu:1g.10gb=1,gres/shard=4"},
    "211": {"End": str(NOW_S - 5000)},
    "212": {"JobName": "caf\udce9"},
}
NO_UNITS: Mapping[str, Mapping[str, str]] = {
    "300": {"JobID": "300.batch", "JobIDRaw": "300.batch"},
    "301": {"NodeList": "None assigned", "State": "REVOKED"},
    "302": {"Start": "Unknown", "End": "Unknown", "State": "RUNNING"},
    "303": {"Start": "Unknown", "End": "Unknown", "State": "PENDING", "JobID": "303_[0-4000000%9]"},
    "304": {"Start": "soon"},
}
_UNSET = {"set": False, "infinite": False, "number": 0}
_SACCT = """\
import json, sys
if sys.argv[1] == "--helpformat":
    print({fields!r})
    sys.exit()
delimiter = next(word for word in sys.argv if word.startswith("--delimiter="))[12:]
for record in json.load(open({file!r})):
    sys.stdout.buffer.write((delimiter.join(record) + "\\n").encode(errors="surrogateescape"))
"""


def commands(place: Path) -> Iterator[Slurm]:
    """SLURM by commands that tell of all of them, and of a torn record between."""
    told = [{"JobIDRaw": number, "JobID": number, **PLAIN, **job} for number, job in {**JOBS, **NO_UNITS}.items()]
    records = [[job[field] for field in (*FIELDS, "JobIDRaw")] for job in told]
    (place / "records").write_text(json.dumps([*records[:5], ["torn", "x"], *records[5:]]), encoding="utf-8")
    (place / "sacct.py").write_text(_SACCT.format(fields=" ".join(FIELDS), file=str(place / "records")))
    for program, line in {
        "sacct": f'exec {sys.executable} {place}/sacct.py "$@"',
        "scontrol": "echo 'ClusterName = c1'",
        **dict.fromkeys(("squeue", "sacctmgr"), "exit 0"),
    }.items():
        (place / program).write_text(f"#!/bin/sh\n{line}\n")
        (place / program).chmod(0o755)
    yield Slurm(SlurmSettings(manager="slurm", cluster="c1", programs_dir=place))


def as_json(number: str, changes: Mapping[str, str]) -> dict[str, object]:
    """Return a job as slurmrestd has it."""
    job = {"JobID": number, **PLAIN, **changes}
    times = {key: int(word) if word.isdecimal() else 0 for key, word in job.items()}
    array, _, task = job["JobID"].partition("_")
    het, _, offset = job["JobID"].partition("+")
    kinds = (part.partition("=") for part in job["AllocTRES"].replace("1G", "1024").split(","))
    return {
        "job_id": int(number),
        "state": {"current": [job["State"].split()[0]]},
        "nodes": job["NodeList"],
        "time": {"start": times["Start"], "end": times["End"], "elapsed": times["ElapsedRaw"]},
        "array": {"job_id": int(array), "task_id": int(task)} if task.isdecimal() else {"job_id": 0, "task_id": _UNSET},
        "het": {"job_id": int(het), "job_offset": int(offset)} if offset else {},
        "name": job["JobName"],
        "user": job["User"],
        "user_id": int(job["UID"]),
        "account": job["Account"],
        "comment": {"job": job["Comment"]},
        "tres": {
            "allocated": [
                dict(zip(("type", "name"), key.split("/", 1), strict=False), count=int(count))
                for key, _, count in kinds
            ]
        },
    }


def rest(place: Path) -> Iterator[SlurmRest]:
    """SLURM by a slurmrestd that tells of all of them but what it has no form for: steps and torn records."""
    jobs = [as_json(number, job) for number, job in {**JOBS, **NO_UNITS}.items() if number != "300"]
    said = json.dumps({"jobs": jobs}, ensure_ascii=False).encode(errors="surrogateescape")

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = said if "/slurmdb/" in self.path and "/jobs" in self.path else b""
            self.send_response(200 if body else 204)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    (place / "key").write_bytes(b"k" * 32)
    settings = SlurmRestSettings(url=f"http://127.0.0.1:{server.server_port}", key_file=place / "key")
    yield SlurmRest(settings, "c1", None, (), HandClock(NOW_S * NANOSECONDS_PER_SECOND))
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module", params=[commands, rest], ids=["commands", "slurmrestd"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsgiClient]:
    """The API after one look at a SLURM."""
    place = tmp_path_factory.mktemp("slurm")
    engine, clock = sqlite_engine(place / "account.sqlite"), HandClock(NOW_S * NANOSECONDS_PER_SECOND)
    settings = SlurmSettings(manager="slurm", cluster="c1", backfill_days=0.2)
    for source in request.param(place):
        ManagerPass(engine, BuiltManager(settings=settings, source=source, claims="slurm"), clock).run(Always())
        source.close()
    sources = Sources(account=Reader(engine, clock, SITE), clock=clock, version="1")
    yield AsgiClient(build_app(sources, GuardRules(hosts=frozenset({"testserver"}))))
    engine.dispose()


@pytest.fixture
def units(client: AsgiClient) -> dict[str, dict[str, Any]]:
    answer = client.get("/api/v1/units", params={"limit": "1000"})
    return {item["unit"]: item for item in answer.json()["items"]}


def test_each_job_is_a_unit_and_nothing_else_is(units: dict[str, dict[str, Any]]) -> None:
    assert set(units) == set(JOBS)


@pytest.mark.parametrize(("number", "name"), NAMES.items(), ids=lambda word: ascii(word)[:20])
def test_names_come_whole_case_users_36_37_39_40(units: dict[str, dict[str, Any]], number: str, name: str) -> None:
    assert units[number]["name"] == name


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [
        pytest.param("200", "user", "unknown (uid 1234)", id="case_users_44"),
        pytest.param("201", "project", None, id="case_users_44_no_association"),
        pytest.param("202", "state", "foo", id="case_users_34_strange"),
        pytest.param("203", "state", "cancelled", id="case_users_34_by"),
        pytest.param("204", "labels", {"array_job": "55", "job": "55_3"}, id="case_users_27"),
        pytest.param("205", "labels", {"het_job": "56", "job": "56+1"}, id="case_users_26"),
        pytest.param("206", "nodes", [], id="case_users_6_3"),
        pytest.param("207", "ended_at", None, id="case_users_56_running"),
        pytest.param("208", "ended_at", "2023-11-15T00:11:00Z", id="case_users_56_over"),
        pytest.param("209", "cpu_efficiency_ratio", None, id="case_users_9"),
        pytest.param("211", "elapsed_seconds", 2000.0, id="case_users_48_ends_before_it_starts"),
        pytest.param("212", "name", "caf\ufffd", id="case_users_40_no_text"),
    ],
)
def test_what_is_told_of_them(units: dict[str, dict[str, Any]], number: str, field: str, value: object) -> None:
    assert units[number][field] == value


def test_only_whole_gpus_and_instances_count_case_users_18(units: dict[str, dict[str, Any]]) -> None:
    assert units["210"]["allocation"]["gpus"] == {"1g.10gb": 1.0}
    assert units["209"]["allocation"]["gpus"] == {}


def test_each_is_found_and_stands_in_csv(client: AsgiClient, units: dict[str, dict[str, Any]]) -> None:
    rows = csv.DictReader(io.StringIO(client.get("/api/v1/units", params={"format": "csv"}).text, newline=""))

    assert {row["unit"] for row in rows} == set(units)
    assert all(client.get(f"/api/v1/units/c1/slurm/{unit}").status_code == 200 for unit in units)
