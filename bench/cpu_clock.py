"""CPU time of a question, wherever it is spent: other work on the machine does not count."""

import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine, text

from kwhere.database.engine import POSTGRESQL


def cpu_clock(engine: Engine) -> Callable[[], float]:
    """Return a clock of the CPU seconds of this process and of the database's that answers it."""
    if engine.dialect.name != POSTGRESQL:
        return time.process_time
    with engine.connect() as connection:  # one after another, all questions take this one
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    path = Path(f"/proc/{pid}/schedstat")
    return lambda: time.process_time() + int(path.read_text().split()[0]) / 1e9
