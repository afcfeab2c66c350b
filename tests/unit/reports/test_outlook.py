"""What lies ahead, by every provider that looks ahead."""

from datetime import timedelta

from tests.emission_services import NOON
from tests.fake_forecast import Ahead

from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import EmissionFactorProvider
from kwhere.emission_factors.static import StaticProvider, shipped_table
from kwhere.reports.outlook import HORIZON, look_ahead

HOUR = timedelta(hours=1)


def test_every_provider_has_its_own_window_and_a_failing_one_its_reason() -> None:
    now = NOON + timedelta(minutes=30)
    one, two, none = Ahead("one", 100, 50, 10, 10, 90), Ahead("two", 5, 50, 100), Ahead("none")
    providers: list[EmissionFactorProvider] = [StaticProvider(shipped_table()), one, two, none]

    found = look_ahead(providers, ["FR", "GB"], now, 4 * HOUR, 2 * HOUR)

    first, second = found.items
    assert (first.zone, first.window and first.window.span.start) == ("GB", NOON + 2 * HOUR)
    # Started now: half an hour at 100, an hour at 50, half an hour at 10.
    assert (first.window and first.window.grams_per_kwh, first.now_grams_per_kwh) == (10, 52.5)
    # All of 12:30 to 16:30: (50 + 50 + 10 + 10 + 45) / 4.
    assert first.mean_grams_per_kwh == 41.25
    assert (second.window and second.window.span.start) == now
    assert found.missing == {"none GB": "no answer"}
    assert one.asked == [Span(now, now + HORIZON)], "one question, whatever is wanted of it"


def test_a_forecast_that_is_too_short_has_no_window() -> None:
    (only,) = look_ahead([Ahead("one", 100)], ["GB"], NOON, 24 * HOUR, 4 * HOUR).items

    assert (only.window, only.now_grams_per_kwh, only.mean_grams_per_kwh) == (None, None, 100)


def test_a_forecast_of_the_past_is_none() -> None:
    found = look_ahead([Ahead("one", 100)], ["GB"], NOON + 5 * HOUR, 24 * HOUR, 4 * HOUR)

    assert found.items == []
    assert found.missing == {"one GB": "the forecast does not reach the present"}
