"""Sums of accounts by day are those of their units: before and after they are summed up, whoever owns them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from tests.account_site import SITE, J, Site, fixed, keep
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit
from tests.managed_site import said, tell

from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import Grid, from_ns
from kwhere.database.reading.account_usage import AccountUsage
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_usage import UnitUsage
from kwhere.database.reading.usage import UsageFilter
from kwhere.database.reading.usage_tables import day_tables
from kwhere.database.records import UsageBy
from kwhere.database.visibility import EVERYTHING
from kwhere.server.account_day_pass import AccountDayPass

DAY_NS = 86_400 * SECOND_NS
BY = [each for each in UsageBy if each is not UsageBy.NODE]


class Leave:
    def goes_on(self) -> bool:
        return True


@pytest.fixture
def site(engine: Engine) -> Site:
    site = Site(engine, SITE.model_copy(update={"zone": "FR"}))
    keep(site, fixed(100.0))
    return site


def book_days(site: Site, days: int = 4, cluster: str = "c1", node: str = "n1") -> None:
    """One slot a day: alice's job all days, bob's on odd ones, a new one of carol's each day."""
    journal = HandJournal(node=node, machine_id=f"{cluster}-{node}")
    for day in range(days):
        entries = [unit(key(f"{node}-a"), figures(100 * J, 10 * J, cpu_ns=SECOND_NS), user="alice", project="p1")]
        if day % 2:
            entries.append(unit(key(f"{node}-b"), figures(20 * J, 0), user="bob", project="p1"))
        entries.append(unit(key(f"{node}-c{day}"), figures(3 * J, 1), user="carol"))
        journal.append([*entries, system(figures(7, 0)), unallocated(figures(0, 5))], start_ns=T0_NS + day * DAY_NS)
    site.take(journal, cluster)
    site.roll()


def sum_up(site: Site) -> None:
    site.clock.now_ns += 2 * DAY_NS
    AccountDayPass(site.engine, Grid(site.settings.tz), site.clock).run(Leave())


def both(
    site: Site, by: UsageBy, **narrowed: str
) -> tuple[Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any]]:
    """Return rows of energy and of grams, by accounts' days and by units."""
    asked = UsageFilter(**narrowed)
    span = Span(from_ns(T0_NS - DAY_NS), from_ns(T0_NS + 30 * DAY_NS))
    with site.engine.connect() as connection:
        moment = Moment(connection, site.clock.now_ns, site.settings, EVERYTHING.resolve(connection))
        tables = day_tables(moment, span, by)
        kept = AccountUsage(moment, by, tables, asked, asked.left_out(moment))
        whole = UnitUsage(moment, by, tables, asked.conditions(moment))
        return _rows(kept.energy()), _rows(whole.energy()), _amounts(kept), _amounts(whole)


def _amounts(source: AccountUsage | UnitUsage) -> Mapping[Any, Any]:
    return _rows(source.amounts("emissions"))


def _rows(rows: Any) -> Mapping[Any, Any]:
    found = {}
    for row in rows:
        words = dict(row._mapping)
        name = tuple(words.pop(each, None) for each in ("key", "cluster", "kind", "its"))
        found[name] = {each: pytest.approx(value) for each, value in words.items() if value is not None}
    return found


def check(site: Site) -> None:
    asked: list[tuple[UsageBy, dict[str, str]]] = [(by, {}) for by in BY]
    asked += [(UsageBy.USER, {"cluster": "c1"}), (UsageBy.DAY, {"user": "alice"}), (UsageBy.USER, {"project": "p1"})]
    for by, narrowed in [*asked, (UsageBy.PROJECT, {"manager": "slurm"})]:
        kept, whole, grams, grams_whole = both(site, by, **narrowed)
        assert kept == whole, (by, narrowed)
        assert grams == grams_whole, (by, narrowed)


def waiting(site: Site) -> int:
    with site.engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(schema.account_day_marks)).scalar_one())


def test_the_sums_are_those_of_the_units_before_and_after(site: Site) -> None:
    book_days(site)
    book_days(site, 3, "c2", "m1")
    check(site)
    assert waiting(site) > 0

    sum_up(site)

    assert waiting(site) == 0
    check(site)


def test_what_comes_later_is_added(site: Site) -> None:
    book_days(site)
    sum_up(site)
    book_days(site, 2, "c1", "n2")
    check(site)

    sum_up(site)

    check(site)


def test_the_day_that_goes_on_is_read_from_its_units(site: Site) -> None:
    book_days(site)
    AccountDayPass(site.engine, Grid(site.settings.tz), site.clock).run(Leave())

    assert waiting(site) == 1
    check(site)


def test_a_claim_moves_what_was_summed_up(site: Site) -> None:
    book_days(site)
    sum_up(site)

    tell(site.engine, said("n1-a", -5, 4 * 86_400, user="dora", project="p9"), now_ns=site.clock.now_ns)

    kept, *_ = both(site, UsageBy.USER)
    assert ("dora", "c1", "unit", None) in kept
    assert ("alice", "c1", "unit", None) not in kept
    check(site)
    tell(site.engine, said("n1-a", -5, 4 * 86_400, user="emil", project=None), now_ns=site.clock.now_ns)
    check(site)
    sum_up(site)
    check(site)


def test_a_name_that_is_learned_later_moves_what_was_summed_up(site: Site) -> None:
    journal = HandJournal()
    journal.append([unit(key("a"), figures(100 * J, 0)), system(figures(0, 0))])
    site.take(journal)
    site.roll()
    sum_up(site)
    journal.append([unit(key("a"), figures(1 * J, 0), user="alice"), system(figures(0, 0))], start_ns=T0_NS + DAY_NS)
    site.take(journal)
    site.roll()

    kept, *_ = both(site, UsageBy.USER)

    assert kept["alice", "c1", "unit", None]["cpu_dynamic_uj"] == 101 * J
    check(site)


def test_a_revised_factor_moves_the_grams(site: Site) -> None:
    book_days(site)
    sum_up(site)
    keep(site, fixed(200.0, published_at=from_ns(T0_NS)))
    site.roll()
    check(site)

    sum_up(site)

    check(site)
    *_, grams, _ = both(site, UsageBy.CLUSTER)
    with site.engine.connect() as connection:
        stored = connection.execute(select(func.sum(schema.emissions_day.c.grams))).scalar_one()
    assert sum(row["amount"].expected for row in grams.values()) == pytest.approx(stored)


def test_a_pass_that_is_stopped_loses_no_mark(site: Site) -> None:
    class Never:
        def goes_on(self) -> bool:
            return False

    book_days(site)
    before = waiting(site)
    site.clock.now_ns += 2 * DAY_NS
    AccountDayPass(site.engine, Grid(site.settings.tz), site.clock).run(Never())

    assert waiting(site) == before
    check(site)


def test_reports_of_two_weeks_and_more_are_read_by_days(site: Site) -> None:
    book_days(site)
    sum_up(site)
    span = Span(from_ns(T0_NS) - timedelta(days=10), from_ns(T0_NS) + timedelta(days=5))

    report = site.reader.usage(UsageBy.USER, span)

    found = {row.key: (row.units, row.energy_total_uj) for row in report.rows if row.kind == "unit"}
    assert found == {"alice": (1, 440 * J), "bob": (1, 40 * J), "carol": (4, 12 * J + 4)}
    assert report.span == Span(
        from_ns(T0_NS).replace(hour=0) - timedelta(days=10), from_ns(T0_NS).replace(hour=0) + timedelta(days=6)
    )
