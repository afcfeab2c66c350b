"""Agents with real journals and HTTP faces, servers that pull them, and an agent that answers whatever a test says."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from sqlalchemy import Engine, Table, func, select
from tests.unit.collectors.fake_collectors import context
from tests.unit.ledger.journals import FACTS, IDENTITY, StandingClock
from tests.unit.ledger.slots import MINUTE_NS, START_NS, slot

from kwhere.agent.health import Health
from kwhere.agent.http_pages import HttpParts
from kwhere.agent.http_server import HttpFace
from kwhere.agent.http_settings import HttpSettings
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.terms import Component
from kwhere.database import schema
from kwhere.database.grid import Grid
from kwhere.database.schema import BALANCE_COLUMNS
from kwhere.ledger.journal import Journal
from kwhere.ledger.settings import JournalSettings
from kwhere.server.intake import Intake
from kwhere.server.page_booker import PageBooker
from kwhere.server.settings import ServerSettings
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient

TOKEN = "a-token-of-the-tests-0123456789"
LATER_NS = START_NS + 7 * 86_400 * 1_000_000_000
SLOT_UJ = 160_000_030
"""Energy of one slot: 160 J of a unit, 10 µJ of `system`, 20 µJ of `unallocated`."""
Reply = tuple[int, dict[str, str], bytes]


class Agent:
    """A journal in `directory` behind an HTTP face that keeps its port over restarts."""

    def __init__(
        self,
        directory: Path,
        *,
        node: str = "c1",
        machine_id: str = "m1",
        boot_id: str = "b1",
        web_config: Path | None = None,
    ) -> None:
        self.clock = StandingClock()
        self.appended = 0
        self._directory = directory
        self._identity = replace(IDENTITY, node=node, machine_id=machine_id)
        self._facts = replace(FACTS, node=node, node_names=(), machine_id=machine_id, boot_id=boot_id)
        self._web_config = web_config
        self._port = 0
        self.start()

    @property
    def port(self) -> int:
        return self._port

    @property
    def target(self) -> Target:
        return Target("c", f"http://127.0.0.1:{self._port}")

    def start(self, settings: JournalSettings | None = None) -> None:
        """Begin, in a new epoch."""
        self.journal = Journal.open(self._directory, self._identity, self._facts, settings, self.clock)
        runner = CollectorRunner([], context(self.clock))
        parts = HttpParts(runner, self.journal, lambda: Health(True), self.clock, "0.1.0", TOKEN)
        web = HttpSettings(listen_addresses=(f"127.0.0.1:{self._port}",), config_file=self._web_config)
        self._face = HttpFace(web, parts)
        self._face.start()
        self._port = urlsplit(self._face.urls[0]).port or 0

    def stop(self) -> None:
        """End; what is in the journal stays."""
        self._face.stop()
        self.journal.close()

    def restart(self, settings: JournalSettings | None = None) -> None:
        """End and begin."""
        self.stop()
        self.start(settings)

    def append(self, count: int = 1) -> None:
        """Append slots of a minute, each behind the last."""
        for _ in range(count):
            start_ns = START_NS + self.appended * MINUTE_NS
            self.clock.now_ns = start_ns + MINUTE_NS
            self.journal.append(slot(self.journal.next_seq, start_ns), "{}")
            self.appended += 1


class Server:
    """One server process' worth of intake; make another one on the same engine and it is a restart."""

    def __init__(
        self,
        engine: Engine,
        targets: Sequence[Target],
        *,
        page_slots: int = 3,
        workers: int = 4,
        connect: Callable[[Target], HttpClient] | None = None,
    ) -> None:
        self.engine = engine
        self.targets = list(targets)
        self.clock = StandingClock(LATER_NS)
        booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)
        settings = ServerSettings(page_slots=page_slots, workers=workers, pull_seconds=0.01)
        self.intake = Intake(engine, booker, self.clock, settings, lambda: self.targets, connect or with_token)

    def pull(self) -> None:
        """Read every target to its end, whether or not it failed before."""
        self.clock.now_ns += 3_600_000_000_000
        self.intake.pull_all()

    def fault(self, target: Target) -> str:
        return self.intake.faults.get(target.key, "")


def with_token(target: Target) -> HttpClient:
    return HttpClient(target.url, token=TOKEN)


def account_uj(engine: Engine) -> tuple[int, int, int]:
    """Return the account's energy by lifetime totals of all entries, by 5-minute usage and by node."""
    names = [f"{component}_{part}_uj" for component in Component for part in ("dynamic", "idle")]
    return (
        _sum(engine, schema.run_totals, names),
        _sum(engine, schema.usage_5m, names),
        _sum(engine, schema.node_5m, BALANCE_COLUMNS),
    )


def _sum(engine: Engine, table: Table, names: Sequence[str]) -> int:
    with engine.connect() as connection:
        row = connection.execute(select(*(func.coalesce(func.sum(table.c[name]), 0) for name in names))).one()
    return sum(int(value) for value in row)


def assert_balanced(engine: Engine, slots: int) -> None:
    """Assert that the account holds so many slots, each once, whichever way it is added up."""
    assert account_uj(engine) == (slots * SLOT_UJ,) * 3
    assert count(engine, schema.slots) == slots


def count(engine: Engine, table: Table) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


@contextmanager
def answering(reply: Callable[[str | None], Reply]) -> Iterator[Target]:
    """Serve `reply(after)` at /ledger until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            after = parse_qs(urlsplit(self.path).query).get("after", [None])[0]
            status, headers, body = reply(after)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Target("c", f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
