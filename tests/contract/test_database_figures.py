"""PUE by time, cost and water, over SQLite and PostgreSQL: figures worked out by hand."""

from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import Engine, Table, select
from tests.account_site import Site, all_rows, fixed, keep, minutes, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal

from kwhere.database import schema
from kwhere.database.figure_settings import CostSettings, PriceTime, PueEntry, TariffEntry, WaterEntry, Weekday
from kwhere.database.figure_terms import note_terms
from kwhere.database.pue import dated_pue
from kwhere.database.settings import SiteSettings

T0 = datetime(2025, 11, 24, 16, tzinfo=UTC)  # a Monday
HOUR = 3600 * SECOND_NS


def at(minute: int) -> datetime:
    return T0 + timedelta(minutes=minute)


def flat(price: float, since: datetime | date = T0) -> CostSettings:
    return CostSettings(tariffs=(TariffEntry(since=since, price_per_kwh=price),))


def change(site: Site, settings: SiteSettings) -> int:
    """Go on with other settings, as a server does after a restart; return how many hours that touched."""
    site.settings = settings
    touched = note_terms(site.engine, settings, dated_pue(settings), site.clock.now_ns)
    site.roll()
    return touched


def amounts(site: Site, table: Table = schema.figures_hour) -> dict[tuple[str, str, int], tuple[float, str]]:
    """Amount and quality by unit, kind and hour after T0."""
    runs, kinds = schema.unit_runs.c, schema.figure_kinds.c
    query = (
        select(runs.unit, kinds.kind, table.c.start_ns, table.c.amount, table.c.quality)
        .join(schema.unit_runs, runs.id == table.c.unit_run_id)
        .join(schema.figure_kinds, kinds.id == table.c.kind_id)
    )
    with site.engine.connect() as connection:
        rows = connection.execute(query).all()
    return {(row.unit, row.kind, (row.start_ns - T0_NS) // HOUR): (row.amount, row.quality) for row in rows if row.unit}


def _fail(*_: object) -> int:
    raise OSError("cut off")


def grams_by_hour(site: Site, unit: str = "a") -> dict[int, float]:
    table, runs = schema.emissions_hour.c, schema.unit_runs.c
    query = select(table.start_ns, table.grams).join(schema.unit_runs, runs.id == table.unit_run_id)
    with site.engine.connect() as connection:
        rows = connection.execute(query.where(runs.unit == unit)).all()
    return {(row.start_ns - T0_NS) // HOUR: row.grams for row in rows}


def test_each_bucket_has_the_pue_of_its_time(engine: Engine) -> None:
    settings = SiteSettings(zone="FR", pue_ratio=1.0, pue=(PueEntry(since=at(5), ratio=1.5),))
    site = Site(engine, settings)
    keep(site, fixed(75.0))
    site.take(worked_case(HandJournal(), slots=10))
    site.roll()

    # A: 160 W for 5 min = 1/75 kWh: 1 g at PUE 1, then 1.5 g.
    assert site.reader.unit("c1", "slurm", "a").emissions_grams == pytest.approx(2.5)
    assert site.reader.unit("c1", "slurm", "a").energy_total_uj == 2 * 160 * 300 * 1_000_000  # unscaled, always


def test_an_edit_of_the_past_touches_its_own_span_alone_and_leaves_corrections(engine: Engine) -> None:
    def with_pue(second: float) -> SiteSettings:
        entries = (
            PueEntry(since=at(0), ratio=1.0),
            PueEntry(since=at(60), ratio=second),
            PueEntry(since=at(120), ratio=1.2),
        )
        return SiteSettings(zone="FR", pue=entries)

    site = Site(engine, with_pue(1.1))
    keep(site, fixed(100.0))
    site.take(worked_case(HandJournal(), slots=180))
    site.clock.now_ns = T0_NS + 5 * HOUR
    change(site, with_pue(1.1))
    before = grams_by_hour(site)

    touched = change(site, with_pue(1.5))

    # A: 0.16 kWh an hour at 100 g.
    assert before == {0: pytest.approx(16.0), 1: pytest.approx(17.6), 2: pytest.approx(19.2)}
    assert grams_by_hour(site) == {0: pytest.approx(16.0), 1: pytest.approx(24.0), 2: pytest.approx(19.2)}
    assert touched == 1
    with site.engine.connect() as connection:
        rows = connection.execute(select(schema.corrections).order_by(schema.corrections.c.old_grams.desc())).all()
    assert [(row.start_ns, row.old_grams, row.new_grams, row.cause) for row in rows] == [
        (T0_NS + HOUR, pytest.approx(17.6), pytest.approx(24.0), "pue"),
        (T0_NS + HOUR, pytest.approx(2.2), pytest.approx(3.0), "pue"),
    ]
    assert change(site, with_pue(1.5)) == 0
    assert len(all_rows(site, schema.corrections)) == 2


def test_another_undated_ratio_holds_from_now_on(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR", pue_ratio=1.0))
    keep(site, fixed(100.0))
    journal = worked_case(HandJournal(), slots=60)
    site.take(journal)
    change(site, site.settings)

    touched = change(site, SiteSettings(zone="FR", pue_ratio=2.0))
    site.take(worked_case(journal, slots=60))
    site.roll()

    assert touched == 0
    assert grams_by_hour(site) == {0: pytest.approx(16.0), 1: pytest.approx(32.0)}


def test_cost_by_time_of_day_and_pue(engine: Engine) -> None:
    evening = PriceTime(days=(Weekday.MON,), start="17:00", end="18:00", price_per_kwh=0.40)  # type: ignore[arg-type]
    tariff = TariffEntry(since=date(2025, 1, 1), price_per_kwh=0.10, periods=(evening,))
    settings = SiteSettings(pue_ratio=1.25, cost=CostSettings(currency="CHF", tariffs=(tariff,)))
    site = Site(engine, settings)

    site.take(worked_case(HandJournal(), slots=120))
    site.roll()

    # A: 0.16 kWh an hour x 1.25 = 0.2 kWh: 0.02 from 16:00, 0.08 from 17:00; B: 0.025 kWh.
    found = amounts(site)
    assert {key: value for key, (value, _) in found.items()} == {
        ("a", "cost", 0): pytest.approx(0.02),
        ("a", "cost", 1): pytest.approx(0.08),
        ("b", "cost", 0): pytest.approx(0.0025),
        ("b", "cost", 1): pytest.approx(0.01),
    }
    (kind,) = all_rows(site, schema.figure_kinds)
    assert kind[1:] == ("cost", "CHF")
    assert [row[2] for row in all_rows(site, schema.unit_figures)] == [pytest.approx(0.1), pytest.approx(0.0125)]


def test_time_of_day_is_the_sites(engine: Engine) -> None:
    evening = PriceTime(start="17:00", end="18:00", price_per_kwh=0.40)  # type: ignore[arg-type]
    tariff = TariffEntry(since=date(2025, 1, 1), price_per_kwh=0.10, periods=(evening,))
    site = Site(engine, SiteSettings(time_zone="Europe/Paris", cost=CostSettings(tariffs=(tariff,))))

    site.take(worked_case(HandJournal(), slots=60))  # from 16:00 UTC, which is 17:00 in Paris
    site.roll()

    assert amounts(site)["a", "cost", 0][0] == pytest.approx(0.16 * 0.40)


def test_before_the_first_tariff_there_is_no_cost(engine: Engine) -> None:
    site = Site(engine, SiteSettings(cost=flat(1.0, at(30))))

    site.take(worked_case(HandJournal(), slots=60))
    site.roll()

    amount, quality = amounts(site)["a", "cost", 0]
    assert (round(amount, 9), quality) == (0.08, "partial")


def test_water_on_site_and_at_the_plants(engine: Engine) -> None:
    use = WaterEntry(since=T0, site_litres_per_kwh=1.8, grid_litres_per_kwh=3.0)
    site = Site(engine, SiteSettings(pue_ratio=1.5, water=(use,)))

    site.take(worked_case(HandJournal(), slots=60))
    site.roll()

    # A: 0.16 kWh x (1.8 + 3.0 x 1.5) = 1.008 l
    amount, quality = amounts(site)["a", "water", 0]
    assert (round(amount, 9), quality) == (1.008, "whole")


def test_a_tariff_set_later_is_worked_out_for_its_past_and_taken_back(engine: Engine) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal(), slots=120))
    site.clock.now_ns = T0_NS + 5 * HOUR
    change(site, site.settings)

    touched = change(site, SiteSettings(cost=flat(0.5, at(60))))
    with_cost = amounts(site)
    change(site, SiteSettings(cost=flat(0.25, at(60))))
    cheaper = amounts(site)
    corrections = all_rows(site, schema.figure_corrections)
    change(site, SiteSettings())

    assert touched == 1
    assert with_cost["a", "cost", 1][0] == pytest.approx(0.08)
    assert cheaper["a", "cost", 1][0] == pytest.approx(0.04)
    assert sorted((row[4], row[5]) for row in corrections) == [
        (pytest.approx(0.01), pytest.approx(0.005)),
        (pytest.approx(0.08), pytest.approx(0.04)),
    ]
    assert amounts(site) == {}
    assert all_rows(site, schema.unit_figures) == []


def test_deriving_again_changes_nothing(engine: Engine) -> None:
    settings = SiteSettings(zone="FR", pue=(PueEntry(since=at(7), ratio=1.3),), cost=flat(0.2))
    site = Site(engine, settings)
    keep(site, fixed(77.7, minutes(0, 17)), fixed(55.5, minutes(17, 600)))
    site.take(worked_case(HandJournal(), slots=90))
    site.clock.now_ns = T0_NS + 5 * HOUR
    site.roll()
    tables = (schema.emissions_hour, schema.emissions_day, schema.figures_hour, schema.unit_figures)
    before = [all_rows(site, table) for table in tables]

    for cause in ("factor", "slots"):
        with site.engine.begin() as connection:
            for width, start_ns in (("hour", T0_NS), ("hour", T0_NS + HOUR)):
                row = {"width": width, "node_id": 1, "start_ns": start_ns, "version": 1, "cause": cause}
                connection.execute(schema.touched.insert().values(row))
        site.roll()

    assert [all_rows(site, table) for table in tables] == before
    assert all_rows(site, schema.corrections) == []


def test_a_pass_that_was_cut_off_touches_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    keep(site, fixed(100.0))
    site.take(worked_case(HandJournal(), slots=60))
    site.roll()
    change(site, site.settings)
    dated = SiteSettings(zone="FR", pue=(PueEntry(since=at(0), ratio=2.0),))
    monkeypatch.setattr("kwhere.database.figure_terms._touch", _fail)
    with pytest.raises(OSError, match="cut off"):
        note_terms(site.engine, dated, dated_pue(dated), site.clock.now_ns)
    monkeypatch.undo()

    touched = change(site, dated)

    assert touched == 1
    assert grams_by_hour(site) == {0: pytest.approx(32.0)}
