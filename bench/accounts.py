"""One user's page of units among millions, and a month's usage of all projects, on SQLite and on PostgreSQL.

Units are spread over a year and owned by 5000 users, the busiest of whom has 6 % of them, and by 200 projects. People
work in bursts: the units of a day are those of 600 campaigns, each of one user in one project. With `--steady` all work
every day instead, which no site does and which is the hardest for sums by account. `--units 10000000 --database
postgresql` is the size of the goal there (15 GB, ten minutes to fill).

One JSON line per figure. `_ms` is by the clock, `cpu_` the time on a CPU of this process and of the database's that
answers it: what the clock would show on a machine with nothing else to do.
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

from bench.cpu_clock import cpu_clock
from sqlalchemy import Connection, Engine, Index, Table, func, select, text
from tests import postgresql

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.database import account_marks, schema
from kwhere.database.account_records import AccountQuery
from kwhere.database.engine import POSTGRESQL, open_engine, writing
from kwhere.database.grid import BUCKET_NS, DAY_NS, HOUR_NS, Grid, from_ns
from kwhere.database.maintenance import upgrade
from kwhere.database.reader import Reader
from kwhere.database.records import UnitQuery, UnitSort, UsageBy
from kwhere.database.settings import DatabaseSettings, SiteSettings
from kwhere.database.visibility import AccountName, Visibility
from kwhere.server.account_day_pass import AccountDayPass

USERS, PROJECTS, NODES, CAMPAIGNS = 5000, 200, 1000, 600
MONTH_DAYS = 30
_WARM_UP = 10
"""Statements are compiled once per process, and prepared by their sixth time."""
FILLED = (schema.units, schema.unit_totals, schema.unit_runs, schema.run_totals, schema.usage_day, schema.emissions_day)

NUMBERS = {
    "sqlite": "WITH RECURSIVE s(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < :units)",
    POSTGRESQL: "WITH s(g) AS (SELECT generate_series(CAST(1 AS bigint), :units))",
}
# Scattered, not random: both databases get the same rows. The cube makes few users busy.
_SCATTER = "((g * 7919) % 1000003)"
_SIZE = "((g * 104729 + 17) % 1000003)"
_CAMPAIGN = f"((g / (:units / 365 + 1) * {CAMPAIGNS} + (g * 7919) % {CAMPAIGNS}) * 7919 % 1000003)"
_WHO = f"CAST(:steady AS bigint) * {_SCATTER} + (1 - CAST(:steady AS bigint)) * {_CAMPAIGN}"
_USER = f"(1 + (({_WHO}) * ({_WHO}) / 1000003 * ({_WHO}) / 1000003) * {USERS} / 1000003)"
_PROJECT = f"(1 + ({_USER} + ({_WHO}) % 2) % {PROJECTS})"
_START = ":first + :year / :units * g"
_WOULD_END = f"({_START} + 60000000000 + {_SCATTER} * 80000000)"
_ENDS = f"(CASE WHEN {_WOULD_END} < :now THEN {_WOULD_END} END)"
_NEWEST = f"(CASE WHEN {_WOULD_END} < :now THEN {_WOULD_END} ELSE :now END)"
_UNITS = f"""
    INSERT INTO units (id, cluster_id, manager, unit, run, scope_node_id, name, user_id, project_id, search, state,
      started_ns, ended_ns, queue)
    SELECT g, 1, 'slurm', CAST(g AS text), CAST(g AS text), 0, 'job' || (g % 977), {_USER}, {_PROJECT},
      CAST(g AS text) || ' job' || (g % 977), CASE WHEN {_WOULD_END} < :now THEN 'completed' ELSE 'running' END,
      {_START}, {_ENDS}, 'main' FROM s"""
_TOTALS = f"""
    INSERT INTO unit_totals (unit_id, newest_end_ns, energy_uj, cpu_ns, ended_user_id, ended_project_id)
    SELECT g, {_NEWEST}, {_SIZE} * 1000003 + g, {_SCATTER} * 3600000,
      CASE WHEN {_WOULD_END} < :now THEN {_USER} END, CASE WHEN {_WOULD_END} < :now THEN {_PROJECT} END FROM s"""
_RUNS = f"""
    INSERT INTO unit_runs (id, node_id, kind, manager, unit, run, unit_id, started_ns, ended_ns, claim)
    SELECT g, 1 + g % {NODES}, 'unit', 'slurm', CAST(g AS text), CAST(g AS text), g, {_START}, {_ENDS}, 'claimed'
    FROM s"""
_RUN_TOTALS = f"""
    INSERT INTO run_totals (unit_run_id, newest_end_ns, flags, cpu_dynamic_uj, cpu_user_ns, cpu_allocated_ns)
    SELECT g, {_NEWEST}, 0, {_SIZE} * 1000003 + g, {_SCATTER} * 3600000, {_SCATTER} * 4000000 FROM s"""
_DAY = f"(({_START}) / {DAY_NS} * {DAY_NS})"
_USAGE = f"""
    INSERT INTO usage_day (unit_run_id, start_ns, node_id, flags, cpu_dynamic_uj, cpu_user_ns, cpu_allocated_ns)
    SELECT g, {_DAY}, 1 + g % {NODES}, 0, {_SIZE} * 1000003 + g, {_SCATTER} * 3600000, {_SCATTER} * 4000000
    FROM s WHERE {_START} >= :month"""
_GRAMS = f"""
    INSERT INTO emissions_day (unit_run_id, start_ns, source_id, grams, quality, node_id, computed_ns)
    SELECT g, {_DAY}, 1, {_SCATTER} / 10.0, 'static', 1 + g % {NODES}, 0 FROM s WHERE {_START} >= :month"""

_UNIT_GRAMS = f"""
    INSERT INTO unit_emissions (unit_id, source_id, grams, quality)
    SELECT g, 1, {_SCATTER} / 10.0, 'static' FROM s"""


def fill(engine: Engine, units: int, *, steady: bool = False) -> None:
    """Make a year of units, the days of its last month, and the nodes' hours and buckets that pages look at."""
    now_ns = time.time_ns()
    today_ns = now_ns // DAY_NS * DAY_NS
    first_ns, month_ns = today_ns - 365 * DAY_NS, today_ns - MONTH_DAYS * DAY_NS
    words = {"units": units, "first": first_ns, "year": 365 * DAY_NS, "month": month_ns, "now": now_ns}
    words["steady"] = int(steady)
    indexes = [index for table in FILLED for index in table.indexes]
    with writing(engine).begin() as connection:
        _few(connection, today_ns, month_ns)
        _drop(connection, indexes)
    for statement in (_UNITS, _TOTALS, _RUNS, _RUN_TOTALS, _USAGE, _GRAMS, _UNIT_GRAMS):
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
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # A site's own vacuum has long been there.
        connection.execute(text("VACUUM (ANALYZE)" if engine.dialect.name == POSTGRESQL else "ANALYZE"))


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
    _recent(put)
    account_marks.mark(connection, [account_marks.Mark(1, day, day + DAY_NS) for day in days])


