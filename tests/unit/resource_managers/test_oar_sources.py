"""How OAR is asked: by its commands, and by REST page by page."""

import base64
import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from structlog.testing import capture_logs
from tests.emission_services import Asked, HandClock, Said, said, serving

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.managed import Accounts
from kwhere.core.timespan import Span
from kwhere.resource_managers.oar import OarManager, build
from kwhere.resource_managers.oar_fields import Faults
from kwhere.resource_managers.oar_queue import InHand, asked_for, read_in_hand
from kwhere.resource_managers.oar_settings import OarSettings
from kwhere.resource_managers.resource_manager import QueueingManager

RECORDED = Path(__file__).parents[2] / "fixtures" / "oar"
START = datetime.fromtimestamp(1_796_000_000, UTC)
SPAN = Span(START, START + timedelta(hours=1))
CLAUSE = "jobs.start_time > 0 AND jobs.start_time < 1796003601 AND (jobs.stop_time = 0 OR jobs.stop_time >= 1796000000)"
Fake = Callable[[str], OarManager]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Return what makes a manager whose commands are run by a shell script."""

    def make(script: str) -> OarManager:
        (tmp_path / "run").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "run").chmod(0o755)
        prefix = (str(tmp_path / "run"),)
        settings = OarSettings(manager="oar", cluster="c1", command_prefix=prefix, command_timeout_seconds=5)
        return build(settings, HandClock())

    return make


def test_the_commands_are_asked_in_epoch_seconds(fake: Fake, tmp_path: Path) -> None:
    manager = fake(
        f'echo "$@" >> {tmp_path}/asked\n'
        f"case $1 in oarnodes) cat {RECORDED}/oarnodes2.json;; oarstat) cat {RECORDED}/oarstat2.json;; esac"
    )

    units = list(manager.fetch_units(SPAN))

    assert sorted(unit.unit for unit in units) == ["1", "2", "3", "4", "5"]
    assert (tmp_path / "asked").read_text().splitlines() == [
        "oarnodes -J",
        "oarstat -V",
        f"oarstat -J -f --sql {CLAUSE}",
    ]


OAR_3 = """case "$*" in
  "oarstat -V") echo 'OAR version : 3.0.0.dev13';;
  oarnodes*) echo '[]';;
  *[!.]start_time*) echo 'column reference "start_time" is ambiguous' >&2; exit 1;;
  *--gantt*) cat {recorded}/oarstat3.json;;
  *) echo '{{}}';;
