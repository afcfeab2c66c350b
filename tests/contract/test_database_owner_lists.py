"""Lists of one owner's units: the same by any index, and read off the owner's own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from tests.account_site import SITE, Site
from tests.journals import T0_NS

from kwhere.core.timespan import Span
from kwhere.database import bulk, schema
from kwhere.database.account_records import AccountQuery
from kwhere.database.ended_owners import settle_owners
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns
from kwhere.database.reading import owner_arms, owner_walk
from kwhere.database.records import UnitQuery, UnitSort
from kwhere.database.visibility import AccountName, Visibility

HOUR_NS = 3_600_000_000_000
MOST = 1200
"""Units of each of two users."""
SORTS = (UnitSort.ENERGY_JOULES, UnitSort.STARTED_AT, UnitSort.ENDED_AT)


def fill(engine: Engine, each: int) -> None:
    """Two users with as many units each, in two projects by turns; each seventh lives, each eleventh has no figures."""
    numbers = range(1, 2 * each + 1)
    units: list[bulk.Row] = []
    totals: list[bulk.Row] = []
    for n in numbers:
        start_ns = T0_NS - n * HOUR_NS
        ended_ns = None if n % 7 == 0 else start_ns + (n % 5 + 1) * HOUR_NS
        head = (
            n,
            1,
            "slurm",
            f"u{n:05d}",
            f"u{n:05d}",
            0,
            1 + n % 2,
            1 + n // 3 % 2,
            f"u{n:05d}",
            "main" if n % 3 else "gpu",
        )
        units.append((*head, "running" if ended_ns is None else "completed", start_ns, ended_ns, n % 11 != 0))
        if n % 11:
            # Many have the same energy: of these the id decides.
            totals.append((n, ended_ns or T0_NS, n * 7919 % 101, n))
    names = "id cluster_id manager unit run scope_node_id user_id project_id search queue state started_ns ended_ns"
    with writing(engine).begin() as connection:
        bulk.insert(connection, schema.clusters, ("id", "name"), [(1, "c1")])
        for table, words in ((schema.users, "alice bob"), (schema.projects, "p1 p2")):
            rows: list[bulk.Row] = [(at, 1, word, T0_NS) for at, word in enumerate(words.split(), 1)]
            bulk.insert(connection, table, ("id", "cluster_id", "name", "last_seen_ns"), rows)
        bulk.insert(connection, schema.units, (*names.split(), "is_reported"), units)
        bulk.insert(connection, schema.unit_totals, ("unit_id", "newest_end_ns", "energy_uj", "cpu_ns"), totals)
        settle_owners(connection, numbers)
        connection.execute(text("ANALYZE"))


def span(hours: int) -> Span:
    end = from_ns(T0_NS)
    return Span(end - timedelta(hours=hours), end)


ASKED = {
    "a user": UnitQuery(user="alice"),
    "a project": UnitQuery(project="p2"),
    "both": UnitQuery(user="alice", project="p2"),
    "of a cluster": UnitQuery(user="alice", cluster="c1"),
    "in a span": UnitQuery(user="alice", span=span(30)),
    "in a past span": UnitQuery(user="alice", span=Span(from_ns(T0_NS - 40 * HOUR_NS), from_ns(T0_NS - 20 * HOUR_NS))),
    "in a span, and what runs": UnitQuery(user="alice", span=span(10), running=True),
    "running": UnitQuery(user="alice", states=("running",)),
    "of a queue": UnitQuery(user="alice", queue="gpu"),
    "of one id": UnitQuery(user="alice", q="u0001"),
    "nobody": UnitQuery(user="carol"),
    "all that is seen": UnitQuery(),
}
EYES = {
    "everything": Visibility(everything=True),
    "oneself": Visibility(users=frozenset({AccountName("alice")})),
    "a project": Visibility(projects=frozenset({AccountName("p1")})),
    "oneself and a project": Visibility(
        users=frozenset({AccountName("alice")}), projects=frozenset({AccountName("p1")})
    ),
}


def pages(site: Site, query: UnitQuery, eyes: Visibility) -> list[str]:
    found: list[str] = []
    while True:
        page = site.reader.seen_by(eyes).units(query)
        found += [item.unit for item in page.items]
        if page.next is None:
            return found
        query = replace(query, after=page.next)


@pytest.fixture
def filled(engine: Engine) -> Site:
    fill(engine, 30)
    return Site(engine, SITE)


@pytest.mark.parametrize("eyes", EYES.values(), ids=EYES)
@pytest.mark.parametrize("sort", SORTS)
def test_the_walk_finds_what_sorting_finds(
    filled: Site, sort: UnitSort, eyes: Visibility, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        name: replace(query, sort=sort, descending=at % 3 > 0, limit=17)
        for at, (name, query) in enumerate(ASKED.items())
    }
    monkeypatch.setattr(owner_arms, "MOST_ARMS", 0)
    expected = {name: pages(filled, replace(query, limit=100), eyes) for name, query in asked.items()}
    monkeypatch.setattr(owner_arms, "MOST_ARMS", 24)
    sorted_few = {name: pages(filled, query, eyes) for name, query in asked.items() if query.span is not None}
    monkeypatch.setattr(owner_walk, "FEW_OF_OWNER", 0)

    walked = {name: pages(filled, query, eyes) for name, query in asked.items()}

    assert walked == expected
    assert sorted_few == {name: expected[name] for name in sorted_few}
    # Of 60 the even are hers, 30 are of p1, and 10 of these odd.
    assert len(expected["all that is seen"]) in (30, 40, 60)


Statement = tuple[str, Any]


@contextmanager
def listening(engine: Engine) -> Iterator[list[Statement]]:
    """Collect the statements that are run, with their parameters."""
    found: list[Statement] = []

    def note(_: Connection, __: object, statement: str, parameters: Any, *___: object) -> None:
        found.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


def read_rows(engine: Engine, statements: list[Statement], *tables: str) -> int:
    """Return how many rows of these tables PostgreSQL read for them, whether it kept them or not."""

    def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for inner in plan.get("Plans", ()):
            yield from nodes(inner)

    read = 0
    with engine.connect() as connection:
        # Tables of a few thousand rows are quicker read whole; this is about tables that are not.
        for way in ("seqscan", "hashjoin", "mergejoin"):
            connection.execute(text(f"SET enable_{way} = off"))
        for statement, parameters in statements:
            if not statement.startswith("SELECT"):
                continue
            explained = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            found = explained.scalar_one()
            for plan in nodes((found if isinstance(found, list) else json.loads(found))[0]["Plan"]):
                if plan.get("Relation Name") in tables:
                    kept = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
                    read += kept * plan["Actual Loops"]
    return int(read)


def sqlite_plans(engine: Engine, statements: list[Statement]) -> list[str]:
    with engine.connect() as connection:
        return [
            row[3]
            for statement, parameters in statements
            if statement.startswith("SELECT")
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]


WALKS: dict[str, tuple[UnitQuery, str]] = {
    "by energy": (UnitQuery(user="alice"), "ix_unit_totals_ended_user_id"),
    "of a project": (UnitQuery(project="p2"), "ix_unit_totals_ended_project_id"),
    "by start": (UnitQuery(user="alice", sort=UnitSort.STARTED_AT), "ix_units_user_id"),
    "by end": (UnitQuery(user="alice", sort=UnitSort.ENDED_AT), "ix_units_user_id_ended"),
    "in a month": (UnitQuery(user="alice", span=span(200)), "ix_units_user_id_ended"),
    "in a queue": (UnitQuery(user="alice", queue="gpu"), "ix_unit_totals_ended_user_id"),
}


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("eyes", ["everything", "oneself"])
def test_a_page_of_an_owner_looks_at_few_units(engine: Engine, name: str, eyes: str) -> None:
    query, index = WALKS[name]
    if (name, eyes) == ("of a project", "oneself"):
        eyes = "a project"
        query, index = replace(query, project="p1"), index
    fill(engine, MOST)
    site = Site(engine, SITE)
    with writing(engine).begin() as connection:  # who lives is sorted: here nobody does
        connection.execute(text("UPDATE units SET ended_ns = started_ns + 1 WHERE ended_ns IS NULL"))
        settle_owners(connection, range(1, 2 * MOST + 1))
        connection.execute(text("ANALYZE"))
    reader = site.reader.seen_by(EYES[eyes])
    with listening(engine) as statements:
        page = reader.units(replace(query, limit=10))

    assert len(page.items) == 10
    if engine.dialect.name == "sqlite":
        assert any(f"INDEX {index} " in step for step in sqlite_plans(engine, statements))
    else:
        # Of 1200: the page, what is filled in by id, and of a span what has to be counted and sorted.
        assert read_rows(engine, statements, "units", "unit_totals") < (150 if query.span is None else 700)


@pytest.mark.service("postgresql")
def test_the_grams_of_one_owner_are_added_up_from_that_owners_units(engine: Engine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("what SQLite reads is not told")
    fill(engine, MOST)
    site = Site(engine, SITE)
    with writing(engine).begin() as connection:
        source = (1, "fixed", "FR", "average", "lifecycle", "production", True)
        names = ("id", "provider", "zone", "basis", "scope", "system", "reporting")
        bulk.insert(connection, schema.factor_sources, names, [source])
        rows: list[bulk.Row] = [(n, 1, 0.5, "static") for n in range(1, 2 * MOST + 1)]
        bulk.insert(connection, schema.unit_emissions, ("unit_id", "source_id", "grams", "quality"), rows)
        connection.execute(text("ANALYZE"))
    with listening(engine) as statements:
        (alice,) = site.reader.users(AccountQuery(name="alice")).items

    assert alice.emissions_grams == pytest.approx(0.5 * MOST)
    assert read_rows(engine, statements, "unit_emissions") <= MOST
