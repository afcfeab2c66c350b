"""A PostgreSQL of our own: its own data directory, a free port, gone at exit."""

import atexit
import contextlib
import functools
import glob
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from sqlalchemy import create_engine, text

from kwhere.database.engine import open_engine
from kwhere.database.maintenance import upgrade
from kwhere.database.settings import DatabaseSettings

TEMPLATE = "kwhere_template"
_numbers = itertools.count(1)


def new_database(*, upgraded: bool = True) -> str:
    """Return the URL of a fresh database; with the schema in it unless told otherwise."""
    base = _server()
    name = f"test_{os.getpid()}_{next(_numbers)}"
    template = TEMPLATE if upgraded else "template1"
    _administer(base, f"CREATE DATABASE {name} TEMPLATE {template}")
    return f"{base}/{name}"


def drop_database(url: str) -> None:
    base, name = url.rsplit("/", 1)
    _administer(base, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _administer(base: str, statement: str) -> None:
    engine = create_engine(f"{base}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


class PostgresServer:
    """One server: its own data directory and port; what was committed outlives `kill`."""

    def __init__(self) -> None:
        self._binaries = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
        self._home = Path(tempfile.mkdtemp(prefix="kwhere-pg-"))
        os.chmod(self._home, 0o755)
        shutil.chown(self._home, "postgres", "postgres")
        port = _free_port()
        self.base = f"postgresql+psycopg://postgres@127.0.0.1:{port}"
        options = ("-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        _as_postgres([self._binaries / "initdb", "-D", self._home / "data", *options])
        self._options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._home} -c fsync=off"
        self.start()

    def start(self) -> None:
        """Start it, the first time or again."""
        self._control("-w", "-t", "30", "-l", self._home / "log", "-o", self._options, "start")

    def kill(self) -> None:
        """End all its processes at once, as after a crash."""
        pid = int((self._home / "data/postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def new_database(self, name: str, template: str = "template1") -> str:
        """Return the URL of a fresh database."""
        _administer(self.base, f"CREATE DATABASE {name} TEMPLATE {template}")
        return f"{self.base}/{name}"

    def stop(self) -> None:
        """End it and remove its files."""
        with contextlib.suppress(RuntimeError):
            self._control("-m", "immediate", "stop")
        shutil.rmtree(self._home, ignore_errors=True)

    def _control(self, *words: str | Path) -> None:
        _as_postgres([self._binaries / "pg_ctl", "-D", self._home / "data", *words])


@functools.cache
def _server() -> str:
    """Start the server once per process; return its URL without a database."""
    server = PostgresServer()
    atexit.register(server.stop)
    engine = open_engine(DatabaseSettings(url=server.new_database(TEMPLATE)))
    upgrade(engine)
    engine.dispose()
    return server.base


def _as_postgres(command: list[str | Path]) -> None:
    # Output to a file: pg_ctl hands its standard output on to the server, which would keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        finished = subprocess.run(
            ["runuser", "-u", "postgres", "--", *map(str, command)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd="/",
            check=False,
        )
        if finished.returncode:
            output.seek(0)
            raise RuntimeError(output.read().decode(errors="replace"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
