"""Agents and servers as processes, with their files in one directory."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, func, select
from sqlalchemy.sql import Select
from tests.unit.ledger.journals import FACTS

from kwhere.core.terms import Component
from kwhere.database import schema
from kwhere.ledger.decode import decode_page
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity, JournalStore
from kwhere.ledger.pages import Cursor
from kwhere.ledger.rows import Entry
from kwhere.ledger.wire import encode_page, parse_cursor

WAIT_SECONDS = 60


def free_address() -> str:
    """Return HOST:PORT that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


class RoleProcesses:
    """Starts and ends processes by name; `<name>.yaml` is the configuration, `<name>.log` what it said."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "agent"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def configure(self, name: str, tree: dict[str, object]) -> None:
        (self.directory / f"{name}.yaml").write_text(json.dumps(tree))

    def secret(self, name: str, text: str) -> str:
        """Write a file for its owner alone; return its path."""
        path = self.directory / name
        path.touch(0o600)
        path.write_text(text)
        return str(path)

    def start(self, name: str, role: str = "") -> None:
        role = role or name
        command = [sys.executable, "-m", "kwhere", role, "--config.file", str(self.directory / f"{name}.yaml")]
        if role == "agent":
            command += ["--state", str(self.state)]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / f"xdg-{name}")}
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def end(self, name: str, number: signal.Signals) -> None:
        process = self._processes.pop(name)
        process.send_signal(number)
        process.wait(20)

    def kill_all(self) -> None:
        for name in list(self._processes):
            self.end(name, signal.SIGKILL)

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


class Account:
    """A SQLite database that a server process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    def slots(self) -> int:
        return self._scalar(select(func.count()).select_from(schema.slots))

    def lost(self) -> int:
        return self._scalar(select(func.count()).select_from(schema.lost))

    def epochs(self) -> int:
        return self._scalar(select(func.count(func.distinct(schema.slots.c.epoch))))

    def energy_uj(self) -> int:
        columns = [schema.usage_5m.c[f"{c}_{part}_uj"] for c in Component for part in ("dynamic", "idle")]
        return sum(self._scalar(select(func.coalesce(func.sum(column), 0))) for column in columns)

    def _scalar(self, query: Select[Any]) -> int:
        if not self._path.exists():
            return 0
        engine = create_engine(self.url)
        try:
            with engine.connect() as connection:
                return int(connection.execute(query).scalar_one())
        finally:
            engine.dispose()


def slots_and_energy_of(journal: Journal) -> tuple[int, int]:
    """Return how many slots a journal holds, and their energy in microjoules."""
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


def entries_of(journal: Journal) -> list[Entry]:
    """Return every entry of every slot that a journal holds, oldest first."""
    found: list[Entry] = []
    after: Cursor | None = None
    while True:
        page = journal.read(after, 1000)
        for line in decode_page(encode_page(page.header, page.lines)).lines:
            found += line.slot.entries
        if page.header.next is None:
            return found
        after = parse_cursor(page.header.next)
