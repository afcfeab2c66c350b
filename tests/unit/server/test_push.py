"""An agent's journal, pushed over real HTTP into a real database."""

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import pytest
import uvicorn
from sqlalchemy import Engine, func, select
from tests.unit.ledger.journals import StandingClock, append, append_at, open_journal
from tests.unit.ledger.slots import MINUTE_NS, START_NS, slot

from kwhere.core.errors import ConfigError, NotPermitted, SourceError
from kwhere.database import schema
from kwhere.database.grid import Grid
from kwhere.ledger.journal import Journal
from kwhere.ledger.push import Pusher
from kwhere.ledger.settings import JournalSettings
from kwhere.ledger.wire import encode_page
from kwhere.server import push_door
from kwhere.server.page_booker import PageBooker
from kwhere.server.push import PushReceiver
from kwhere.server.push_door import PushDoor
from kwhere.server.push_grants import PushGrants
from kwhere.server.settings import PushGroup
from kwhere.transport.http import HttpClient

ANY_NODE = "token-of-any-node-0123456789"
NODE_C1 = "token-of-node-c1-0123456789"
NODE_C2 = "token-of-node-c2-0123456789"
SLOT_UJ = 160_000_030
"""Energy of one slot of `slots.slot`: 160 J of the unit, 10 uJ of system, 20 uJ unallocated."""


async def other_pages(scope: dict[str, object], receive: object, send: object) -> None:
    """Stands for pages and API."""
    await send({"type": "http.response.start", "status": 418, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]


class PushServer:
    """The door in a thread, on a free port of loopback."""

    def __init__(self, engine: Engine, tokens: Path) -> None:
        self.engine = engine
        self._pushers: list[Pusher] = []
        self.clock = StandingClock(START_NS + 100 * MINUTE_NS)
        grants = PushGrants([PushGroup(name="far", cluster="c", tokens_file=tokens)])
        booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)
        door = PushDoor(other_pages, PushReceiver(engine, booker, grants, self.clock))  # type: ignore[arg-type]
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(door, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve([self._socket])))
        self._thread.start()

    def pusher(self, journal: Journal, token: str = ANY_NODE) -> Pusher:
        made = Pusher(HttpClient(self.url, token=token), journal, self.clock, 2)
        self._pushers.append(made)
        return made

    def energy_uj(self) -> int:
        with self.engine.connect() as connection:
            return int(
                connection.execute(select(func.coalesce(func.sum(schema.unit_totals.c.energy_uj), 0))).scalar_one()
            )

    def close(self) -> None:
        for made in self._pushers:
            made.close()
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def server(engine: Engine, tmp_path: Path) -> Iterator[PushServer]:
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"# far site\n{ANY_NODE}\nc1 {NODE_C1}\n\nc2 {NODE_C2}  # spare\n")
    made = PushServer(engine, tokens)
    yield made
    made.close()


def test_pushed_ledger_is_booked_once(server: PushServer, tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "state")
    append(journal, 5)

    assert server.pusher(journal).push_all() == 5
    assert server.pusher(journal).push_all() == 0
    append(journal)
    assert server.pusher(journal, NODE_C1).push_all() == 1

    assert server.energy_uj() == 6 * SLOT_UJ - 6 * 30


def test_epochs_follow_one_another(server: PushServer, tmp_path: Path) -> None:
    clock = StandingClock()
    for minutes in (0, 3, 6):
        journal = open_journal(tmp_path / "state", clock=clock)
        for later in range(3):
            append_at(journal, clock, minutes + later)
        if minutes != 6:
            journal.close()
        if minutes == 3:
            journal = open_journal(tmp_path / "state", clock=clock)
            assert server.pusher(journal).push_all() == 6
            journal.close()

    assert server.pusher(journal).push_all() == 3
    assert server.energy_uj() == 9 * 160_000_000


def test_epoch_that_is_gone_is_recorded_as_lost(server: PushServer, tmp_path: Path) -> None:
    clock = StandingClock()
    first = open_journal(tmp_path / "state", clock=clock)
    append_at(first, clock, 0)
    server.pusher(first).push_all()
    append_at(first, clock, 1)
    first.close()
    second = open_journal(tmp_path / "state", clock=clock, settings=JournalSettings(max_days=1))
    append_at(second, clock, 3000)
    server.clock.now_ns = clock.now_ns

    assert server.pusher(second).push_all() == 1

    with server.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(schema.lost)).scalar_one() == 1


