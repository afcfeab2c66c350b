"""AdminComment by slurmrestd v0.0.44 and later, played by a server of ours; older versions are refused at the start."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.account_site import HandClock

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.resource_managers.notes import NotedRun, NoteSettings
from kwhere.resource_managers.registry import find_managers
from kwhere.resource_managers.resource_manager import NotingManager
from kwhere.resource_managers.slurm_rest_comments import RestComments

BEGAN = 1_796_000_000
START = datetime.fromtimestamp(BEGAN, UTC)
META = {"meta": {"slurm": {"release": "25.11.0"}}, "warnings": []}


def job(raw: int, shown: str = "", comment: str = "", **changes: Any) -> dict[str, Any]:
    """Return a job as `/slurmdb/v0.0.44/job/{job_id}` has it."""
    array, _, task = shown.partition("_")
    het, _, offset = shown.partition("+")
    times = {"submission": BEGAN - 5, "start": BEGAN, "end": BEGAN + 60, "elapsed": 60, **changes.pop("time", {})}
    number = {"set": True, "infinite": False}
    return {
        "job_id": raw,
        "cluster": "big",
        "array": {
            "job_id": int(array) if task else 0,
            "task_id": {**number, "set": bool(task), "number": int(task or 0)},
        },
        "het": {"job_id": int(het) if offset else 0, "job_offset": {**number, "number": int(offset or 0)}},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": times,
        "comment": {"administrator": comment, "job": "the user's own", "system": ""},
        **changes,
    }


def is_meant(record: dict[str, Any], ident: str) -> bool:
    """Return whether SLURM takes an id for a job: the number of an array or of a heterogeneous job is all of it."""
    array, het = record["array"], record["het"]
    if "_" in ident:
        return bool(array["job_id"]) and ident == f"{array['job_id']}_{array['task_id']['number']}"
    if "+" in ident:
        return bool(het["job_id"]) and ident == f"{het['job_id']}+{het['job_offset']['number']}"
    return int(ident) in (record["job_id"], array["job_id"], het["job_id"])


class Accounting(BaseHTTPRequestHandler):
    """slurmdbd's jobs behind slurmrestd; an operator's token may change them."""

    jobs: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[str]] = []
    is_operator: ClassVar[bool] = True

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.answer(200, {**META, "jobs": self.meant(), "errors": []})

    def do_POST(self) -> None:
        self.asked.append(f"POST {self.path}")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_operator:
            error = {"error_number": 1007, "error": "Access/permission denied", "source": "slurmdb_job_modify()"}
            self.answer(500, {**META, "results": [], "errors": [error]})
            return
        found = self.meant()
        for each in found:
            each["comment"]["administrator"] = body["comment"]["administrator"]
        self.answer(200, {**META, "results": [f"{each['job_id']} submitted at 1" for each in found], "errors": []})

    def meant(self) -> list[dict[str, Any]]:
        assert self.path.startswith("/slurmdb/v0.0.44/job/")
        ident = unquote(self.path.rpartition("/")[2])
        return [each for each in self.jobs if is_meant(each, ident)]

    def answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def accounting() -> Iterator[str]:
    Accounting.jobs, Accounting.asked, Accounting.is_operator = [], [], True
    server = ThreadingHTTPServer(("127.0.0.1", 0), Accounting)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def manager_of(url: str, directory: Path, version: str = "v0.0.44", **settings: Any) -> NotingManager:
    key = directory / "key"
    key.write_bytes(b"k" * 32)
    rest = {"url": url, "version": version, "key_file": str(key)}
    entry = {"manager": "slurm", "cluster": "c1", "rest": rest, "admin_comment": {}, **settings}
    (built,) = find_managers(outside=()).build([entry], HandClock(0))
    assert isinstance(built.source, NotingManager)
    return built.source


def comments_of(url: str, directory: Path, **settings: Any) -> RestComments:
    notes = manager_of(url, directory, **settings).notes
    assert isinstance(notes, RestComments)
    return notes


def run(unit: str, shown: str = "") -> NotedRun:
    return NotedRun(unit, shown or unit, START)


def test_what_stands_is_read_and_one_job_is_written(accounting: str, tmp_path: Path) -> None:
    Accounting.jobs = [job(41, "40_1"), job(40, "40_2", "JS1:abc"), job(50, "50+0"), job(51, "50+1"), job(60)]
    comments = comments_of(accounting, tmp_path)
    runs = [run("41", "40_1"), run("40", "40_2"), run("51", "50+1"), run("60")]

    assert comments.read(runs) == dict(zip(runs, ["", "JS1:abc", "", ""], strict=True))
    comments.write(runs[1], "JS1:abc kwhere1:kwh=1;x=2")
    comments.write(runs[2], "kwhere1:kwh=2")

    stands = {each["job_id"]: each["comment"]["administrator"] for each in Accounting.jobs}
    assert stands == {41: "", 40: "JS1:abc kwhere1:kwh=1;x=2", 50: "", 51: "kwhere1:kwh=2", 60: ""}
    assert Accounting.asked[-1] == "POST /slurmdb/v0.0.44/job/50%2B1"


@pytest.mark.parametrize(
    "answered",
    [
        [],
        [job(42, time={"start": BEGAN + 1})],  # another run of the same id
        [job(42, time={"end": 0}, state={"current": ["RUNNING"]})],
        [job(42, state={"current": ["REQUEUED"]})],
        [job(43, "42_1")],
        [job(42, cluster="small")],
        [job(42), job(42, time={"submission": BEGAN + 70, "start": BEGAN + 80, "end": 0})],  # requeued since
    ],
)
def test_what_is_not_that_run_cannot_be_written_about(
    accounting: str, tmp_path: Path, answered: list[dict[str, Any]]
) -> None:
    Accounting.jobs = answered

    assert comments_of(accounting, tmp_path, slurm_cluster="big").read([run("42")]) == {}


def test_a_record_that_cannot_be_read_may_be_the_newest(accounting: str, tmp_path: Path) -> None:
    Accounting.jobs = [job(42), job(42, time={"submission": BEGAN + 70, "start": "soon"})]

    with pytest.raises(SourceError, match="job 42: expected records, found"):
        comments_of(accounting, tmp_path).read([run("42")])


@pytest.mark.parametrize(("jobs", "count"), [([], 0), ([job(41, "42_1"), job(42, "42_2")], 2)])
def test_other_than_one_job_is_a_fault(accounting: str, tmp_path: Path, jobs: list[dict[str, Any]], count: int) -> None:
    Accounting.jobs = jobs

    with pytest.raises(SourceError, match=f"job 42: expected one job to be changed, found {count}"):
        comments_of(accounting, tmp_path).write(run("42"), "x")


def test_who_is_no_operator_is_told(accounting: str, tmp_path: Path) -> None:
    Accounting.jobs, Accounting.is_operator = [job(42)], False

    with pytest.raises(Unavailable, match="denied") as caught:
        comments_of(accounting, tmp_path).write(run("42"), "x")

    assert caught.value.reason == "permission"


@pytest.mark.parametrize("text", ["it's", 'a"b', "a\\b", "a\nb", "é", ""])
def test_signs_that_slurm_changes_are_not_sent(accounting: str, tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match="AdminComment"):
        comments_of(accounting, tmp_path).write(run("42"), text)
    assert Accounting.asked == []


@pytest.mark.parametrize("shown", ["42/../jobs", "42,43", "", "42_[1-3]", "42.batch"])
def test_an_id_that_may_mean_more_is_not_asked_for(accounting: str, tmp_path: Path, shown: str) -> None:
    assert comments_of(accounting, tmp_path).read([NotedRun("42", shown, START)]) == {}
    assert Accounting.asked == []


def test_versions_that_cannot_write_it_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^resource_managers\.0\.admin_comment: expected rest.version v0\.0\.44"):
        manager_of("http://127.0.0.1:6820", tmp_path, "v0.0.43")


@pytest.mark.parametrize("version", ["v0.0.36", "v0.0.37"])
def test_versions_that_do_not_tell_when_jobs_began_stop_the_start(tmp_path: Path, version: str) -> None:
    with pytest.raises(ConfigError, match=r"^resource_managers\.0\.rest\.version: expected v0\.0\.38 or later"):
        manager_of("http://127.0.0.1:6820", tmp_path, version)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_answer_is_read_or_refused(answer: object) -> None:
    comments = RestComments(
        NoteSettings(), lambda *_: {"jobs": [{"job_id": 42, "comment": answer}, answer]}, "v0.0.44", None
    )

    try:
        told = set(comments.read([run("42")]))
    except SourceError:
        return  # the answer holds a record that cannot be read

    assert told <= {run("42")}
