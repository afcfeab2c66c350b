"""Usage, hours and days, over SQLite and PostgreSQL: figures worked out by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select
from tests.account_site import T0, J, Site, all_rows, minutes, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit

from kwhere.core.terms import EntryKind, Method
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.booking import touch
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.records import UsageBy
from kwhere.database.settings import SiteSettings


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


@pytest.mark.parametrize("rolled", [False, True])
def test_usage_sums_to_the_node(site: Site, rolled: bool) -> None:
    journal = worked_case(HandJournal(), slots=10)
    journal.append([system(figures(600 * J, 0)), unallocated(figures(0, 5400 * J))])
    site.take(journal)
    site.roll()
    span = minutes(0, 11) if not rolled else Span(T0 - timedelta(days=3), T0 + timedelta(hours=1))

    rows = {(row.key, row.kind): (row.energy_total_uj, row.units) for row in site.reader.usage(UsageBy.USER, span).rows}
    by_cluster = {row.kind: row.energy_total_uj for row in site.reader.usage(UsageBy.CLUSTER, span).rows}

    assert rows == {
        ("alice", EntryKind.UNIT): (96_000 * J, 1),
        ("bob", EntryKind.UNIT): (12_000 * J, 1),
        (None, EntryKind.SYSTEM): (600 * J, 0),
        (None, EntryKind.UNALLOCATED): (5400 * J, 0),
    }
    assert by_cluster == {
        EntryKind.UNIT: 108_000 * J,
        EntryKind.SYSTEM: 600 * J,
        EntryKind.UNALLOCATED: 5400 * J,
    }
    assert sum(by_cluster.values()) == journal.control_uj


def test_usage_is_narrowed(site: Site) -> None:
    site.take(worked_case(HandJournal()))

    by_project = site.reader.usage(UsageBy.PROJECT, minutes(0, 5), user="alice")
    by_node = site.reader.usage(UsageBy.NODE, minutes(0, 5), manager="slurm")
    by_manager = site.reader.usage(UsageBy.MANAGER, minutes(0, 5), cluster="none")

    assert [(row.key, row.energy_total_uj) for row in by_project.rows] == [("p1", 9600 * J)]
    assert [(row.key, row.energy_total_uj) for row in by_node.rows] == [("n1", 10_800 * J)]
    assert by_manager.rows == ()


def test_usage_says_how_complete_and_how_measured_it_is(site: Site) -> None:
    journal = HandJournal()
    journal.append([system(figures(75, 0))], method=Method.COUNTER)
    journal.append([system(figures(25, 0))], start_ns=T0_NS + 180 * SECOND_NS)
    site.take(journal)

    report = site.reader.usage(UsageBy.CLUSTER, minutes(0, 5))

    assert report.completeness_ratio == pytest.approx(0.5)  # 120 s of the 240 s up to its newest slot
    assert report.measured_ratio == pytest.approx(0.75)


def test_days_are_the_sites(engine: Engine) -> None:
    site = Site(engine, SiteSettings(time_zone="Asia/Kolkata"))
    start_ns = T0_NS + 2 * 3600 * SECOND_NS  # 18:00 UTC is 23:30 in Kolkata
    journal = HandJournal(end_ns=start_ns, slot_seconds=900)
    for number in range(4):
        journal.append([unit(key("a"), figures(10**number, 0))])
    site.take(journal)
    site.roll()

    rows = site.reader.usage(UsageBy.DAY, Span(from_ns(start_ns), from_ns(journal.end_ns))).rows

    assert [(row.key, row.energy_total_uj) for row in rows] == [("2025-11-24", 11), ("2025-11-25", 1100)]


def test_weeks_and_months_are_whole_and_the_sites_case_users_52(engine: Engine) -> None:
    site = Site(engine, SiteSettings(time_zone="Europe/Paris"))
    journal = HandJournal(end_ns=to_ns(datetime(2026, 10, 25, 22, 30, tzinfo=UTC)), slot_seconds=900)
    for number in range(4):  # 23:30 on Sunday to 00:30 on Monday in Paris
        journal.append([unit(key("a"), figures(10**number, 0))])
    site.take(journal)
    site.roll()
    night = Span(from_ns(journal.end_ns) - timedelta(hours=1), from_ns(journal.end_ns))

    weeks = site.reader.usage(UsageBy.WEEK, night)
    months = site.reader.usage(UsageBy.MONTH, night)

    assert [(row.key, row.energy_total_uj, row.units) for row in weeks.rows] == [
        ("2026-W43", 11, 1),
        ("2026-W44", 1100, 1),
    ]
    assert [row.span.seconds / 3600 for row in weeks.rows if row.span] == [169, 168]
    assert weeks.span == Span(datetime(2026, 10, 18, 22, tzinfo=UTC), datetime(2026, 11, 1, 23, tzinfo=UTC))
    assert [(row.key, row.energy_total_uj) for row in months.rows] == [("2026-10", 1111)]


def test_rolling_twice_changes_nothing(site: Site) -> None:
    site.take(worked_case(HandJournal(), slots=70))
    site.roll()
    first = all_rows(site, schema.usage_hour), all_rows(site, schema.usage_day), all_rows(site, schema.node_day)
    with writing(site.engine).begin() as connection:
        ids = [row.node_id for row in connection.execute(select(schema.node_hour.c.node_id).distinct())]
        touch(connection, ids[0], "hour", {T0_NS, T0_NS + 3600 * SECOND_NS}, "slots")

    site.roll()

    assert (
        all_rows(site, schema.usage_hour),
        all_rows(site, schema.usage_day),
        all_rows(site, schema.node_day),
    ) == first
    assert all_rows(site, schema.touched) == []


def test_hours_and_days_hold_what_the_buckets_hold(site: Site) -> None:
    journal = worked_case(HandJournal(end_ns=T0_NS + 7 * SECOND_NS), slots=121)
    site.take(journal)
    site.roll()

    with site.engine.connect() as connection:
        for table in (schema.usage_5m, schema.usage_hour, schema.usage_day):
            dynamic, idle = table.c.cpu_dynamic_uj, table.c.cpu_idle_uj
            found = connection.execute(select(func.sum(dynamic) + func.sum(idle))).scalar_one()
            assert (table.name, int(found)) == (table.name, journal.control_uj)
