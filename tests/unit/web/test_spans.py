"""The span of a page and its chips."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from kwhere.core.timespan import Span
from kwhere.web.spans import chart_step, choose_span, is_chosen, span_with_data

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")


def test_without_a_choice_the_default_is_shown() -> None:
    choice = choose_span("/", {}, NOW, PARIS)

    assert choice.span == Span(NOW - timedelta(hours=1), NOW)
    assert [chip.text for chip in choice.chips if chip.current] == ["1 h"]


def test_a_chip_keeps_every_other_filter_and_starts_at_the_first_page() -> None:
    choice = choose_span("/nodes/a", {"cluster": "b c", "span": "24h", "after": "x"}, NOW, PARIS)

    assert choice.chips[0].url == "/nodes/a?cluster=b+c&span=15min"
    assert choice.live_query == "cluster=b+c&span=24h"


def test_a_custom_span_is_read_in_the_sites_zone() -> None:
    choice = choose_span("/", {"from": "2026-11-29T12:00", "to": "2026-11-29T13:30"}, NOW, PARIS)

    assert choice.span.start == datetime(2026, 11, 29, 11, 0, tzinfo=UTC)
    assert not any(chip.current for chip in choice.chips)
    assert (choice.start_text, choice.end_text) == ("2026-11-29T12:00", "2026-11-29T13:30")
    assert "from=2026-11-29" in choice.live_query


def test_a_script_may_name_a_span_its_own_way() -> None:
    assert choose_span("/", {"from": "-2h"}, NOW, PARIS).span == Span(NOW - timedelta(hours=2), NOW)


@pytest.mark.parametrize("params", [{"span": "soon"}, {"from": "x"}, {"from": "now", "to": "-1h"}])
def test_what_cannot_be_read_is_an_error(params: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        choose_span("/", params, NOW, PARIS)


@pytest.mark.parametrize(
    ("hours", "step"), [(0.25, 10), (1, 10), (24, 300), (24 * 7, 1800), (24 * 30, 7200), (24 * 400, 86400)]
)
def test_a_chart_has_some_hundred_points(hours: float, step: float) -> None:
    assert chart_step(Span(NOW - timedelta(hours=hours), NOW)) == step


HOUR = Span(NOW - timedelta(hours=1), NOW)


@pytest.mark.parametrize(
    ("minutes_of_data", "minutes_shown"),
    [(None, 60), (59, 60), (21, 60), (19, 19), (5, 5), (1, 2)],
    ids=["none", "nearly all", "more than a third", "less than a third", "little", "next to nothing"],
)
def test_a_new_accounts_chart_is_not_a_sliver(minutes_of_data: int | None, minutes_shown: int) -> None:
    first = None if minutes_of_data is None else NOW - timedelta(minutes=minutes_of_data)

    assert span_with_data(HOUR, first) == Span(NOW - timedelta(minutes=minutes_shown), NOW)


def test_a_span_of_the_url_is_a_choice() -> None:
    assert is_chosen({"from": "-1h"})
    assert not is_chosen({"span": "", "cluster": "a"})
