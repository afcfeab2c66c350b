"""One user's page of units among millions, and a month's usage of all projects, on SQLite and on PostgreSQL.

Units are spread over a year and owned by 5000 users, the busiest of whom has 3 % of them, and by 200 projects. One JSON
line per figure; `--units 10000000 --database postgresql` is the size of the goal there (15 GB, ten minutes to fill).
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, Engine, Index, Table, text
from tests import postgresql

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.database import account_marks, schema
from kwhere.database.engine import POSTGRESQL, open_engine, writing
from kwhere.database.grid import DAY_NS, Grid, from_ns
from kwhere.database.maintenance import upgrade
from kwhere.database.reader import Reader
from kwhere.database.records import UnitQuery, UnitSort, UsageBy
from kwhere.database.settings import DatabaseSettings, SiteSettings
from kwhere.server.account_day_pass import AccountDayPass

USERS, PROJECTS, NODES = 5000, 200, 1000
MONTH_DAYS = 30
FILLED = (schema.units, schema.unit_totals, schema.unit_runs, schema.run_totals, schema.usage_day, schema.emissions_day)

NUMBERS = {
    "sqlite": "WITH RECURSIVE s(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < :units)",
    POSTGRESQL: "WITH s(g) AS (SELECT generate_series(CAST(1 AS bigint), :units))",
}
# Scattered, not random: both databases get the same rows. The cube makes few users busy.
_SCATTER = "((g * 7919) % 1000003)"
_SIZE = "((g * 104729 + 17) % 1000003)"
_USER = f"(1 + ({_SCATTER} * {_SCATTER} / 1000003 * {_SCATTER} / 1000003) * {USERS} / 1000003)"
_START = ":first + :year / :units * g"
_ENDS = f"({_START} + 60000000000 + {_SCATTER} * 80000000)"
_UNITS = f"""
    INSERT INTO units (id, cluster_id, manager, unit, run, scope_node_id, name, user_id, project_id, search, state,
      started_ns, ended_ns, queue)
    SELECT g, 1, 'slurm', CAST(g AS text), CAST(g AS text), 0, 'job' || (g % 977), {_USER},
      1 + ({_USER} + g % 2) % {PROJECTS},
      CAST(g AS text) || ' job' || (g % 977), 'completed', {_START}, {_ENDS}, 'main' FROM s"""
_TOTALS = f"""
    INSERT INTO unit_totals (unit_id, newest_end_ns, energy_uj, cpu_ns)
    SELECT g, {_ENDS}, {_SIZE} * 1000003 + g, {_SCATTER} * 3600000 FROM s"""
_RUNS = f"""
    INSERT INTO unit_runs (id, node_id, kind, manager, unit, run, unit_id, started_ns, ended_ns, claim)
    SELECT g, 1 + g % {NODES}, 'unit', 'slurm', CAST(g AS text), CAST(g AS text), g, {_START}, {_ENDS}, 'claimed'
    FROM s"""
_RUN_TOTALS = f"""
    INSERT INTO run_totals (unit_run_id, newest_end_ns, flags, cpu_dynamic_uj, cpu_user_ns, cpu_allocated_ns)
    SELECT g, {_ENDS}, 0, {_SIZE} * 1000003 + g, {_SCATTER} * 3600000, {_SCATTER} * 4000000 FROM s"""
_DAY = f"(({_START}) / {DAY_NS} * {DAY_NS})"
_USAGE = f"""
    INSERT INTO usage_day (unit_run_id, start_ns, node_id, flags, cpu_dynamic_uj, cpu_user_ns, cpu_allocated_ns)
    SELECT g, {_DAY}, 1 + g % {NODES}, 0, {_SIZE} * 1000003 + g, {_SCATTER} * 3600000, {_SCATTER} * 4000000
    FROM s WHERE {_START} >= :month"""
_GRAMS = f"""
    INSERT INTO emissions_day (unit_run_id, start_ns, source_id, grams, quality, node_id, computed_ns)
    SELECT g, {_DAY}, 1, {_SCATTER} / 10.0, 'static', 1 + g % {NODES}, 0 FROM s WHERE {_START} >= :month"""


def fill(engine: Engine, units: int) -> None:
    """Make a year of units, and the days of its last month."""
    today_ns = time.time_ns() // DAY_NS * DAY_NS
    first_ns, month_ns = today_ns - 365 * DAY_NS, today_ns - MONTH_DAYS * DAY_NS
    words = {"units": units, "first": first_ns, "year": 365 * DAY_NS, "month": month_ns}
    indexes = [index for table in FILLED for index in table.indexes]
    with writing(engine).begin() as connection:
        _few(connection, today_ns, month_ns)
        _drop(connection, indexes)
    for statement in (_UNITS, _TOTALS, _RUNS, _RUN_TOTALS, _USAGE, _GRAMS):
        with writing(engine).begin() as connection:
            _bulk(connection)
            head = NUMBERS[engine.dialect.name]
            connection.execute(
                text(_headed(statement, head)), {k: v for k, v in words.items() if f":{k}" in statement + head}
            )
    for index in indexes:
        with writing(engine).begin() as connection:
            _bulk(connection)
            index.create(connection)
    with writing(engine).begin() as connection:
        connection.execute(text("ANALYZE"))


def _headed(statement: str, head: str) -> str:
    """The numbers stand before the SELECT, where both databases take them."""
    before, _, after = statement.partition("SELECT")
    return f"{before}{head} SELECT{after}"


def _bulk(connection: Connection) -> None:
    if connection.dialect.name == POSTGRESQL:
        connection.execute(text("SET session_replication_role = replica"))
        connection.execute(text("SET maintenance_work_mem = '1GB'"))
    else:
        connection.execute(text("PRAGMA foreign_keys = OFF"))


def _few(connection: Connection, today_ns: int, month_ns: int) -> None:
    def put(table: Table, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
        names = columns.split()
        connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])

    put(schema.clusters, "id name", [(1, "c1")])
    nodes = [(n, 1, f"n{n}", month_ns, today_ns, today_ns, 64) for n in range(1, NODES + 1)]
    put(schema.nodes, "id cluster_id name first_start_ns newest_end_ns pull_ns cpus", nodes)
    put(schema.users, "id cluster_id name last_seen_ns", [(n, 1, f"user{n}", today_ns) for n in range(1, USERS + 1)])
    put(schema.projects, "id cluster_id name last_seen_ns", [(n, 1, f"p{n}", today_ns) for n in range(1, PROJECTS + 1)])
    source = [(1, "static", "FR", "average", "lifecycle", "production", True)]
    put(schema.factor_sources, "id provider zone basis scope system reporting", source)
    days = range(month_ns, today_ns, DAY_NS)
    accounted = [(n, day, DAY_NS, 0) for day in days for n in range(1, NODES + 1)]
    put(schema.node_day, "node_id start_ns accounted_ns measured_uj", accounted)
    account_marks.mark(connection, [account_marks.Mark(1, day, day + DAY_NS) for day in days])


def _drop(connection: Connection, indexes: list[Index]) -> None:
    for index in indexes:
        index.drop(connection)


class _Leave:
    def goes_on(self) -> bool:
        return True


def questions(reader: Reader, dice: random.Random) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Return name, turns and question of each figure; users are those of a random unit, so busy ones come often."""
    today = from_ns(time.time_ns() // DAY_NS * DAY_NS)
    month = Span(today - timedelta(days=MONTH_DAYS), today)

    def user() -> str:
        scatter = dice.randrange(1_000_003)
        return f"user{1 + (scatter * scatter // 1_000_003 * scatter // 1_000_003) * USERS // 1_000_003}"

    def page(**words: object) -> Callable[[], object]:
        return lambda: reader.units(replace(UnitQuery(user=user(), limit=50), **words))  # type: ignore[arg-type]

    yield "user_by_energy", 200, page()
    yield "user_by_start", 200, page(sort=UnitSort.STARTED_AT)
    yield "user_in_month", 100, page(span=Span(datetime.now(UTC) - timedelta(days=30), datetime.now(UTC)))
    yield (
        "project_by_energy",
        100,
        lambda: reader.units(UnitQuery(project=f"p{dice.randrange(PROJECTS) + 1}", limit=50)),
    )
    yield "month_of_all_projects", 10, lambda: reader.usage(UsageBy.PROJECT, month)
    yield "month_of_all_users", 10, lambda: reader.usage(UsageBy.USER, month)
    yield "month_of_a_project_by_day", 10, lambda: reader.usage(UsageBy.DAY, month, project="p7")


def measure(engine: Engine, units: int) -> None:
    """Print every figure."""
    upgrade(engine)
    started = time.perf_counter()
    fill(engine, units)
    _say(engine, "fill", units, seconds=round(time.perf_counter() - started, 1))
    reader = Reader(engine, SystemClock(), SiteSettings())
    dice = random.Random(2)
    before = {name: ask for name, _, ask in questions(reader, dice)}
    _time(engine, units, "month_of_all_projects_from_units", 1, before["month_of_all_projects"])
    started = time.perf_counter()
    AccountDayPass(engine, Grid(SiteSettings().tz), SystemClock()).run(_Leave())
    seconds = (time.perf_counter() - started) / MONTH_DAYS
    _say(engine, "sum_up_a_day", units, seconds=round(seconds, 3), units_a_day=units // 365)
    for name, turns, ask in questions(reader, dice):
        _time(engine, units, name, turns, ask)
    engine.dispose()


def _time(engine: Engine, units: int, name: str, turns: int, ask: Callable[[], object]) -> None:
    times: list[float] = []
    before = _cpu_seconds(engine)
    for _ in range(turns):
        started = time.perf_counter()
        ask()
        times.append((time.perf_counter() - started) * 1e3)
    times.sort()
    p50, p99 = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
    cpu_ms = (_cpu_seconds(engine) - before) / turns * 1e3
    _say(engine, name, units, p50_ms=round(p50, 2), p99_ms=round(p99, 2), cpu_ms=round(cpu_ms, 2))


def _cpu_seconds(engine: Engine) -> float:
    """Return CPU time of this process and of the database's that answers it: other work does not count."""
    spent = time.process_time()
    if engine.dialect.name != POSTGRESQL:
        return spent
    with engine.connect() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return spent + (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _say(engine: Engine, name: str, units: int, **figures: float) -> None:
    print(
        json.dumps({"bench": "accounts", "database": engine.dialect.name, "figure": name, "units": units, **figures}),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--units", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.database in ("sqlite", "both"):
        with tempfile.TemporaryDirectory() as folder:
            engine = open_engine(DatabaseSettings(url=f"sqlite:///{Path(folder) / 'bench.sqlite'}"))
            measure(engine, options.units)
    if options.database in ("postgresql", "both"):
        url = postgresql.new_database(upgraded=False)
        measure(open_engine(DatabaseSettings(url=url)), options.units)
        postgresql.drop_database(url)


if __name__ == "__main__":
    main()
