"""Grams of a million unit-hours computed anew after a revised factor, on SQLite and on PostgreSQL.

Three shapes: `hourly` factors (one worth per hour), `quarters` (a factor every 15 minutes: 5-minute usage is read),
`hours` (5-minute usage is gone). Each factor is revised, so every line changes and leaves a correction. Seconds are
those of the passes: hours, then days with lifetime sums; CPU seconds those of server and database, and what of them is
the server's. One JSON line per figure.
"""

import argparse
import json
import os
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.cpu_clock import cpu_clock
from sqlalchemy import Engine, text
from tests import postgresql

from kwhere.core.timespan import Span
from kwhere.database import bulk, schema
from kwhere.database.choices import write_choice
from kwhere.database.engine import open_engine, writing
from kwhere.database.factors import keep_factors, touch_hours
from kwhere.database.grid import BUCKET_NS, HOUR_NS, Grid, to_ns
from kwhere.database.maintenance import upgrade
from kwhere.database.rollup import roll_days, roll_hours
from kwhere.database.schema import BALANCE_COLUMNS, FIGURE_COLUMNS
from kwhere.database.settings import DatabaseSettings, SiteSettings
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.server.rollup_pass import BATCH

START = datetime(2026, 11, 2, tzinfo=UTC)
HOURS = 48
UNITS = 100
"""Of one node; a node is busy with the same ones for two days."""
SITE = SiteSettings(zone="FR")
ZEROS = (0,) * (len(FIGURE_COLUMNS) - 8)


def fill(engine: Engine, nodes: int, *, with_buckets: bool) -> None:
    now_ns = to_ns(START + timedelta(hours=HOURS + 3))
    with writing(engine).begin() as connection:
        bulk.insert(connection, schema.clusters, ("id", "name"), [(1, "c1")])
        bulk.insert(
            connection, schema.nodes, ("id", "cluster_id", "name"), [(n, 1, f"n{n}") for n in range(1, nodes + 1)]
        )
        if not with_buckets:
            write_choice(connection, "buckets.from_ns", now_ns, now_ns, "bench")
    for node in range(1, nodes + 1):
        with writing(engine).begin() as connection:
            _fill_node(connection, node, with_buckets=with_buckets)


