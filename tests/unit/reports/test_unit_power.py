"""A unit's power from the account: the area under its chart is its energy."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.account_site import T0

from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database.power_records import BucketPower, PartEnergy
from kwhere.reports.unit_charts import power_chart


def _bucket(start_s: float, end_s: float, dynamic_uj: int, idle_uj: int | None) -> BucketPower:
    span = Span(T0 + timedelta(seconds=start_s), T0 + timedelta(seconds=end_s))
    energy = {Component.CPU: PartEnergy(dynamic_uj, idle_uj)}
    return BucketPower(span, energy, dynamic_uj + (idle_uj or 0), None, None)


def test_a_hole_is_not_drawn_over() -> None:
    chart = power_chart([_bucket(120, 300, 1_800_000_000, None), _bucket(900, 1200, 3_000_000_000, None)])

    assert [time_s - T0.timestamp() for time_s in chart.times] == [120, 300, 900, 1200]
    assert [column.values for column in chart.columns] == [(10.0, 10.0, None, 10.0)]


PIECES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 300), st.integers(0, 10**12), st.none() | st.integers(0, 10**12)),
    min_size=1,
)


@given(PIECES)
def test_the_area_under_the_chart_is_the_energy(pieces: list[tuple[int, int, int, int | None]]) -> None:
    buckets, at_s = list[BucketPower](), 0
    for hole, length_s, dynamic_uj, idle_uj in pieces:
        buckets.append(_bucket(at_s + 300 * hole, at_s + 300 * hole + length_s, dynamic_uj, idle_uj))
        at_s += 300 * hole + length_s

    chart = power_chart(buckets)

    area_joules = sum(
        value * (end - start)
        for column in chart.columns
        for start, end, value in zip(chart.times, chart.times[1:], column.values[1:], strict=False)
        if value is not None
    )
    assert area_joules == pytest.approx(sum(bucket.energy_total_uj for bucket in buckets) / 1e6, rel=1e-6, abs=1e-3)
