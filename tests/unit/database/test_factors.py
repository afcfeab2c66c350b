"""The factor of a bucket: its mean by time over what was published last."""

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from tests.account_site import T0, fixed
from tests.journals import T0_NS

from kwhere.core.timespan import Span
from kwhere.database.engine import writing
from kwhere.database.factors import factors_in_force, keep_factors
from kwhere.database.grid import BUCKET_NS, HOUR_NS
from kwhere.emission_factors.provider import Factor, Quality


@st.composite
def publications(draw: st.DrawFn) -> list[Factor]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        start = draw(st.integers(-10, 60))
        end = start + draw(st.integers(1, 50))
        span = Span(T0 + timedelta(minutes=start), T0 + timedelta(minutes=end))
        published = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=number)
        found.append(fixed(float(draw(st.integers(1, 900))), span, published_at=published))
    return found


def by_minute(factors: list[Factor], minute: int) -> float | None:
    """The newest publication that covers a minute: what the mean must be made of."""
    moment = T0 + timedelta(minutes=minute)
    over = [factor for factor in factors if factor.span.start <= moment < factor.span.end]
    return max(over, key=lambda factor: factor.published_at).grams_per_kwh if over else None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(publications())
def test_a_bucket_has_the_mean_of_its_minutes(engine: Engine, factors: list[Factor]) -> None:
    with writing(engine).connect() as connection:
        keep_factors(connection, "FR", factors, T0_NS, reporting=True)
        found = factors_in_force(connection, "FR", T0_NS, HOUR_NS)
        connection.rollback()

    buckets = next(iter(found.values()), {})
    for at in range(12):
        minutes = [by_minute(factors, minute) for minute in range(at * 5, at * 5 + 5)]
        known = [value for value in minutes if value is not None]
        factor = buckets.get(T0_NS + at * BUCKET_NS)
        assert (factor is None) == (not known)
        if factor is not None:
            assert abs(factor.grams_per_kwh - sum(known) / len(known)) < 1e-9


def test_the_same_factor_is_news_once(engine: Engine) -> None:
    factor = fixed(50.0)

    with writing(engine).begin() as connection:
        first = keep_factors(connection, "FR", [factor], T0_NS, reporting=True)
        again = keep_factors(connection, "FR", [factor], T0_NS, reporting=True)
        changed = keep_factors(connection, "FR", [fixed(51.0)], T0_NS, reporting=True)

    assert (first, again, len(changed)) == ([factor], [], 1)


def test_of_the_reporting_sources_the_best_quality_has_a_bucket_alone(engine: Engine) -> None:
    live = fixed(10.0, Span(T0, T0 + timedelta(minutes=5)), provider="live", quality=Quality.MEASURED)

    with writing(engine).begin() as connection:
        keep_factors(connection, "FR", [fixed(50.0), live], T0_NS, reporting=True)
        found = factors_in_force(connection, "FR", T0_NS, HOUR_NS)

    assert sorted(len(buckets) for buckets in found.values()) == [1, 11]
    merged = {start: factor.grams_per_kwh for buckets in found.values() for start, factor in buckets.items()}
    assert merged == {T0_NS + at * BUCKET_NS: 10.0 if at == 0 else 50.0 for at in range(12)}


def test_another_zones_factors_are_not_taken(engine: Engine) -> None:
    with writing(engine).begin() as connection:
        keep_factors(connection, "FR", [fixed(50.0)], T0_NS, reporting=True)
        assert factors_in_force(connection, "DE", T0_NS, HOUR_NS) == {}