def _recent(put: Callable[[Table, str, Sequence[tuple[object, ...]]], None]) -> None:
    """Make what the completeness of a page is read from: a day and more of hours and of 5-minute buckets."""
    now_ns = time.time_ns()
    for table, width_ns in ((schema.node_hour, HOUR_NS), (schema.node_5m, BUCKET_NS)):
        last_ns = now_ns // width_ns * width_ns
        starts = range(last_ns - 26 * HOUR_NS, last_ns, width_ns)
        for start_ns in starts:
            rows = [(node, start_ns, width_ns, 1000) for node in range(1, NODES + 1)]
            put(table, "node_id start_ns accounted_ns measured_uj", rows)


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

    def own() -> object:
        name = user()
        return reader.seen_by(Visibility(users=frozenset({AccountName(name)}))).units(UnitQuery(limit=50))

    now = datetime.now(UTC)
    yield "user_by_energy", 200, page()
    yield "user_by_start", 200, page(sort=UnitSort.STARTED_AT)
    yield "user_in_month", 200, page(span=Span(now - timedelta(days=30), now))
    yield "user_in_a_past_week", 200, page(span=Span(now - timedelta(days=107), now - timedelta(days=100)))
    yield "own_by_energy", 200, own
    yield (
        "project_by_energy",
        100,
        lambda: reader.units(UnitQuery(project=f"p{dice.randrange(PROJECTS) + 1}", limit=50)),
    )
    yield "user_by_cpu", 50, page(sort=UnitSort.CPU_SECONDS)
    yield "lifetime_of_a_user", 20, lambda: reader.users(AccountQuery(name=user()))
    yield "month_of_all_projects", 10, lambda: reader.usage(UsageBy.PROJECT, month)
    yield "month_of_all_users", 10, lambda: reader.usage(UsageBy.USER, month)
    yield "month_of_a_project_by_day", 10, lambda: reader.usage(UsageBy.DAY, month, project="p7")


