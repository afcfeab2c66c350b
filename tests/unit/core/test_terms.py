"""The words of the field: metrics that keep the conventions, spans, quantities, clocks, errors."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.clock import SystemClock
from kwhere.core.errors import JournalError, KwhereError, Unavailable, UnknownFormat, WireError
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import energy_of, joules, seconds
from kwhere.core.timespan import Span
from kwhere.core.unit import Allocation, UnitInfo, UnitKey

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "kind", "labels", "word"),
    [
        ("kwhere_energy_joules", Kind.COUNTER, (), "_total"),
        ("kwhere_energy_joules_total", Kind.GAUGE, (), "_total"),
        ("kwhere_unit_info", Kind.GAUGE, (), "_info"),
        ("kwhere_unit", Kind.INFO, (), "_info"),
        ("Kwhere_x", Kind.GAUGE, (), "lower-case"),
        ("kwhere_x", Kind.GAUGE, ("job",), "job"),
        ("kwhere_x", Kind.GAUGE, ("exported_job",), "exported_job"),
        ("kwhere_x", Kind.GAUGE, ("Bad-label",), "Bad-label"),
    ],
)
def test_a_metric_off_convention_is_refused(name: str, kind: Kind, labels: tuple[str, ...], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        MetricSpec(name, kind, "Help.", labels)


def test_a_metric_without_help_is_refused() -> None:
    with pytest.raises(ValueError, match="help"):
        MetricSpec("kwhere_x", Kind.GAUGE, "")


def test_a_metric_as_it_should_be() -> None:
    spec = MetricSpec("kwhere_energy_joules_total", Kind.COUNTER, "Joules.", ("component",))

    assert Sample(spec, ("cpu",), 5).created_s is None
    assert MetricSpec("kwhere_unit_info", Kind.INFO, "Who.").labels == ()


def test_a_span_knows_its_length_and_neighbours() -> None:
    hour = Span(NOON, NOON + timedelta(hours=1))

    assert hour.seconds == 3600
    assert hour.overlaps(Span(NOON + timedelta(minutes=59), NOON + timedelta(hours=2)))
    assert not hour.overlaps(Span(hour.end, hour.end + timedelta(seconds=1)))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (NOON, NOON),
        (NOON, NOON - timedelta(seconds=1)),
        (NOON.replace(tzinfo=None), NOON),
        (NOON, (NOON + timedelta(1)).replace(tzinfo=None)),
    ],
)
def test_a_span_is_aware_and_never_empty(start: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match="span"):
        Span(start, end)


def test_buckets_are_aligned_and_whole() -> None:
    width = timedelta(minutes=5)
    span = Span(NOON + timedelta(minutes=4), NOON + timedelta(minutes=10, seconds=1))

    assert [bucket.start.minute for bucket in span.buckets(width)] == [0, 5, 10]
    assert all(bucket.end - bucket.start == width for bucket in span.buckets(width))


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 10**5))
def test_buckets_cover_a_span_without_holes(offset_s: int, length_s: int, width_s: int) -> None:
    width = timedelta(seconds=width_s)
    start = NOON + timedelta(seconds=offset_s)
    span = Span(start, start + min(timedelta(seconds=length_s), 50 * width))

    buckets = list(span.buckets(width))

    assert buckets[0].start <= span.start < buckets[0].end
    assert buckets[-1].start < span.end <= buckets[-1].end
    assert all(left.end == right.start for left, right in pairwise(buckets))


def test_quantities_convert_where_they_say() -> None:
    assert joules(1_500_000) == 1.5
    assert seconds(250_000_000) == 0.25
    assert energy_of(power_uw=3_000_000, duration_ns=1_500_000_000) == 4_500_000
    assert energy_of(power_uw=1, duration_ns=999_999_999) == 0


def test_the_kernels_clocks_run_forward_from_boot() -> None:
    clock = SystemClock()

    assert 0 < clock.monotonic_ns() <= clock.monotonic_ns()
    assert clock.boottime_ns() > 0
    assert abs(clock.utc_ns() - time.time_ns()) < 60 * 10**9


def test_units_are_ordered_by_manager_unit_and_run() -> None:
    keys = [UnitKey("slurm", "10", "10@1"), UnitKey("docker", "b", "b"), UnitKey("slurm", "10", "10@0")]

    assert [key.run for key in sorted(keys)] == ["b", "10@0", "10@1"]
    assert UnitInfo() == UnitInfo(None, None, None, None, ())
    assert Allocation().milli_cpus is None


def test_errors_carry_their_reason_and_one_root() -> None:
    closed = Unavailable("permission", "energy_uj: closed")
    full = JournalError("full", "no space")

    assert (closed.reason, str(closed)) == ("permission", "energy_uj: closed")
    assert full.cause == "full"
    assert issubclass(UnknownFormat, WireError)
    assert all(isinstance(error, KwhereError) for error in (closed, full))
