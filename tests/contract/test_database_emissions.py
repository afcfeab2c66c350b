"""Factors and grams, over SQLite and PostgreSQL: figures worked out by hand."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, select, text
from tests.account_site import J, Site, all_rows, fixed, keep, minutes, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, unit

from kwhere.database import schema
from kwhere.database.choices import choose_zone
from kwhere.database.engine import writing
from kwhere.database.factors import keep_factors, report_by, touch_hours
from kwhere.database.grid import Grid
from kwhere.database.records import UsageBy
from kwhere.database.settings import SiteSettings
from kwhere.emission_factors.provider import Quality


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


def test_grams_are_energy_times_pue_times_factor(engine: Engine) -> None:
    site = Site(engine, SiteSettings(time_zone="UTC", pue_ratio=1.5, zone="FR"))
    keep(site, fixed(50.0))
    site.take(worked_case(HandJournal(), slots=30))
    site.roll()

    a = site.reader.unit("c1", "slurm", "a")
    usage = site.reader.usage(UsageBy.CLUSTER, minutes(0, 60))

    # A: 160 W for 30 min = 0.08 kWh; x 1.5 x 50 g/kWh = 6 g. All: 180 W for 30 min = 0.09 kWh, 6.75 g.
    assert a.emissions_grams == pytest.approx(6.0)
    assert [(e.provider, e.zone, e.quality, e.reporting) for e in a.emissions] == [("fixed", "FR", "static", True)]
    assert sum(row.emissions_grams or 0 for row in usage.rows) == pytest.approx(6.75)


def test_each_bucket_has_its_own_factor(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    keep(site, fixed(100.0, minutes(0, 5)), fixed(200.0, minutes(5, 7)), fixed(400.0, minutes(7, 60)))
    site.take(worked_case(HandJournal(), slots=10))
    site.roll()

    # A: 160 W for 5 min = 1/75 kWh: at 100 g, then at (2 x 200 + 3 x 400) / 5 = 320 g: 1.3333 + 4.2667 = 5.6 g.
    assert site.reader.unit("c1", "slurm", "a").emissions_grams == pytest.approx(5.6)


def test_a_revised_factor_recomputes_and_leaves_a_correction(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    keep(site, fixed(100.0, minutes(0, 60)))
    site.take(worked_case(HandJournal(), slots=60))
    site.clock.now_ns = T0_NS + 2 * 3600 * SECOND_NS
    site.roll()
    before = site.reader.unit("c1", "slurm", "a").emissions_grams
    revised = fixed(50.0, minutes(0, 60), published_at=datetime(2025, 6, 1, tzinfo=UTC))

    with writing(site.engine).begin() as connection:
        news = keep_factors(connection, "FR", [revised], site.clock.now_ns, reporting=True)
        nodes = list(connection.execute(select(schema.nodes.c.id)).scalars())
        touch_hours(connection, Grid(site.settings.tz), news, nodes, site.clock.now_ns)
    site.roll()

    assert before == pytest.approx(16.0)
    assert site.reader.unit("c1", "slurm", "a").emissions_grams == pytest.approx(8.0)
    with site.engine.connect() as connection:
        rows = connection.execute(select(schema.corrections).order_by(schema.corrections.c.old_grams.desc())).all()
    assert [(row.old_grams, row.new_grams, row.cause, row.basis) for row in rows] == [
        (pytest.approx(16.0), pytest.approx(8.0), "factor", "buckets"),
        (pytest.approx(2.0), pytest.approx(1.0), "factor", "buckets"),
    ]


@pytest.mark.service("postgresql")
def test_postgresql_changes_the_lines_of_an_hour_in_place(engine: Engine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite always does")
    site = Site(engine, SiteSettings(zone="FR"))
    journal = HandJournal()
    journal.append([unit(key(f"u{n}"), figures(J + n, 0), user="alice") for n in range(500)])
    keep(site, fixed(100.0, minutes(0, 60)))
    site.take(journal)
    site.clock.now_ns = T0_NS + 2 * 3600 * SECOND_NS
    site.roll()
    before = updated(engine)

    with writing(engine).begin() as connection:
        revised = fixed(50.0, minutes(0, 60), published_at=datetime(2025, 6, 1, tzinfo=UTC))
        news = keep_factors(connection, "FR", [revised], site.clock.now_ns, reporting=True)
        touch_hours(connection, Grid(site.settings.tz), news, [1], site.clock.now_ns)
    site.roll()

    every, in_place = (now - then for now, then in zip(updated(engine), before, strict=True))
    assert every >= 500
    assert in_place == every


def updated(engine: Engine) -> tuple[int, int]:
    """Return how often lines of hours were updated so far, and how often of these in place."""
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        connection.rollback()
        query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'emissions_hour'"
        every, in_place = connection.execute(text(query)).one()
    return int(every), int(in_place)


def test_a_late_slot_of_a_settled_hour_leaves_a_correction(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    keep(site, fixed(100.0))
    journal = worked_case(HandJournal(), slots=30)
    site.take(journal)
    site.clock.now_ns = T0_NS + 2 * 3600 * SECOND_NS
    site.roll()
    worked_case(journal, slots=30)

    site.take(journal)
    site.roll()

    assert site.reader.unit("c1", "slurm", "a").emissions_grams == pytest.approx(16.0)
    with site.engine.connect() as connection:
        row = connection.execute(select(schema.corrections).order_by(schema.corrections.c.old_grams.desc())).first()
    assert row is not None
    assert (row.old_grams, row.new_grams, row.cause) == (pytest.approx(8.0), pytest.approx(16.0), "slots")


def test_an_hour_that_is_still_open_is_not_corrected(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    keep(site, fixed(100.0))
    journal = worked_case(HandJournal(), slots=5)
    site.take(journal)
    site.roll()
    worked_case(journal, slots=5)
    site.take(journal)

    site.roll()

    assert all_rows(site, schema.corrections) == []


def test_what_stood_in_gives_way_to_the_real_one(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    live = fixed(20.0, minutes(0, 5), provider="live", quality=Quality.MEASURED)
    keep(site, live, fixed(100.0))
    keep(site, fixed(500.0, provider="beside"), reporting=False)
    site.take(worked_case(HandJournal(), slots=10))
    site.roll()

    record = site.reader.unit("c1", "slurm", "a")

    # A: 1/75 kWh at 20 g measured, then 1/75 kWh at 100 g static; beside it all at 500 g.
    assert record.emissions_grams == pytest.approx(120 / 75)
    (beside,) = (item for item in record.emissions if item.provider == "beside")
    assert beside.grams == pytest.approx(1000 / 75)
    assert not beside.reporting


def test_another_reporting_provider_is_said_once(site: Site) -> None:
    keep(site, fixed(100.0))

    with writing(site.engine).begin() as connection:
        news = [report_by(connection, "rte", T0_NS), report_by(connection, "rte", T0_NS)]

    assert news == [True, False]
    assert [factor.reporting for factor in site.reader.emission_factors()] == [False]


def test_factors_in_force_are_shown_with_their_source(site: Site) -> None:
    keep(site, fixed(56.0), fixed(80.0, minutes(-60, 0), provider="old"))

    (factor,) = site.reader.emission_factors()

    assert (factor.provider, factor.grams_per_kwh, factor.source, factor.zone) == ("fixed", 56.0, "by hand", "FR")
    assert len(site.reader.emission_factors(minutes(-30, 30))) == 2


def test_a_zone_chosen_on_the_page_wins_over_a_proposed_one(site: Site) -> None:
    choose_zone(site.engine, "DE", now_ns=T0_NS, by="time zone", proposed=True)
    proposed = site.reader.site_choice()
    choose_zone(site.engine, "FR", now_ns=T0_NS, by="page")
    choose_zone(site.engine, "DE", now_ns=T0_NS, by="time zone", proposed=True)

    chosen = site.reader.site_choice()

    assert (proposed.zone, proposed.zone_proposed) == ("DE", True)
    assert (chosen.zone, chosen.zone_proposed) == ("FR", False)
    assert [row[2] for row in all_rows(site, schema.audit)] == ["time zone", "page"]
