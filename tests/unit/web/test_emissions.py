"""Grams over time, worked out by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kwhere.core.terms import Component, EntryKind
from kwhere.core.timespan import Span
from kwhere.database.grid import to_ns
from kwhere.database.power_records import ComponentShares, PowerPoint
from kwhere.database.records import FactorRecord, UsageRow
from kwhere.energy.steps import Steps
from kwhere.web.pages.emissions import day_rows, emission_charts

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HOUR = Span(START, START + timedelta(hours=1))
FACTOR = FactorRecord("fixed", "FR", "average", "lifecycle", "production", "static", HOUR, 50.0, START, "by hand", True)


def _point(minute: int, energy_uj: int) -> PowerPoint:
    span = Span(START + timedelta(minutes=minute), START + timedelta(minutes=minute + 1))
    return PowerPoint(span, {Component.CPU: ComponentShares(energy_uj, 0, 0, 0)}, 60.0)


def test_grams_per_hour_are_power_times_pue_times_factor() -> None:
    # 12 kJ in 60 s are 200 W; 0.2 kW x 1.5 x 50 g/kWh = 15 g/h.
    grams, power, factor = emission_charts([_point(0, 12_000_000_000)], [FACTOR], HOUR, Steps((0,), (1.5,)))

    assert list(grams.series[0].values) == [15, 15]
    assert list(power.series[0].values) == [200, 200]
    assert list(factor.series[0].values) == [50, 50]


def test_each_point_has_the_pue_of_its_time() -> None:
    change_ns = to_ns(START + timedelta(minutes=1))
    pue = Steps((0, change_ns), (1.0, 2.0))

    grams, *_ = emission_charts([_point(0, 12_000_000_000), _point(1, 12_000_000_000)], [FACTOR], HOUR, pue)

    assert list(grams.series[0].values) == [10, 10, 20]


def test_of_two_factors_the_one_published_last_is_in_force() -> None:
    revised = replace(FACTOR, grams_per_kwh=60.0, published_at=START + timedelta(minutes=1))

    charts = emission_charts([_point(0, 1)], [revised, FACTOR], HOUR, Steps((0,), (1.0,)))

    assert charts[2].series[0].values[0] == 60


def test_outside_every_factors_span_grams_are_not_known() -> None:
    early = replace(FACTOR, span=Span(START - timedelta(hours=1), START))

    grams, power, _ = emission_charts([_point(0, 12_000_000_000)], [early], HOUR, Steps((0,), (1.0,)))

    assert list(grams.series[0].values) == [None, None]
    assert list(power.series[0].values) == [200, 200]


def test_without_a_reporting_factor_or_a_slot_there_is_no_chart() -> None:
    assert emission_charts([_point(0, 1)], [replace(FACTOR, reporting=False)], HOUR, Steps((0,), (1.0,))) == []
    assert emission_charts([], [FACTOR], HOUR, Steps((0,), (1.0,))) == []


def _row(day: str | None, joules: int, grams: float | None, kind: EntryKind = EntryKind.UNIT) -> UsageRow:
    return UsageRow(day, None, kind, 1, {}, joules * 1_000_000, None, None, None, grams)


def test_a_day_holds_all_of_its_rows_newest_day_first() -> None:
    rows = [
        _row("2026-11-28", 1_800_000, 25.0),
        _row("2026-11-28", 1_800_000, 25.0, EntryKind.SYSTEM),
        _row("2026-11-29", 3_600_000, None),
        _row(None, 1, 1.0),
    ]

    newest, oldest = day_rows(rows)

    assert (newest.day, newest.grams, newest.grams_per_kwh) == ("2026-11-29", None, None)
    assert (oldest.day, oldest.energy_joules, oldest.grams, oldest.grams_per_kwh) == ("2026-11-28", 3_600_000, 50, 50)
