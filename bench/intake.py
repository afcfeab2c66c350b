"""Intake: ledger rows per second from a page's bytes to committed rows, on SQLite and on PostgreSQL.

Two shapes: `live` pages hold one slot of 400 units (an agent that is pulled on time), `refill` pages sixty (an agent
that was away). One JSON line per figure.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zoneinfo import ZoneInfo

from sqlalchemy import Engine
from tests import postgresql
from tests.journals import SECOND_NS, T0_NS, HandJournal, system, unallocated

from kwhere.core.terms import Component, EntryKind, Part
from kwhere.core.unit import UnitKey
from kwhere.database.engine import open_engine
from kwhere.database.grid import Grid
from kwhere.database.maintenance import upgrade
from kwhere.database.settings import DatabaseSettings
from kwhere.ledger.columns import decode_column_page
from kwhere.ledger.rows import Entry, Figures
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.target import Target

UNITS = 400
NODES = 4
WORKERS = 2
"""Agents read at a time."""


def entries(node: int, slot: int) -> list[Entry]:
    rows = [system(_figures(node, slot)), unallocated(_figures(node, slot))]
    for number in range(UNITS):
        unit_key = UnitKey("slurm", f"{node}{number:05d}", f"{node}{number:05d}@1764000000")
        rows.append(
            Entry(EntryKind.UNIT, unit_key, _figures(number, slot), name=f"job-{number}", user=f"user{number % 40}")
        )
    return rows


def _figures(seed: int, slot: int) -> Figures:
    energy = {
        (component, part): (seed * 7919 + slot * 104729 + place * 1299709) % 900_000
        for place, component in enumerate((Component.CPU, Component.DRAM, Component.OTHER))
        for part in Part
    }
    return Figures(
        energy,
        cpu_user_ns=40_000_000 + seed,
        cpu_system_ns=10_000_000,
        cpu_allocated_ns=60 * SECOND_NS // 10,
        memory_byte_seconds=(1 << 30) * 60,
        memory_peak_bytes=(1 << 30) + seed,
        io_read_bytes=seed * 4096,
        io_write_bytes=slot * 4096,
        io_read_operations=seed,
        io_write_operations=slot,
    )


def bodies(slots: int, per_page: int) -> tuple[list[bytes], list[list[bytes]]]:
    """Return, per node, a first page of one slot, which names units and users, and the pages that follow."""
    journals = [HandJournal(node=f"n{n}", machine_id=f"m{n}", cpus=128) for n in range(NODES)]
    for number in range(slots + 1):
        for node, journal in enumerate(journals):
            journal.append(entries(node, number))
    first = [journal.body(None, 1) for journal in journals]
    rest = [
        [journal.body(f"{journal.epochs[0]}:{after}", per_page) for after in range(1, slots + 1, per_page)]
        for journal in journals
    ]
    return first, rest


def _read(booker: PageBooker, node: int, its_pages: list[bytes]) -> None:
    target = Target("bench", f"http://127.0.0.1:{node + 1}")
    for body in its_pages:
        booker.book(Received(target, decode_column_page(body), T0_NS + 30 * 86_400 * SECOND_NS))


def measure(engine: Engine, database: str, shape: str, slots: int, per_page: int) -> None:
    upgrade(engine)
    booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)
    first, rest = bodies(slots, per_page)
    for node in range(NODES):
        _read(booker, node, [first[node]])
    rows = NODES * slots * (UNITS + 2)
    started, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda node: _read(booker, node, rest[node]), range(NODES)))
    elapsed = time.perf_counter() - started
    print(
        json.dumps(
            {
                "bench": "intake",
                "database": database,
                "shape": shape,
                "rows": rows,
                "seconds": round(elapsed, 3),
                "cpu_seconds": round(time.process_time() - cpu, 3),
                "rows_per_second": round(rows / elapsed),
            }
        ),
        flush=True,
    )
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--slots", type=int, default=60)
    options = parser.parse_args()
    for shape, per_page in (("live", 1), ("refill", 60)):
        if options.database in ("sqlite", "both"):
            with tempfile.TemporaryDirectory() as folder:
                engine = open_engine(DatabaseSettings(url=f"sqlite:///{Path(folder) / 'bench.sqlite'}"))
                measure(engine, "sqlite", shape, options.slots, per_page)
        if options.database in ("postgresql", "both"):
            url = postgresql.new_database(upgraded=False)
            measure(open_engine(DatabaseSettings(url=url)), "postgresql", shape, options.slots, per_page)


if __name__ == "__main__":
    main()
