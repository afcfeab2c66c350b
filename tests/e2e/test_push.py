"""An agent that sends its ledger, a server that takes it in, both killed in between: nothing lost, nothing doubled."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select
from tests.unit.ledger.journals import FACTS

from kwhere.agent.ledger_push import Pusher
from kwhere.core.clock import SystemClock
from kwhere.core.terms import Component
from kwhere.database import schema
from kwhere.ledger.decode import decode_page
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity, JournalStore
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import encode_page, parse_cursor
from kwhere.transport.http import HttpClient

TOKEN = "push-token-of-the-tests-0123456789"
WAIT_SECONDS = 60


class Site:
    """A server and an agent as processes, with their files in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.database = directory / "site.db"
        self.state = directory / "agent"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        tokens = directory / "tokens"
        tokens.touch(0o600)
        tokens.write_text(TOKEN + "\n")
        host = self.url.removeprefix("http://")
        self._write(
            "server",
            {
                "server": {"listen": host, "push": [{"name": "far", "cluster": "lab", "tokens_file": str(tokens)}]},
                "database": {"url": f"sqlite:///{self.database}"},
            },
        )
        self._write(
            "agent",
            {
                "agent": {"slot_seconds": 1, "interval_seconds": 0.2},
                "web": {"listen_addresses": ["127.0.0.1:0"]},
                "push": {"url": self.url, "interval_seconds": 1, "client": {"token_file": str(tokens)}},
            },
        )

    def _write(self, role: str, tree: dict[str, object]) -> None:
        (self.directory / f"{role}.yaml").write_text(json.dumps(tree))

    def start(self, role: str) -> None:
        command = [sys.executable, "-m", "kwhere", role, "--config.file", str(self.directory / f"{role}.yaml")]
        if role == "agent":
            command += ["--state", str(self.state)]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / "xdg")}
        with (self.directory / f"{role}.log").open("ab") as log:
            self.processes[role] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def end(self, role: str, number: signal.Signals) -> None:
        process = self.processes.pop(role)
        process.send_signal(number)
        process.wait(20)

    def booked_slots(self) -> int:
        return self._scalar(select(func.count()).select_from(schema.slots))

    def booked_uj(self) -> int:
        columns = [schema.usage_5m.c[f"{c}_{part}_uj"] for c in Component for part in ("dynamic", "idle")]
        return sum(self._scalar(select(func.coalesce(func.sum(column), 0))) for column in columns)

    def _scalar(self, query: object) -> int:
        if not self.database.exists():
            return 0
        engine = create_engine(f"sqlite:///{self.database}")
        try:
            with engine.connect() as connection:
                return int(connection.execute(query).scalar_one())  # type: ignore[call-overload]
        finally:
            engine.dispose()

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except Exception as error:  # noqa: BLE001 - the schema may not be there yet
                last = repr(error)
            else:
                last = "not yet"
            time.sleep(0.1)
        logs = "".join(path.read_text()[-2000:] for path in self.directory.glob("*.log"))
        raise AssertionError(f"never held ({last})\n{logs}")

    def journal(self) -> Journal:
        """The agent's journal, once no agent holds it."""
        store = JournalStore(self.state / "journal.sqlite", writable=False)
        identity: JournalIdentity | None = store.binding()
        store.close()
        assert identity is not None
        return Journal.open(self.state, identity, FACTS)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for role in list(made.processes):
        made.end(role, signal.SIGKILL)


def slots_and_energy_of(journal: Journal) -> tuple[int, int]:
    count, energy_uj = 0, 0
    after: Cursor | None = None
    while True:
        page = journal.read(after, 1000)
        for line in decode_page(encode_page(page.header, page.lines)).lines:
            count += 1
            energy_uj += sum(control.energy_uj for control in line.slot.controls)
        if page.header.next is None:
            return count, energy_uj
        after = parse_cursor(page.header.next)


@pytest.mark.slow
def test_ledger_arrives_whole_though_both_ends_are_killed(site: Site) -> None:
    site.start("server")
    site.start("agent")
    for victim in ("server", "agent", "server", "agent"):
        before = site.booked_slots() if site.database.exists() else 0
        site.wait_until(lambda before=before: site.booked_slots() >= before + 2)  # type: ignore[misc]
        site.end(victim, signal.SIGKILL)
        site.start(victim)
    before = site.booked_slots()
    site.wait_until(lambda: site.booked_slots() >= before + 2)
    site.end("agent", signal.SIGTERM)

    journal = site.journal()
    with HttpClient(site.url, token=TOKEN) as client:
        site.wait_until(lambda: client.get("/").status < 500)
        Pusher(client, journal, SystemClock(), 100).push_all()
    slots, energy_uj = slots_and_energy_of(journal)
    journal.close()

    assert site.booked_slots() == slots
    assert site.booked_uj() == energy_uj
    assert slots >= 10
