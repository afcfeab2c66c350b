"""The list of units: milliseconds per page out of a million units, on SQLite and on PostgreSQL.

One JSON line per kind of list; `energy` is the one with a goal. Pages are random ones, reached by their cursor.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, select, text
from tests import postgresql

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.database import bulk, schema
from kwhere.database.engine import open_engine, writing
from kwhere.database.maintenance import upgrade
from kwhere.database.reader import Reader
from kwhere.database.reading.paging import encode_cursor
from kwhere.database.records import UnitQuery, UnitSort
from kwhere.database.schema import FIGURE_COLUMNS
from kwhere.database.settings import DatabaseSettings, SiteSettings
from kwhere.database.visibility import AccountName, Visibility

USERS = 5000
RUNNING = 2000
BATCH = 10_000
YEAR_NS = 365 * 86_400 * 10**9


def fill(engine: Engine, units: int, span_ns: int = YEAR_NS) -> None:
    """Make `units` units of one node run each, over one year unless told otherwise."""
    now_ns, dice = time.time_ns(), random.Random(1)
    with writing(engine).begin() as connection:
        bulk.insert(connection, schema.clusters, ("id", "name"), [(1, "c1")])
        bulk.insert(connection, schema.nodes, ("id", "cluster_id", "name"), [(n, 1, f"n{n}") for n in range(1, 1001)])
        rows: list[bulk.Row] = [(n, 1, f"user{n}", now_ns) for n in range(1, USERS + 1)]
        bulk.insert(connection, schema.users, ("id", "cluster_id", "name", "last_seen_ns"), rows)
        bulk.insert(connection, schema.projects, ("id", "cluster_id", "name", "last_seen_ns"), rows[:200])
    for first in range(1, units + 1, BATCH):
        ids = range(first, min(first + BATCH, units + 1))
        with writing(engine).begin() as connection:
            _fill_batch(connection, ids, units, now_ns, dice, span_ns)
    with writing(engine).begin() as connection:
        connection.execute(text("ANALYZE"))


def _fill_batch(
    connection: object, ids: range, units: int, now_ns: int, dice: random.Random, span_ns: int = YEAR_NS
) -> None:
    unit_rows: list[bulk.Row] = []
    total_rows: list[bulk.Row] = []
    run_rows: list[bulk.Row] = []
    figure_rows: list[bulk.Row] = []
    for n in ids:
        user, project = int(dice.paretovariate(0.3)) % USERS + 1, dice.randrange(200) + 1
        start_ns = now_ns - span_ns + span_ns * n // units
        ended_ns = None if n > units - RUNNING else start_ns + dice.randrange(60, 86_400) * 10**9
        newest_ns = ended_ns or now_ns
        energy_uj, cpu_ns = int(dice.lognormvariate(22, 3)), dice.randrange(10**15)
        run, node = f"{n}@{start_ns // 10**9}", n % 1000 + 1
        search = f"{n}\njob {n % 977}\nuser{user}\nuser{project}"
        state = "running" if ended_ns is None else "ended"
        unit_rows.append(
            (n, 1, "slurm", str(n), run, node, f"job {n % 977}", user, project, search, state, start_ns, ended_ns)
        )
        power = (dice.randrange(10**9), now_ns + 10**12) if ended_ns is None else (None, None)
        total_rows.append((n, newest_ns, *power, energy_uj, cpu_ns, None))
        run_rows.append((n, node, "unit", "slurm", str(n), run, n, start_ns, ended_ns))
        figures = [energy_uj // 8] * 8 + [cpu_ns // 2] * 2 + [1] * (len(FIGURE_COLUMNS) - 10)
        figure_rows.append((n, newest_ns, *power, 0, *figures))
    unit_columns = (
        "id cluster_id manager unit run scope_node_id name user_id project_id search state started_ns ended_ns"
    )
    total_columns = "unit_id newest_end_ns power_uw power_until_ns energy_uj cpu_ns gpu_busy_ns"
    run_columns = "id node_id kind manager unit run unit_id started_ns ended_ns"
    figure_columns = ["unit_run_id", "newest_end_ns", "power_uw", "power_until_ns", "flags", *FIGURE_COLUMNS]
    bulk.insert(connection, schema.units, unit_columns.split(), unit_rows)  # type: ignore[arg-type]
    bulk.insert(connection, schema.unit_totals, total_columns.split(), total_rows)  # type: ignore[arg-type]
    bulk.insert(connection, schema.unit_runs, run_columns.split(), run_rows)  # type: ignore[arg-type]
    bulk.insert(connection, schema.run_totals, figure_columns, figure_rows)  # type: ignore[arg-type]


def places(engine: Engine, units: int, dice: random.Random) -> list[str]:
    """Return cursors of random places in the list by energy."""
    table, totals, nodes = schema.units.c, schema.unit_totals.c, schema.nodes.c
    query = (
        select(totals.energy_uj, table.manager, table.unit, table.run, nodes.name)
        .select_from(schema.units.join(schema.unit_totals, totals.unit_id == table.id))
        .join(schema.nodes, nodes.id == table.scope_node_id)
        .where(table.id.in_([dice.randrange(units) + 1 for _ in range(500)]))
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [encode_cursor([UnitSort.ENERGY_JOULES.value, 1, row[0], "c1", *row[1:]]) for row in rows]


def lists(dice: random.Random, cursors: list[str]) -> Iterator[tuple[str, Callable[[], UnitQuery]]]:
    now = datetime.now(UTC)

    def somewhere() -> str:
        return dice.choice(cursors)

    yield "energy", lambda: UnitQuery(after=somewhere())
    yield "energy_first_page", UnitQuery
    yield "energy_ascending", lambda: UnitQuery(descending=False)
    yield "power", lambda: UnitQuery(sort=UnitSort.POWER_WATTS)
    yield "cpu", lambda: UnitQuery(sort=UnitSort.CPU_SECONDS)
    yield "gpu_busy", lambda: UnitQuery(sort=UnitSort.GPU_BUSY_SECONDS)
    yield "started", lambda: UnitQuery(sort=UnitSort.STARTED_AT)
    yield "ended", lambda: UnitQuery(sort=UnitSort.ENDED_AT)
    yield "running", lambda: UnitQuery(states=("running",))
    yield "of_a_user", lambda: UnitQuery(user=f"user{int(dice.paretovariate(0.3)) % USERS + 1}")
    yield "of_a_project", lambda: UnitQuery(project=f"user{dice.randrange(200) + 1}")
    yield "on_a_node", lambda: UnitQuery(node=f"n{dice.randrange(1000) + 1}")
    yield "last_day", lambda: UnitQuery(span=Span(now - timedelta(days=1), now))
    yield "search_common", lambda: UnitQuery(q=f"job {dice.randrange(977)}")
    yield "search_id", lambda: UnitQuery(q=str(dice.randrange(10**6)))


def measure(engine: Engine, database: str, units: int, turns: int) -> None:
    upgrade(engine)
    fill(engine, units)
    reader, dice = Reader(engine, SystemClock(), SiteSettings()), random.Random(2)
    for name, query in lists(dice, places(engine, units, dice)):
        _tell(database, name, units, [_seconds(reader, query()) for _ in range(turns)])
    for name, visibility in askers(dice):
        readers = [reader.seen_by(visibility()) for _ in range(turns)]
        _tell(database, f"seen_by_{name}", units, [_seconds(each, UnitQuery()) for each in readers])
    engine.dispose()


def askers(dice: random.Random) -> Iterator[tuple[str, Callable[[], Visibility]]]:
    """Yield who asks for what they may see: a user like most, the busiest one, a manager of three projects."""

    def user(number: int) -> frozenset[AccountName]:
        return frozenset({AccountName(f"user{number}")})

    yield "a_user", lambda: Visibility(users=user(int(dice.paretovariate(0.3)) % USERS + 1))
    yield "the_busiest", lambda: Visibility(users=user(2))
    yield (
        "a_manager",
        lambda: Visibility(
            users=user(7), projects=frozenset(AccountName(f"user{dice.randrange(200) + 1}") for _ in range(3))
        ),
    )


def _seconds(reader: Reader, query: UnitQuery) -> float:
    started = time.perf_counter()
    reader.units(replace(query, limit=50))
    return time.perf_counter() - started


def _tell(database: str, name: str, units: int, times: list[float]) -> None:
    times.sort()
    figures = {
        "p50_ms": round(times[len(times) // 2] * 1e3, 2),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1e3, 2),
    }
    print(
        json.dumps({"bench": "units_list", "database": database, "list": name, "units": units, **figures}), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    if options.database in ("sqlite", "both"):
        with tempfile.TemporaryDirectory() as folder:
            engine = open_engine(DatabaseSettings(url=f"sqlite:///{Path(folder) / 'bench.sqlite'}"))
            measure(engine, "sqlite", options.units, options.turns)
    if options.database in ("postgresql", "both"):
        url = postgresql.new_database(upgraded=False)
        measure(open_engine(DatabaseSettings(url=url)), "postgresql", options.units, options.turns)


if __name__ == "__main__":
    main()