def test_token_of_another_node_is_refused(server: PushServer, tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "state")
    append(journal)

    with pytest.raises(NotPermitted, match="this token is for node c2, the page is of c1"):
        server.pusher(journal, NODE_C2).push_all()
    with pytest.raises(NotPermitted, match="a token of a push group is needed"):
        server.pusher(journal, "no-such-token-0123456789").push_all()

    assert server.energy_uj() == 0


def test_rewritten_journal_is_stopped(server: PushServer, tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "state")
    append(journal, 2)
    server.pusher(journal).push_all()
    page = journal.read(None, 2)
    forged = encode_page(page.header, [page.lines[0].replace(b"160000000", b"170000000"), page.lines[1]])

    answer = post(server, forged)

    assert answer.status_code == 400
    assert "digest of the line before" in answer.json()["detail"]
    line = page.lines[0].replace(b"160000000", b"170000000")
    answer = post(server, encode_page(replace(page.header, next=f"{journal.epoch}:1"), [line]))
    assert answer.status_code == 409
    with pytest.raises(SourceError, match="409"):
        server.pusher(journal).push_all()
    assert server.energy_uj() == 2 * 160_000_000


def post(server: PushServer, body: bytes, token: str = ANY_NODE, **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    with httpx.Client() as client:
        return client.post(server.url + "/ledger", content=body, headers=given)


def good_page(tmp_path: Path) -> bytes:
    journal = open_journal(tmp_path / "state")
    append(journal, 2)
    page = journal.read(None, 2)
    return encode_page(page.header, page.lines)


@pytest.mark.parametrize(
    ("spoil", "headers", "status"),
    [
        (lambda body: b"", {}, 400),
        (lambda body: body[:-30], {}, 400),
        (lambda body: b"\xff" * 100, {}, 400),
        (lambda body: body, {"content_encoding": "gzip"}, 400),
        (lambda body: body, {"content_encoding": "br"}, 400),
        (lambda body: gzip.compress(body)[:-10], {"content_encoding": "gzip"}, 400),
        (lambda body: gzip.compress(body), {"content_encoding": "gzip"}, 200),
        (lambda body: body, {"x_clock_utc_ns": "nonsense"}, 200),
        (lambda body: body, {}, 200),
    ],
    ids=["empty", "truncated", "binary", "no_gzip", "brotli", "gzip_cut", "gzip", "clock", "plain"],
)
def test_page_is_taken_or_refused_whole(
    server: PushServer, tmp_path: Path, spoil: object, headers: dict[str, str], status: int
) -> None:
    answer = post(server, spoil(good_page(tmp_path)), **headers)  # type: ignore[operator]

    assert answer.status_code == status
    assert server.energy_uj() == (2 * 160_000_000 if status == 200 else 0)


def test_large_body_is_refused(server: PushServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_door, "MAX_BODY_BYTES", 1000)

    assert post(server, b"x" * 100_000).status_code == 413


def test_small_body_that_unpacks_into_much_is_refused(server: PushServer) -> None:
    answer = post(server, gzip.compress(bytes(65 << 20)), content_encoding="gzip")

    assert answer.status_code == 400
    assert "at most 67108864 bytes" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/ledger"), ("POST", "/"), ("POST", "/ledger/x"), ("GET", "/metrics")]
)
def test_everything_else_is_for_the_pages(server: PushServer, method: str, path: str) -> None:
    with httpx.Client() as client:
        assert client.request(method, server.url + path).status_code == 418


WRONG_FILES = {
    "short": ("c1 short\n", "line 1: expected `NODE TOKEN`"),
    "words": (f"c1 {NODE_C1} more\n", "line 1: expected `NODE TOKEN`"),
    "twice": (f"c1 {NODE_C1}\nc2 {NODE_C1}\n", "a token is there twice"),
}


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_wrong_file_of_tokens_stops_the_start(tmp_path: Path, kind: str) -> None:
    text, message = WRONG_FILES[kind]
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(text)

    with pytest.raises(ConfigError, match=message) as refused:
        PushGrants([PushGroup(name="far", cluster="c", tokens_file=tokens)])

    assert NODE_C1 not in str(refused.value)


def test_file_of_tokens_is_for_its_owner_alone(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(0o644)

    with pytest.raises(ConfigError, match="others may read these tokens \\(mode 0644\\)"):
        PushGrants([PushGroup(name="far", cluster="c", tokens_file=tokens)])
    with pytest.raises(ConfigError, match="cannot be read"):
        PushGrants([PushGroup(name="far", cluster="c", tokens_file=tmp_path / "gone")])


def test_no_group_grants_nothing() -> None:
    assert not PushGrants([])
    assert PushGrants([]).grant_of("Bearer ") is None


def test_slot_of_the_tests_closes() -> None:
    assert slot().controls[0].energy_uj == SLOT_UJ