esac"""
"""What its oarstat does: jobs that are over are told only where a span is named, and columns are of several tables."""


def test_oar_3_tells_jobs_that_are_over_only_within_a_span(fake: Fake, tmp_path: Path) -> None:
    manager = fake(f'echo "$@" >> {tmp_path}/asked\n{OAR_3.format(recorded=RECORDED)}')

    units = [*manager.fetch_units(SPAN), *manager.fetch_units(SPAN)]

    assert sorted(unit.unit for unit in units) == sorted(["1", "2", "3", "4", "5"] * 2)
    assert {unit.state for unit in units} == {"terminated", "error"}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked.count("oarstat -V") == 1
    assert asked[-1] == f"oarstat -J -f --gantt 1970-01-02 00:00:00, 2037-12-31 00:00:00 --sql {CLAUSE}"


def test_jobs_outside_the_span_are_left_out_whatever_was_answered(fake: Fake) -> None:
    manager = fake(f"[ $1 = oarnodes ] || cat {RECORDED}/oarstat2.json")
    span = Span(START + timedelta(seconds=3050), START + timedelta(seconds=3060))

    assert [unit.unit for unit in manager.fetch_units(span)] == ["2"]


def test_nothing_printed_is_no_job__case_users_45(fake: Fake) -> None:
    assert list(fake("exit 0").fetch_units(SPAN)) == []


@pytest.mark.parametrize(
    ("script", "reason", "message"),
    [
        ("echo 'DBI connect failed: refused' >&2", "remote", "oarnodes -J: DBI connect failed: refused"),
        ("echo 'syntax error' >&2; exit 255", "remote", "oarnodes -J: syntax error"),
        ("exit 3", "remote", "oarnodes -J: exit code 3"),
        ("exec sleep 60", "timeout", "oarnodes -J: no end within 0.2 s"),
    ],
)
def test_a_command_that_fails_silently_or_not_is_no_empty_answer__case_users_45(
    tmp_path: Path, script: str, reason: str, message: str
) -> None:
    (tmp_path / "run").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "run").chmod(0o755)
    seconds = 0.2 if reason == "timeout" else 5
    prefix = (str(tmp_path / "run"),)
    settings = OarSettings(manager="oar", cluster="c1", command_prefix=prefix, command_timeout_seconds=seconds)

    with pytest.raises(Unavailable, match=message) as caught:
        list(build(settings, HandClock()).fetch_units(SPAN))
    assert caught.value.reason == reason


def test_commands_that_are_absent_are_named(tmp_path: Path) -> None:
    settings = OarSettings(manager="oar", cluster="c1", command_prefix=(str(tmp_path / "none"),))

    with pytest.raises(Unavailable, match="none: No such file"):
        build(settings, HandClock()).fetch_nodes()


def test_text_cut_off_is_told_with_what_the_command_complained_of(fake: Fake) -> None:
    with pytest.raises(SourceError, match=r"oarnodes -J: expected JSON, found .*; killed"):
        list(fake("echo '{\"1\": '; echo killed >&2").fetch_units(SPAN))


def test_faults_and_strange_states_are_logged_once(fake: Fake) -> None:
    jobs = {
        "1": {"state": "Odd", "startTime": 1_796_000_000},
        "2": {"state": "Odd", "startTime": 1_796_000_001},
        "3": 5,
    }
    manager = fake(f"[ $1 = oarnodes ] || echo '{json.dumps(jobs)}'")

    with capture_logs() as logs:
        units = list(manager.fetch_units(SPAN))

    assert [unit.unit for unit in units] == ["1", "2"]
    assert [entry["event"] for entry in logs] == ["job state is none that is known", "jobs left out"]
    assert logs[1]["count"] == 1


def test_resources_are_asked_for_again_when_they_are_old(tmp_path: Path) -> None:
    (tmp_path / "run").write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/asked\n")
    (tmp_path / "run").chmod(0o755)
    clock = HandClock()
    prefix = (str(tmp_path / "run"),)
    manager = build(OarSettings(manager="oar", cluster="c1", command_prefix=prefix, resources_seconds=600), clock)

    for _ in range(2):
        list(manager.fetch_units(SPAN))
    clock.ahead(seconds=601)
    list(manager.fetch_units(SPAN))

    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["oarnodes", "oarstat", "oarstat", "oarstat", "oarnodes", "oarstat"]  # once for the version
    assert manager.fetch_accounts() == Accounts()


def rest(url: str, clock: HandClock, version: str = "2", **more: Any) -> OarManager:
    settings = {"manager": "oar", "cluster": "c1", "url": url, "version": version, "page_size": 2, **more}
    return build(OarSettings.model_validate(settings), clock)


def paged(jobs: str, resources: str, *, links: bool) -> Callable[[Asked], Said]:
    """Return a service that pages what was recorded: OAR 2 with links, OAR 3 with 404 after the end."""

    def route(asked: Asked) -> Said:
        name = jobs if asked.path.startswith("/oarapi/jobs") else resources
        document = json.loads((RECORDED / name).read_text())
        offset, limit = int(asked.query["offset"]), int(asked.query["limit"])
        items = document["items"][offset : offset + limit]
        if not items and offset and not links:
            return said({"detail": "Empty request"}, 404)
        page: dict[str, Any] = {"items": items}
        if links:
            page["links"] = [{"rel": "self"}] + ([{"rel": "next"}] if offset + limit < len(document["items"]) else [])
            page["total"] = 1  # OAR 2 counts otherwise than it lists: its link is what tells
        return said(page)

    return route


@pytest.mark.parametrize(
    ("version", "path", "links"), [("2", "/oarapi/jobs/details.json", True), ("3", "/oarapi/jobs/", False)]
)
def test_rest_is_read_page_by_page(version: str, path: str, links: bool) -> None:
    clock = HandClock()
    with serving(paged(f"rest{version}_jobs.json", f"rest{version}_resources.json", links=links), clock) as service:
        manager = rest(f"{service.url}/oarapi", clock, version)
        units = list(manager.fetch_units(SPAN))
        nodes = manager.fetch_nodes()
        manager.close()

    assert sorted(unit.unit for unit in units) == ["1", "2", "3", "4", "5"]
    assert all(unit.allocation.cpus for unit in units)
    assert [node.name for node in nodes] == ["127.0.0.2", "localhost"]
    asked = [each for each in service.asked if each.path == path]
    assert [each.query["offset"] for each in asked][:3] == ["0", "2", "4"]
    words = ("from", "to") if version == "2" else ("start_time", "stop_time")
    assert [asked[0].query[word] for word in words] == ["1796000000", "1796003601"]


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_page_that_comes_again_is_not_read_for_ever(version: str) -> None:
    clock = HandClock()
    page = {"items": [{"id": 1, "state": "Running"}, {"id": 2, "state": "Running"}], "links": [{"rel": "next"}]}
    with serving(lambda _: said(page), clock) as service:
        manager = rest(f"{service.url}/oarapi", clock, version)
        for ask in (manager.fetch_queue, manager.fetch_nodes):
            with pytest.raises(SourceError, match="found the same page again"):
                ask()

    assert len(service.asked) <= 5


def test_the_404_after_oar_3_s_last_full_page_is_the_end() -> None:
    clock = HandClock()
    with serving(paged("rest3_jobs.json", "rest3_resources.json", links=False), clock) as service:
        units = list(rest(f"{service.url}/oarapi", clock, "3", page_size=5).fetch_units(SPAN))

    assert len(units) == 5
    assert service.asked[-1].query["offset"] == "5"


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (Said(b"", 401), Unavailable, "HTTP status 401"),
        (Said(b"", 404), Unavailable, "HTTP status 404"),
        (Said(b"<html>", 502), Unavailable, "HTTP status 502"),
        (Said(b"<html>login</html>"), SourceError, "expected JSON, found '<html>login"),
        (Said(b"[]"), SourceError, "expected an object with items"),
        (Said(b'{"items": [', closes=True), Unavailable, "/resources/details.json: "),
    ],
)
def test_rest_that_fails_is_told(fault: Said, kind: type[Exception], message: str) -> None:
    clock = HandClock()
    with serving(lambda _: fault, clock) as service, pytest.raises(kind, match=message):
        rest(service.url, clock).fetch_nodes()


@pytest.mark.parametrize(("status", "is_told"), [(403, True), (404, True), (502, False)])
def test_jobs_are_told_without_resources_only_where_these_are_closed_for_good(status: int, is_told: bool) -> None:
    jobs = paged("rest2_jobs.json", "rest2_resources.json", links=True)
    clock = HandClock()
    with serving(lambda asked: Said(b"", status) if "resources" in asked.path else jobs(asked), clock) as service:
        manager = rest(f"{service.url}/oarapi", clock)
        if not is_told:
            with pytest.raises(Unavailable):
                list(manager.fetch_units(SPAN))
            return
        with capture_logs() as logs:
            units = [*manager.fetch_units(SPAN), *manager.fetch_units(SPAN)]

    assert len(units) == 10
    assert all(unit.allocation.cpus is None and unit.nodes == ("localhost",) for unit in units)
    assert [entry["event"] for entry in logs] == ["jobs are told without CPUs"]


def test_a_renewed_token_is_sent_without_a_restart(tmp_path: Path) -> None:
    clock = HandClock()
    token = tmp_path / "token"
    with serving(lambda _: said({"items": []}), clock) as service:
        token.write_text("first\n")
        manager = rest(service.url, clock, "3", http={"token_file": str(token)})
        manager.fetch_nodes()
        token.write_text("second\n")
        manager.fetch_nodes()

    assert [asked.headers["authorization"] for asked in service.asked] == ["Bearer first", "Bearer second"]


def test_a_login_is_sent_and_never_shown(tmp_path: Path) -> None:
    clock = HandClock()
    login = tmp_path / "login"
    login.write_text("kwhere:s3cret:\u00e9\n")
    with serving(lambda _: Said(b"no", 403), clock) as service:
        manager = rest(service.url, clock, login_file=str(login))
        with pytest.raises(Unavailable) as caught:
            manager.fetch_nodes()

    shown = base64.b64decode(service.asked[0].headers["authorization"].removeprefix("Basic ")).decode()
    assert shown == "kwhere:s3cret:\u00e9"
    assert "s3cret" not in str(caught.value)
    assert caught.value.reason == "permission"


@pytest.mark.parametrize("text", ["no colon", "a:b\nc:d", None])
def test_a_login_file_that_is_none_is_told_without_its_text(tmp_path: Path, text: str | None) -> None:
    login = tmp_path / "login"
    if text is not None:
        login.write_text(text)

    with pytest.raises(Unavailable, match="login_file") as caught:
        rest("http://127.0.0.1:9", HandClock(), login_file=str(login)).fetch_nodes()
    assert "b\nc" not in str(caught.value)


def test_a_secret_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="https"):
        rest("http://oar.example/oarapi", HandClock(), login_file=str(tmp_path / "login"))


@pytest.mark.parametrize(("version", "meant"), [(2, "2"), (3, "3"), ("3", "3")])
def test_a_version_may_stand_there_as_people_write_it(version: object, meant: str) -> None:
    assert OarSettings.model_validate({"manager": "oar", "cluster": "c1", "version": version}).version == meant


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 4},
        {"version": 2.5},
        {"version": True},
        {"time_zone": "Mars/Olympus"},
        {"version": "4"},
        {"login_file": "/a", "http": {"token_file": "/b"}},
        {"colour": 1},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OarSettings.model_validate({"manager": "oar", "cluster": "c1", **wrong})


WAITS = {
    "42": {
        "Job_Id": 42, "state": "Waiting", "owner": "alice", "project": "cfd", "queue": "default", "name": "a|b",
        "submissionTime": 1796003004, "startTime": 0, "scheduledStart": 1796009999, "types": ["besteffort"],
        "message": "R=8,W=0:5:0,J=B (Karma=0.000,quota_ok)", "array_id": 41,
        "wanted_resources": "-l \"{type = 'default'}/host=2/core=4,walltime=0:5:0\" ",
    },
    "43": {"Job_Id": 43, "state": "Running", "owner": "bob", "startTime": 1796003004},
    "44": {"Job_Id": 44, "state": "Terminated", "owner": "bob", "startTime": 1796003004, "stopTime": 1796003005},
    "45": {"Job_Id": 45, "state": "Hold", "owner": "bob"},
}  # fmt: skip


def test_what_waits_and_what_lives(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(json.dumps(WAITS))
    manager = fake(f'echo "$@" >> {tmp_path}/asked\ncat {tmp_path}/jobs')

    queue = manager.fetch_queue()

    job, held = queue.waiting
    assert isinstance(manager, QueueingManager)
    assert (job.unit, job.state, job.user, job.project, job.queue, job.name) == (
        *("42", "waiting", "alice", "cfd", "default"),
        "a|b",
    )
    assert (job.asked.cpus, job.asked.nodes, job.reason) == (8.0, 2, WAITS["42"]["message"])
    assert job.expected_start_at == datetime.fromtimestamp(1_796_009_999, UTC)
    assert (job.tags["array_id"], job.tags["types"]) == ("41", "besteffort")
    assert (held.unit, held.state) == ("45", "hold")
    assert queue.living == frozenset({"43"})
    assert "jobs.state IN ('Waiting', 'Hold'" in (tmp_path / "asked").read_text()


def test_a_job_that_cannot_be_read_leaves_open_what_lives(fake: Fake) -> None:
    manager = fake("""echo '{"1": {"state": "Running"}, "2": 7}'""")

    assert manager.fetch_queue().living is None


@pytest.mark.parametrize("version", ["2", "3"])
def test_the_queue_by_rest(version: str) -> None:
    clock = HandClock()
    with serving(lambda _: said({"items": list(WAITS.values())}), clock) as service:
        manager = rest(f"{service.url}/oarapi", clock, version, page_size=100)
        queue = manager.fetch_queue()
        manager.close()

    assert [unit.unit for unit in queue.waiting] == ["42", "45"]
    assert queue.living == frozenset({"43"})


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize(("ends", "tells_all"), [((), True), ((3,), False), (tuple(range(1, 8)), False)])
def test_a_job_that_slid_past_while_its_list_was_read_is_not_over(
    version: str, ends: tuple[int, ...], tells_all: bool
) -> None:
    """Jobs that end between two pages move all others forward by one."""
    jobs = [{"id": number, "state": "Running"} for number in range(1, 8)]
    clock = HandClock()

    def route(asked: Asked) -> Said:
        offset, limit = int(asked.query["offset"]), int(asked.query["limit"])
        left = [job for job in jobs if offset == 0 or job["id"] not in ends]
        page = left[offset : offset + limit]
        if version == "3":
            return said({"items": page, "total": len(left)}) if page or not offset else said({}, 404)
        links = [{"rel": "next"}] if offset + limit < len(left) else []
        return said({"items": page, "links": [{"rel": "self"}, *links]})

    with serving(route, clock) as service:
        manager = rest(f"{service.url}/oarapi", clock, version, page_size=3)
        queues = [manager.fetch_queue()]
        if ends:
            jobs[:] = [{"id": 9, "state": "Running"}]
            queues.append(manager.fetch_queue())

    assert queues[0].living == (frozenset(str(number) for number in range(1, 8)) if tells_all else None)
    assert queues[-1].living is not None


@pytest.mark.parametrize(
    ("words", "cpus", "nodes"),
    [
        ("-l \"{type = 'default'}/host=2/core=4,walltime=0:5:0\" ", 8.0, 2),
        ("-l \"{type = 'default'}/core=3,walltime=0:5:0\"", 3.0, None),
        ("-l \"{a = 'x+/core=9'}/network_address=2,walltime=1:0:0\"", None, 2),
        ('-l "/core=1,walltime=1:0:0" -l "/core=8,walltime=0:5:0"', None, None),
        ('-l "/core=1+/host=2,walltime=1:0:0"', None, None),
        ("", None, None),
    ],
)
def test_what_a_job_asks_for(words: str, cpus: float | None, nodes: int | None) -> None:
    asked = asked_for(words)

    assert (asked.cpus, asked.nodes) == (cpus, nodes)


WORDS = st.text(max_size=9)


@given(st.recursive(st.none() | st.integers() | WORDS, lambda inner: st.dictionaries(WORDS, inner)))
def test_any_document_is_a_queue_or_an_error(document: object) -> None:
    with contextlib.suppress(SourceError):
        read_in_hand(document, "oarstat", "c1", None, Faults(), InHand())