def _fill_node(connection: object, node: int, *, with_buckets: bool) -> None:
    dice = random.Random(node)
    start_ns = to_ns(START)
    ids = range((node - 1) * UNITS + 1, node * UNITS + 1)
    units = [(n, 1, "slurm", str(n), str(n), node, str(n), "ended", start_ns) for n in ids]
    runs = [(n, node, "unit", "slurm", str(n), str(n), n, start_ns) for n in ids]
    unit_columns = ("id", "cluster_id", "manager", "unit", "run", "scope_node_id", "search", "state", "started_ns")
    run_columns = ("id", "node_id", "kind", "manager", "unit", "run", "unit_id", "started_ns")
    bulk.insert(connection, schema.units, unit_columns, units)  # type: ignore[arg-type]
    bulk.insert(connection, schema.unit_runs, run_columns, runs)  # type: ignore[arg-type]
    columns = ("unit_run_id", "start_ns", "node_id", *FIGURE_COLUMNS)
    tables = [(schema.usage_hour, HOUR_NS, HOURS)]
    if with_buckets:
        tables.append((schema.usage_5m, BUCKET_NS, HOURS * 12))
    for table, width_ns, count in tables:
        for number in range(count):
            energy = [dice.randrange(10**9) for _ in range(8)]
            rows = [(n, start_ns + number * width_ns, node, *energy, *ZEROS) for n in ids]
            bulk.insert(connection, table, columns, rows)  # type: ignore[arg-type]
    hours = [(node, start_ns + number * HOUR_NS, 0, 0, *(0 for _ in BALANCE_COLUMNS)) for number in range(HOURS)]
    node_columns = ("node_id", "start_ns", "accounted_ns", "measured_uj", *BALANCE_COLUMNS)
    bulk.insert(connection, schema.node_hour, node_columns, hours)  # type: ignore[arg-type]
    for day in range(HOURS // 24):
        rows = [(n, start_ns + day * 24 * HOUR_NS, node, *(1,) * len(FIGURE_COLUMNS)) for n in ids]
        bulk.insert(connection, schema.usage_day, columns, rows)  # type: ignore[arg-type]


def revise(engine: Engine, version: int, minutes: int) -> None:
    """Publish factors of so many minutes anew and touch the hours they change."""
    length = timedelta(minutes=minutes)
    dice = random.Random(version)
    factors = [
        Factor(
            "bench",
            "FR",
            Span(START + number * length, START + (number + 1) * length),
            dice.uniform(20, 90),
            START + timedelta(days=version),
            Basis.AVERAGE,
            Scope.LIFECYCLE,
            System.CONSUMPTION,
            Quality.MEASURED,
            "bench",
        )
        for number in range(HOURS * 60 // minutes)
    ]
    now_ns = _now_ns()
    with writing(engine).begin() as connection:
        nodes = list(connection.execute(text("SELECT id FROM nodes")).scalars())
        news = keep_factors(connection, "FR", factors, now_ns, reporting=True)
        touch_hours(connection, Grid(SITE.tz), news, nodes, now_ns)


def _now_ns() -> int:
    return to_ns(START + timedelta(hours=HOURS + 3))


def roll(engine: Engine) -> tuple[float, float]:
    """Return the seconds that hours and days took."""
    started = time.perf_counter()
    while roll_hours(engine, SITE, _now_ns(), BATCH):
        pass
    between = time.perf_counter()
    while roll_days(engine, SITE, _now_ns(), BATCH):
        pass
    return between - started, time.perf_counter() - between


def measure(engine: Engine, database: str, shape: str, nodes: int, minutes: int) -> None:
    upgrade(engine)
    fill(engine, nodes, with_buckets=shape != "hours")
    with writing(engine).begin() as connection:
        connection.execute(text("ANALYZE"))
    revise(engine, 0, minutes)
    roll(engine)
    revise(engine, 1, minutes)
    spent, own = cpu_clock(engine), time.process_time()
    cpu = spent()
    hours, days = roll(engine)
    cpu, own = spent() - cpu, time.process_time() - own
    with engine.connect() as connection:
        corrections = connection.execute(text("SELECT count(*) FROM corrections")).scalar_one()
    figures = {
        "unit_hours": nodes * UNITS * HOURS,
        "seconds": round(hours + days, 2),
        "of_hours": round(hours, 2),
        "of_days": round(days, 2),
        "cpu_seconds": round(cpu, 2),
        "of_server": round(own, 2),
        "load": round(os.getloadavg()[0], 1),
        "corrections": corrections,
    }
    print(json.dumps({"bench": "emissions", "database": database, "shape": shape, **figures}), flush=True)
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--shape", choices=["hourly", "quarters", "hours", "all"], default="all")
    parser.add_argument("--unit-hours", type=int, default=1_000_000)
    options = parser.parse_args()
    nodes = -(-options.unit_hours // (UNITS * HOURS))
    for shape, minutes in (("hourly", 60), ("quarters", 15), ("hours", 60)):
        if options.shape not in (shape, "all"):
            continue
        if options.database in ("sqlite", "both"):
            with tempfile.TemporaryDirectory() as folder:
                engine = open_engine(DatabaseSettings(url=f"sqlite:///{Path(folder) / 'bench.sqlite'}"))
                measure(engine, "sqlite", shape, nodes, minutes)
        if options.database in ("postgresql", "both"):
            url = postgresql.new_database(upgraded=False)
            measure(open_engine(DatabaseSettings(url=url)), "postgresql", shape, nodes, minutes)


if __name__ == "__main__":
    main()
