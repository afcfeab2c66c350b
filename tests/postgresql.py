"""A PostgreSQL of our own: its own data directory, a free port, gone at exit."""

import atexit
import functools
import glob
import itertools
import os
import shutil
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


@functools.cache
def _server() -> str:
    """Start the server once per process; return its URL without a database."""
    binaries = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
    home = Path(tempfile.mkdtemp(prefix="kwhere-pg-"))
    os.chmod(home, 0o755)
    shutil.chown(home, "postgres", "postgres")
    port = _free_port()
    _as_postgres(
        [
            binaries / "initdb",
            "-D",
            home / "data",
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    _as_postgres(
        [binaries / "pg_ctl", "-D", home / "data", "-w", "-t", "30", "-l", home / "log", "-o", options, "start"]
    )
    atexit.register(_stop, binaries, home)
    base = f"postgresql+psycopg://postgres@127.0.0.1:{port}"
    _administer(base, f"CREATE DATABASE {TEMPLATE}")
    engine = open_engine(DatabaseSettings(url=f"{base}/{TEMPLATE}"))
    upgrade(engine)
    engine.dispose()
    return base


def _stop(binaries: Path, home: Path) -> None:
    _as_postgres([binaries / "pg_ctl", "-D", home / "data", "-m", "immediate", "stop"])
    shutil.rmtree(home, ignore_errors=True)


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
