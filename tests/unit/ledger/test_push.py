import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.unit.ledger.journals import StandingClock, append, append_at, open_journal

from kwhere.core.errors import KwhereError, NotPermitted, SourceError, Unavailable, WireError
from kwhere.ledger.decode import decode_page
from kwhere.ledger.journal import Journal
from kwhere.ledger.push import LedgerPush, Pusher
from kwhere.ledger.settings import JournalSettings
from kwhere.transport.http import HttpClient


class Server:
    """Takes pages in as a kwhere server does: exactly once, by cursor."""

    def __init__(self) -> None:
        self.booked: list[tuple[str, int]] = []
        self.after: str | None = None
        self.digest: str | None = None
        self.answers: list[tuple[int, bytes]] = []
        """Given instead of booking, first one first."""
        self.requests: list[dict[str, str]] = []
        self.pushers: list[Pusher] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                server.requests.append({name.lower(): value for name, value in self.headers.items()})
                status, answer = server.answers.pop(0) if server.answers else (200, server.take(body))
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def take(self, body: bytes) -> bytes:
        page = decode_page(gzip.decompress(body))
        for line in page.lines:
            place = (page.header.epoch, line.slot.seq)
            if place not in self.booked:
                assert self.digest in (None, line.prev)
                self.booked.append(place)
                self.digest, self.after = line.digest, f"{place[0]}:{place[1]}"
        if page.header.next and page.header.next.endswith(":0"):
            self.after = page.header.next
        return json.dumps({"after": self.after}).encode()

    def close(self) -> None:
        for made in self.pushers:
            made.close()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def pusher(server: Server, journal: Journal, page_slots: int = 2) -> Pusher:
    made = Pusher(HttpClient(server.url), journal, StandingClock(), page_slots)
    server.pushers.append(made)
    return made


def test_everything_is_sent_once_in_order(server: Server, tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 5)
    pushes = pusher(server, journal)

    assert pushes.push_all() == 5
    assert pushes.push_all() == 0
    append(journal)
    assert pushes.push_all() == 1

    assert server.booked == [(journal.epoch, seq) for seq in range(1, 7)]
    assert journal._pulled.seq == 6


def test_epochs_are_sent_one_after_the_other(server: Server, tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    append(first, 3)
    first.close()
    second = open_journal(tmp_path)
    append(second, 2)

    assert pusher(server, second).push_all() == 5

    assert server.booked == [(first.epoch, 1), (first.epoch, 2), (first.epoch, 3), (second.epoch, 1), (second.epoch, 2)]


def test_server_at_the_end_of_an_epoch_goes_on_with_the_next(server: Server, tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    append(first, 2)
    pusher(server, first).push_all()
    first.close()
    second = open_journal(tmp_path)
    append(second, 1)

    assert pusher(server, second).push_all() == 1

    assert server.booked[-1] == (second.epoch, 1)


def test_empty_journal_sends_a_header_alone(server: Server, tmp_path: Path) -> None:
    assert pusher(server, open_journal(tmp_path)).push_all() == 0
    assert len(server.requests) == 1


def test_lost_answer_costs_nothing(server: Server, tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 4)
    pushes = pusher(server, journal)
    real = server.take

    def take_and_fail(body: bytes) -> bytes:
        real(body)
        server.take = real  # type: ignore[method-assign]
        return b"connection lost"

    pushes.send(journal.read(None, 0))
    server.take = take_and_fail  # type: ignore[method-assign]
    with pytest.raises(KwhereError):
        pushes.send(journal.read(None, 2))

    assert pushes.push_all() == 2
    assert server.booked == [(journal.epoch, seq) for seq in (1, 2, 3, 4)]


def test_what_was_removed_before_it_was_sent_is_skipped(server: Server, tmp_path: Path) -> None:
    clock = StandingClock()
    first = open_journal(tmp_path, clock=clock)
    append_at(first, clock, 0)
    pusher(server, first).push_all()
    append_at(first, clock, 1)
    first.close()
    second = open_journal(tmp_path, clock=clock, settings=JournalSettings(max_days=1))
    append_at(second, clock, 3000)
    server.digest = None

    assert pusher(server, second).push_all() == 1

    assert server.booked == [(first.epoch, 1), (second.epoch, 1)]


def test_requests_carry_the_clock_and_say_what_they_are(server: Server, tmp_path: Path) -> None:
    pusher(server, open_journal(tmp_path)).push_all()

    [headers] = server.requests
    assert headers["content-encoding"] == "gzip"
    assert headers["content-type"] == "application/x-ndjson"
    assert headers["x-clock-utc-ns"] == str(StandingClock().utc_ns())


ANSWERS: dict[str, tuple[int, bytes, type[KwhereError]]] = {
    "credentials": (401, b'{"detail": "no such token"}', NotPermitted),
    "forbidden": (403, b"", NotPermitted),
    "busy": (503, b"", Unavailable),
    "many": (429, b"", Unavailable),
    "conflict": (409, b'{"detail": "another digest"}', SourceError),
    "error": (500, b"<html>", SourceError),
    "no_json": (200, b"fine", SourceError),
    "no_cursor": (200, b'{"after": 7}', SourceError),
    "not_told": (200, b"{}", WireError),
    "nonsense": (200, b'{"after": "x"}', WireError),
    "array": (200, b"[]", WireError),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answer_that_is_no_cursor_is_an_error(server: Server, tmp_path: Path, kind: str) -> None:
    status, body, error = ANSWERS[kind]
    server.answers = [(status, body)]

    with pytest.raises(WireError if kind == "no_json" else error):
        pusher(server, open_journal(tmp_path)).push_all()


def test_server_that_does_not_move_is_left(server: Server, tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 3)
    server.answers = [(200, b'{"after": null}')] * 2

    with pytest.raises(SourceError, match="expected the server to go on"):
        pusher(server, journal).push_all()


def test_rounds_wait_longer_after_each_failure_and_tell_once(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push = LedgerPush(pusher(server, open_journal(tmp_path)), StandingClock(), 30)
    server.answers = [(503, b"")] * 6

    assert [push.round() for _ in range(6)] == [60, 120, 240, 480, 600, 600]
    assert push.round() == 30
    out = capsys.readouterr().out
    assert out.count("ledger cannot be sent") == 1
    assert out.count("ledger is sent again") == 1


class Broken:
    """Fails in a way that nobody thought of, once."""

    def __init__(self) -> None:
        self.faults: list[Exception] = [RuntimeError("what is this?")]

    def push_all(self, is_over: Callable[[], bool] = lambda: False) -> int:
        if self.faults:
            raise self.faults.pop()
        return 0

    def close(self) -> None:
        pass


def test_unexpected_fault_does_not_end_the_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    push = LedgerPush(Broken(), StandingClock(), 30)

    assert [push.round(), push.round()] == [60, 30]
    assert "RuntimeError: what is this?" in capsys.readouterr().out


def test_thread_pushes_and_ends(server: Server, tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 3)
    arrived = threading.Event()
    real = server.take

    def take(body: bytes) -> bytes:
        answer = real(body)
        if len(server.booked) == 3:
            arrived.set()
        return answer

    server.take = take  # type: ignore[method-assign]
    push = LedgerPush(pusher(server, journal), StandingClock(), 3600)

    push.start()

    assert arrived.wait(10)
    push.stop()
    assert not push._thread.is_alive()