def measure(engine: Engine, units: int, *, steady: bool) -> None:
    """Print every figure."""
    upgrade(engine)
    started = time.perf_counter()
    fill(engine, units, steady=steady)
    _say(engine, "fill", units, seconds=round(time.perf_counter() - started, 1))
    reader = Reader(engine, SystemClock(), SiteSettings())
    dice = random.Random(2)
    before = {name: ask for name, _, ask in questions(reader, dice)}
    _time(engine, units, "month_of_all_projects_from_units", 1, before["month_of_all_projects"])
    started = time.perf_counter()
    AccountDayPass(engine, Grid(SiteSettings().tz), SystemClock()).run(_Leave())
    seconds = (time.perf_counter() - started) / MONTH_DAYS
    with engine.connect() as connection:
        rows = connection.execute(select(func.count()).select_from(schema.account_days)).scalar_one()
    figures = {"units_a_day": units // 365, "account_days": rows}
    _say(engine, "sum_up_a_day", units, seconds=round(seconds, 3), **figures)
    for name, turns, ask in questions(reader, dice):
        _time(engine, units, name, turns, ask)
    engine.dispose()


def _time(engine: Engine, units: int, name: str, turns: int, ask: Callable[[], object]) -> None:
    times: list[float] = []
    cpu_times: list[float] = []
    spent = cpu_clock(engine)
    for _ in range(_WARM_UP if turns > _WARM_UP else 0):
        ask()
    for _ in range(turns):
        started, before = time.perf_counter(), spent()
        ask()
        times.append((time.perf_counter() - started) * 1e3)
        cpu_times.append((spent() - before) * 1e3)
    figures = {"p50_ms": _at(times, 0.5), "p99_ms": _at(times, 0.99)}
    _say(engine, name, units, **figures, cpu_p50_ms=_at(cpu_times, 0.5), cpu_p99_ms=_at(cpu_times, 0.99))


def _at(times: Sequence[float], share: float) -> float:
    return round(sorted(times)[min(len(times) - 1, int(len(times) * share))], 2)


def _say(engine: Engine, name: str, units: int, **figures: float) -> None:
    load = {"load": round(os.getloadavg()[0], 1)}
    print(
        json.dumps(
            {"bench": "accounts", "database": engine.dialect.name, "figure": name, "units": units, **figures, **load}
        ),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--steady", action="store_true", help="everybody works every day")
    options = parser.parse_args()
    if options.database in ("sqlite", "both"):
        with tempfile.TemporaryDirectory() as folder:
            engine = open_engine(DatabaseSettings(url=f"sqlite:///{Path(folder) / 'bench.sqlite'}"))
            measure(engine, options.units, steady=options.steady)
    if options.database in ("postgresql", "both"):
        url = postgresql.new_database(upgraded=False)
        measure(open_engine(DatabaseSettings(url=url)), options.units, steady=options.steady)
        postgresql.drop_database(url)


if __name__ == "__main__":
    main()
