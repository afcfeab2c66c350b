"""slurmrestd as it is asked: tokens that are renewed, answers that are too long, what is never shown."""

import base64
import hashlib
import hmac
import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.account_site import HandClock
from tests.managed_site import T0

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.resource_managers import slurm_tokens
from kwhere.resource_managers.slurm_rest import SlurmRest
from kwhere.resource_managers.slurm_tokens import SlurmRestSettings, Tokens
from kwhere.transport.settings import HttpClientSettings

JOB = {"job_id": 42, "state": {"current": ["COMPLETED"]}, "nodes": "n1", "time": {"start": 1_700_000_000}}


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(key: bytes, **claims: object) -> str:
    """Return a token as SLURM makes it."""
    words = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{words}.{encoded(hmac.new(key, words.encode(), hashlib.sha256).digest())}"


class Door(BaseHTTPRequestHandler):
    """Lets in whoever has a token signed by the key and not yet spent."""

    key = b"k" * 32
    spent: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []
    most_seconds: ClassVar[int | None] = None
    """Spans longer than that have long answers."""
    says: ClassVar[tuple[int, bytes] | None] = None
    """Status and body of every answer to who is let in; None: a job."""
    by_path: ClassVar[dict[str, list[Any]]] = {}
    """Jobs by what stands behind `/slurmdb/<version>`."""

    def width(self) -> int:
        asked = parse_qs(urlsplit(self.path).query)
        return int(asked["end_time"][0].removeprefix("uts")) - int(asked["start_time"][0].removeprefix("uts"))

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        token = self.headers.get("X-SLURM-USER-TOKEN", "")
        words, _, signature = token.rpartition(".")
        right = encoded(hmac.new(self.key, words.encode(), hashlib.sha256).digest())
        is_right = signature == right and token not in self.spent
        if is_right and self.most_seconds is not None and self.width() > self.most_seconds:
            self.answer(200, b"x" * 5000)
            return
        jobs = self.by_path.get("/" + urlsplit(self.path).path.split("/", 3)[-1]) if is_right else None
        if jobs is not None:
            self.answer(200, json.dumps({"jobs": jobs}).encode())
            return
        if is_right and self.says is not None:
            self.answer(*self.says)
            return
        self.answer(200 if is_right else 401, json.dumps({"jobs": [JOB]} if is_right else {}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def door() -> Iterator[str]:
    Door.spent, Door.asked, Door.most_seconds, Door.says, Door.by_path = set(), [], None, None, {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def rest(url: str, tmp_path: Path, clock: HandClock) -> SlurmRest:
    (tmp_path / "key").write_bytes(Door.key)
    return SlurmRest(SlurmRestSettings(url=url, key_file=tmp_path / "key"), "c1", None, (), clock)


SPAN = Span(T0.replace(year=2023), T0)


def test_tokens_are_made_and_renewed(door: str, tmp_path: Path) -> None:
    clock = HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND)
    manager = rest(door, tmp_path, clock)
    tokens = Tokens(SlurmRestSettings(url=door, key_file=tmp_path / "key"), clock)
    first = tokens.current()

    assert [unit.unit for unit in manager.fetch_units(SPAN)] == ["42"]
    clock.now_ns += 500 * NANOSECONDS_PER_SECOND
    assert tokens.current() == first
    clock.now_ns += 60 * NANOSECONDS_PER_SECOND
    assert tokens.current() != first
    manager.close()


def test_sizes_that_a_job_had_before_are_asked_for_case_users_22(door: str, tmp_path: Path) -> None:
    """A span that only its newest record is told in; `/job/<id>` has all of them."""
    start = 1_750_000_000
    times = {"start": start, "submission": start - 3, "end": start + 60, "elapsed": 60}
    before = {**JOB, "state": {"current": ["RESIZING"]}, "nodes": "n[1-2]", "time": times}
    after = {**JOB, "time": {"start": start, "submission": start + 60, "end": start + 100, "elapsed": 100}}
    Door.by_path = {"/job/42": [before, after], "/jobs": [after]}
    manager = rest(door, tmp_path, HandClock(start * NANOSECONDS_PER_SECOND))

    found = [list(manager.fetch_units(SPAN)) for _ in range(2)]

    assert found[0] == found[1]
    (unit,) = found[0]
    assert (unit.run, unit.state, unit.nodes, unit.elapsed_seconds) == (f"42@{start}", "completed", ("n1", "n2"), 100)
    assert sum(urlsplit(path).path.endswith("/job/42") for path in Door.asked) == 1
    manager.close()


def test_a_refused_token_is_renewed_once_and_never_shown(door: str, tmp_path: Path) -> None:
    clock = HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND)
    (tmp_path / "token").write_text("SLURM_JWT=not-a-token\n", encoding="ascii")
    manager = SlurmRest(SlurmRestSettings(url=door, token_file=tmp_path / "token"), "c1", None, (), clock)

    with pytest.raises(Unavailable, match="refused") as caught:
        list(manager.fetch_units(SPAN))

    assert caught.value.reason == "permission"
    assert "not-a-token" not in str(caught.value)
    assert len(Door.asked) == 2
    assert all("start_time=uts" in path and "show_duplicates=true" in path for path in Door.asked)
    manager.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://slurm.example:6820", "key_file": "k"},
        {"url": "ftp://127.0.0.1", "key_file": "k"},
        {"url": "http://127.0.0.1:6820"},
        {"url": "http://127.0.0.1:6820", "key_file": "k", "token_file": "t"},
        {"url": "http://127.0.0.1:6820", "key_file": "k", "token_command": ["scontrol", "token"]},
    ],
)
def test_wrong_settings_stop_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^rest"):
        SlurmRest(SlurmRestSettings.model_validate(settings), "c1", None, (), HandClock(0))


