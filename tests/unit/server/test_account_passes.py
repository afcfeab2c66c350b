"""Factors, rollups and upkeep as the server does them, over SQLite and PostgreSQL; figures worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.account_site import Site, fixed, minutes, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, system

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.choices import choose_zone
from kwhere.database.grid import to_ns
from kwhere.database.records import UsageBy
from kwhere.database.settings import RetentionSettings, SiteSettings
from kwhere.emission_factors.choose import Chooser
from kwhere.emission_factors.provider import Factor, Quality
from kwhere.emission_factors.settings import EmissionFactorSettings
from kwhere.server.factor_pass import FactorPass
from kwhere.server.rollup_pass import BATCH, RollupPass
from kwhere.server.upkeep_passes import FadePass, RetentionPass

HOUR_NS = 3600 * SECOND_NS


class HandProvider:
    """Answers by zone; a zone it does not have is unknown, an error is raised."""

    refresh_seconds = 300.0

    def __init__(self, name: str = "hand") -> None:
        self.name = name
        self.answers: dict[str, list[Factor] | Exception] = {}
        self.asked: list[tuple[str, Span]] = []

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        self.asked.append((zone, span))
        answer = self.answers.get(zone, ConfigError(f"zone: unknown {zone}"))
        if isinstance(answer, Exception):
            raise answer
        return answer


class ThisTurn:
    """Goes on until `pieces` are over."""

    def __init__(self, pieces: int = 10_000) -> None:
        self.pieces = pieces

    def goes_on(self) -> bool:
        self.pieces -= 1
        return self.pieces >= 0


class Passes:
    """A site with its passes."""

    def __init__(self, engine: Engine, settings: SiteSettings | None = None, beside: HandProvider | None = None):
        self.site = Site(engine, settings or SiteSettings())
        self.engine = engine
        self.provider = HandProvider()
        chooser = Chooser(
            self.provider,
            HandProvider("nobody"),
            EmissionFactorSettings(),
            self.site.clock,
            beside=() if beside is None else (beside,),
        )
        self.factors = FactorPass(engine, self.site.settings, chooser, self.site.clock)
        self.rollup = RollupPass(engine, self.site.settings, self.site.clock)

    def round(self) -> None:
        """Do what is due, as the runner does."""
        for each in (self.factors, self.rollup):
            if each.is_due():
                each.run(ThisTurn())

    def grams(self, unit: str = "a") -> float | None:
        return self.site.reader.unit("c1", "slurm", unit).emissions_grams

    def corrections(self) -> list[Any]:
        table = schema.corrections.c
        query = select(table.old_grams, table.new_grams, table.cause).order_by(table.old_grams.desc())
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]


@pytest.fixture
def passes(engine: Engine) -> Passes:
    made = Passes(engine)
    made.provider.answers = {"FR": [fixed(100.0)], "DE": [fixed(400.0, zone="DE")]}
    return made


def test_grams_follow_a_choice_at_once(passes: Passes) -> None:
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.round()
    assert passes.grams() is None
    assert not passes.rollup.is_due()

    choose_zone(passes.engine, "FR", now_ns=passes.site.clock.now_ns, by="page")
    assert passes.factors.is_due()
    passes.round()

    # A: 160 W for an hour = 0.16 kWh at 100 g/kWh.
    assert passes.grams() == pytest.approx(16.0)
    assert not passes.factors.is_due()
    assert not passes.rollup.is_due()


def test_another_choice_recomputes_everything_and_keeps_what_was(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="time zone", proposed=True)
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.site.clock.now_ns = T0_NS + 3 * HOUR_NS
    passes.round()
    assert passes.grams() == pytest.approx(16.0)

    choose_zone(passes.engine, "DE", now_ns=passes.site.clock.now_ns, by="page")
    passes.round()

    assert passes.grams() == pytest.approx(64.0)
    assert passes.corrections()[:1] == [(pytest.approx(16.0), pytest.approx(0.0), "factor")]


def test_grams_follow_slots(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    journal = worked_case(HandJournal(), slots=30)
    passes.site.take(journal)
    passes.round()
    assert passes.grams() == pytest.approx(8.0)
    worked_case(journal, slots=15)
    passes.site.take(journal)

    passes.round()

    assert passes.grams() == pytest.approx(12.0)
    assert passes.corrections() == []


def test_late_slots_of_a_settled_hour_leave_a_correction(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    journal = worked_case(HandJournal(), slots=30)
    passes.site.take(journal)
    passes.site.clock.now_ns = T0_NS + 2 * HOUR_NS
    passes.round()
    worked_case(journal, slots=30)
    passes.site.take(journal)

    passes.round()

    assert passes.grams() == pytest.approx(16.0)
    assert passes.corrections()[0] == (pytest.approx(8.0), pytest.approx(16.0), "slots")


def test_a_revised_factor_recomputes_the_hours_it_touches(engine: Engine) -> None:
    passes = Passes(engine, SiteSettings(zone="FR"))
    passes.provider.answers["FR"] = [fixed(100.0, minutes(-60, 240), quality=Quality.MEASURED)]
    passes.site.take(worked_case(HandJournal(), slots=120))
    passes.site.clock.now_ns = T0_NS + 4 * HOUR_NS - 60 * SECOND_NS
    passes.provider.answers["FR"] = [fixed(100.0, minutes(-30 * 1440, 1440), quality=Quality.MEASURED)]
    passes.round()
    assert passes.grams() == pytest.approx(32.0)
    revised = fixed(50.0, minutes(0, 60), quality=Quality.MEASURED, published_at=datetime(2025, 6, 1, tzinfo=UTC))
    later = fixed(100.0, minutes(60, 1440), quality=Quality.MEASURED)
    early = fixed(100.0, minutes(-30 * 1440, 0), quality=Quality.MEASURED)
    passes.provider.answers["FR"] = [early, revised, later]
    passes.site.clock.now_ns += 300 * SECOND_NS

    assert passes.factors.is_due()
    passes.round()

    assert passes.grams() == pytest.approx(8.0 + 16.0)
    a, b = passes.corrections()
    assert a == (pytest.approx(16.0), pytest.approx(8.0), "factor")
    assert b == (pytest.approx(2.0), pytest.approx(1.0), "factor")


def test_zones_of_clusters_are_their_own(engine: Engine) -> None:
    passes = Passes(engine, SiteSettings(zone="FR", cluster_zones={"lyon": "DE"}))
    passes.provider.answers = {"FR": [fixed(100.0)], "DE": [fixed(400.0, zone="DE")]}
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.site.take(worked_case(HandJournal(node="n2", machine_id="machine-2"), slots=60), "lyon")

    passes.round()

    assert passes.grams() == pytest.approx(16.0)
    assert passes.site.reader.unit("lyon", "slurm", "a").emissions_grams == pytest.approx(64.0)


def test_a_zone_without_an_answer_hinders_no_other(engine: Engine) -> None:
    passes = Passes(engine, SiteSettings(zone="FR", cluster_zones={"lyon": "DE"}))
    passes.provider.answers = {"DE": Unavailable("timeout", "no answer"), "FR": [fixed(100.0)]}
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.site.take(worked_case(HandJournal(node="n2", machine_id="machine-2"), slots=60), "lyon")

    with pytest.raises(SourceError, match=r"zone DE: .*no answer"):
        passes.factors.run(ThisTurn())
    passes.round()

    assert passes.grams() == pytest.approx(16.0)
    assert passes.site.reader.unit("lyon", "slurm", "a").emissions_grams is None

    passes.provider.answers["DE"] = [fixed(400.0, zone="DE")]
    passes.site.clock.now_ns += 60 * SECOND_NS
    passes.round()
    assert passes.site.reader.unit("lyon", "slurm", "a").emissions_grams == pytest.approx(64.0)


def test_providers_beside_are_kept_apart(engine: Engine) -> None:
    beside = HandProvider("other")
    beside.answers["FR"] = [fixed(60.0, provider="other")]
    passes = Passes(engine, SiteSettings(zone="FR"), beside)
    passes.provider.answers["FR"] = [fixed(100.0)]
    passes.site.take(worked_case(HandJournal(), slots=60))

    passes.round()

    unit = passes.site.reader.unit("c1", "slurm", "a")
    assert unit.emissions_grams == pytest.approx(16.0)
    assert {(e.provider, round(e.grams, 6), e.reporting) for e in unit.emissions} == {
        ("fixed", 16.0, True),
        ("other", 9.6, False),
    }


def test_first_question_looks_back_as_far_as_fine_usage(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    passes.site.take(worked_case(HandJournal()))
    passes.round()
    passes.site.clock.now_ns += 300 * SECOND_NS
    passes.round()

    first, second = (span for _, span in passes.provider.asked)
    assert first.end - first.start == timedelta(days=14, hours=1)
    assert second.end - second.start == timedelta(days=2, hours=1)


def test_the_same_factors_again_touch_nothing(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.round()
    passes.site.clock.now_ns += 300 * SECOND_NS

    assert passes.factors.is_due()
    passes.factors.run(ThisTurn())

    assert not passes.rollup.is_due()


@pytest.mark.parametrize(("day", "hours"), [("2025-03-30", 23), ("2025-10-26", 25), ("2025-06-01", 24)])
def test_days_of_paris_have_their_own_lengths(engine: Engine, day: str, hours: int) -> None:
    passes = Passes(engine, SiteSettings(time_zone="Europe/Paris", zone="FR"))
    passes.provider.answers["FR"] = [fixed(100.0)]
    start = datetime.fromisoformat(day).replace(tzinfo=passes.site.settings.tz)
    journal = HandJournal(end_ns=to_ns(start) - 2 * HOUR_NS)
    for _ in range(hours + 4):  # from 22:00 of the day before to 02:00 of the day after
        journal.append([system(figures(3_600_000_000, 0))], seconds=3600)  # 1 W
    passes.site.take(journal)

    passes.round()

    whole = Span(start.astimezone(UTC), start.astimezone(UTC) + timedelta(hours=hours))
    rows = passes.site.reader.usage(UsageBy.DAY, Span(whole.start - timedelta(days=1), whole.end + timedelta(days=1)))
    joules: dict[str, int] = {}
    grams: dict[str, float] = {}
    for row in rows.rows:
        if row.key is not None:
            joules[row.key] = joules.get(row.key, 0) + row.energy_total_uj // 1_000_000
            grams[row.key] = grams.get(row.key, 0) + (row.emissions_grams or 0)
    assert joules[day] == hours * 3600
    assert sorted(joules.values()) == [7200, 7200, hours * 3600]
    assert grams[day] == pytest.approx(hours * 0.1)


def test_a_round_that_is_cut_off_is_done_the_next_time(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    for number in range(BATCH + 5):
        name = f"n{number}"
        passes.site.take(worked_case(HandJournal(node=name, machine_id=name), slots=1))
    passes.factors.run(ThisTurn())

    passes.rollup.run(ThisTurn(pieces=1))
    assert passes.rollup.is_due()
    passes.rollup.run(ThisTurn())

    assert not passes.rollup.is_due()
    assert sum(row.emissions_grams or 0 for row in passes.site.reader.usage(UsageBy.CLUSTER, minutes(0, 60)).rows) == (
        pytest.approx((BATCH + 5) * 0.3)  # 180 W for a minute = 0.003 kWh
    )


def test_old_rows_go_and_what_they_added_up_to_stays(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.round()
    retention = RetentionPass(passes.engine, RetentionSettings(), passes.site.reader_grid, passes.site.clock)
    passes.site.clock.now_ns = T0_NS + 20 * 24 * HOUR_NS
    assert retention.is_due()

    retention.run(ThisTurn())
    passes.round()

    with passes.engine.connect() as connection:
        assert connection.execute(select(schema.slots)).first() is None
        assert connection.execute(select(schema.usage_5m)).first() is None
        assert connection.execute(select(schema.usage_hour)).first() is not None
    assert passes.grams() == pytest.approx(16.0)
    assert not retention.is_due()
    passes.site.clock.now_ns += HOUR_NS
    assert retention.is_due()


def test_a_factor_revised_after_fine_usage_went_uses_hours(passes: Passes) -> None:
    choose_zone(passes.engine, "FR", now_ns=T0_NS, by="page")
    passes.site.take(worked_case(HandJournal(), slots=60))
    passes.round()
    passes.site.clock.now_ns = T0_NS + 20 * 24 * HOUR_NS
    RetentionPass(passes.engine, RetentionSettings(), passes.site.reader_grid, passes.site.clock).run(ThisTurn())
    passes.provider.answers["FR"] = [replace(fixed(50.0), published_at=datetime(2025, 12, 1, tzinfo=UTC))]

    passes.round()

    assert passes.grams() == pytest.approx(8.0)
    with passes.engine.connect() as connection:
        bases = set(connection.execute(select(schema.corrections.c.basis)).scalars())
    assert bases == {"hours"}


def test_power_of_the_silent_fades(passes: Passes) -> None:
    passes.site.take(worked_case(HandJournal()))
    fade = FadePass(passes.engine, passes.site.clock)
    fade.run(ThisTurn())
    assert not fade.is_due()
    passes.site.clock.now_ns += HOUR_NS
    assert fade.is_due()

    fade.run(ThisTurn())

    with passes.engine.connect() as connection:
        assert set(connection.execute(select(schema.unit_totals.c.power_uw)).scalars()) == {None}