def test_case_ceems_262_the_span_of_a_question_follows_the_limit_of_its_answer(door: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(Door.key)
    client = HttpClientSettings(max_answer_bytes=1000)
    settings = SlurmRestSettings(url=door, key_file=tmp_path / "key", client=client)
    manager = SlurmRest(settings, "c1", None, (), HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND))
    hour = Span(T0.replace(hour=1), T0.replace(hour=2))
    Door.most_seconds = 1800

    assert [unit.unit for unit in manager.fetch_units(hour)] == ["42", "42"]

    assert len(Door.asked) == 3
    Door.most_seconds = 10
    with pytest.raises(SourceError, match=r"even for .* s; raise rest.client.max_answer_bytes"):
        list(manager.fetch_units(hour))
    manager.close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(204, b"", id="no_content"),
        pytest.param(200, b'{"jobs": [], "errors": [], "warnings": []}', id="empty_list"),
        pytest.param(500, b'{"errors": [{"error_number": 9003, "description": "Nothing found"}]}', id="as_an_error"),
    ],
)
def test_case_users_45_a_span_without_jobs_is_an_answer(door: str, tmp_path: Path, status: int, body: bytes) -> None:
    manager = rest(door, tmp_path, HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND))
    Door.says = (status, body)

    assert list(manager.fetch_units(SPAN)) == []


@pytest.mark.parametrize(
    ("status", "description", "reason"),
    [
        (500, "Failed connecting to slurmdbd", "refused"),
        (500, "Slurm accounting storage is disabled", "unsupported"),
        (500, "Access/permission denied", "permission"),
        (200, "Unable to contact slurm controller (connect failure)", "refused"),
    ],
)
def test_case_users_45_what_failed_there_is_told(
    door: str, tmp_path: Path, status: int, description: str, reason: str
) -> None:
    manager = rest(door, tmp_path, HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND))
    errors = {"jobs": [], "errors": [{"error_number": 1, "description": description}]}
    Door.says = (status, json.dumps(errors).encode())

    with pytest.raises(Unavailable, match=re.escape(description)) as caught:
        list(manager.fetch_units(SPAN))
    assert caught.value.reason == reason


def test_a_span_too_long_for_slurmdbd_is_asked_for_in_halves(door: str, tmp_path: Path) -> None:
    manager = rest(door, tmp_path, HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND))
    Door.says = (500, b'{"errors": [{"description": "Too wide of a date range in query"}]}')

    with pytest.raises(SourceError, match=r"Too wide .*, even for \d+ s$"):
        list(manager.fetch_units(Span(T0.replace(hour=1), T0.replace(hour=2))))
    assert len(Door.asked) > 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param(b"caf\xe9", "caf\ufffd", id="case_users_40_bytes_that_are_no_text"),
        pytest.param(b"a|b\tc", "a|b\tc", id="case_users_37_control_signs"),
        pytest.param("\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe".encode(), "\u202egnp.exe", id="case_users_40_direction"),
        pytest.param(b"\\u0000\\u001b[2J", "\0\x1b[2J", id="escaped"),
    ],
)
def test_a_name_is_any_bytes(door: str, tmp_path: Path, name: bytes, shown: str) -> None:
    manager = rest(door, tmp_path, HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND))
    job = json.dumps({"jobs": [{**JOB, "name": "?"}]}).encode().replace(b'"?"', b'"' + name + b'"')
    Door.says = (200, b"\xef\xbb\xbf" + job)

    assert [unit.name for unit in manager.fetch_units(SPAN)] == [shown]


class Printer:
    """A command in scontrol's manner that prints what a file says, and counts how often."""

    def __init__(self, directory: Path) -> None:
        self.file, self.counts = directory / "says", directory / "counts"
        self.counts.write_text("")
        program = f"open({str(self.counts)!r}, 'a').write('x'); import sys; exec(open({str(self.file)!r}).read())"
        self.settings = SlurmRestSettings(url="http://127.0.0.1", token_command=(sys.executable, "-c", program))

    def says(self, text: str) -> None:
        self.file.write_text(f"print({text!r})")

    def runs(self) -> int:
        return len(self.counts.read_text())


@pytest.fixture
def printer(tmp_path: Path) -> Printer:
    return Printer(tmp_path)


@pytest.mark.parametrize(("lifespan", "renewed_after"), [(1800, 1740), (90, 60), (9, 6)])
def test_a_command_is_run_again_before_its_token_ends(printer: Printer, lifespan: int, renewed_after: int) -> None:
    clock = HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND)
    tokens = Tokens(printer.settings, clock)
    printer.says(f"SLURM_JWT={signed(b'k', exp=1_700_000_000 + lifespan, sun='slurm')}")
    first = tokens.current()
    clock.now_ns += (renewed_after - 1) * NANOSECONDS_PER_SECOND
    assert tokens.current() == first
    assert printer.runs() == 1
    printer.says(signed(b"k", exp=1_700_009_999))
    clock.now_ns += NANOSECONDS_PER_SECOND

    assert tokens.current() != first

    assert printer.runs() == 2
    clock.now_ns -= 3600 * NANOSECONDS_PER_SECOND  # the clock was set back: who knows what holds
    tokens.current()
    assert printer.runs() == 3


def test_a_refused_token_of_a_command_is_asked_for_once_more(door: str, printer: Printer) -> None:
    clock = HandClock(1_700_000_000 * NANOSECONDS_PER_SECOND)
    settings = printer.settings.model_copy(update={"url": door})
    manager = SlurmRest(settings, "c1", None, (), clock)
    old, new = (signed(Door.key, exp=1_700_001_000, n=n) for n in (1, 2))
    printer.says(old)
    assert len(list(manager.fetch_units(SPAN))) == 1
    Door.spent.add(old)
    printer.says(new)

    assert len(list(manager.fetch_units(SPAN))) == 1

    assert printer.runs() == 2
    Door.spent.add(new)
    with pytest.raises(Unavailable, match="the token of slurm is refused"):
        list(manager.fetch_units(SPAN))
    assert printer.runs() == 3
    manager.close()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.stderr.write('jwt is off\\n'); sys.exit(3)", "ended with 3: jwt is off"),
        ("pass", "no token in it"),
        ("print('\\x1b[2J')", "other characters"),
        ("print('x' * 100_000)", "found more than 65536 bytes"),
        ("import time; time.sleep(30)", "no token within"),
    ],
)
def test_a_command_that_gives_no_token_says_why(
    printer: Printer, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    monkeypatch.setattr(slurm_tokens, "_COMMAND_SECONDS", 0.5 if "sleep" in program else 20.0)
    printer.file.write_text(program)

    with pytest.raises(Unavailable, match=message):
        Tokens(printer.settings, HandClock(0)).current()


def test_a_file_is_read_again_and_its_end_is_told(door: str, tmp_path: Path) -> None:
    clock = HandClock(1_700_000_500 * NANOSECONDS_PER_SECOND)
    file = tmp_path / "token"
    manager = SlurmRest(SlurmRestSettings(url=door, token_file=file), "c1", None, (), clock)
    ended = signed(Door.key, exp=1_700_000_400)
    Door.spent.add(ended)
    file.write_text(f"SLURM_JWT={ended}\n")
    with pytest.raises(Unavailable, match="refused; it ended 100 s ago, renew it") as caught:
        list(manager.fetch_units(SPAN))
    assert ended.split(".")[1] not in str(caught.value)

    file.write_text(signed(Door.key, exp=1_700_009_000))

    assert len(list(manager.fetch_units(SPAN))) == 1
    manager.close()


@given(st.text())
def test_any_text_is_a_token_or_a_drawn_error(text: str) -> None:
    assert slurm_tokens._ends_at(text) is None or "." in text
