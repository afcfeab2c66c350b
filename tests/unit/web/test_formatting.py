"""Figures and times as pages show them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.terms import Component, Part
from kwhere.web.formatting import (
    ago_tag,
    ago_text,
    bar_pieces,
    column_of,
    fill_of,
    full,
    headline,
    length,
    no_data,
    number_text,
    percent,
    recent_time_tag,
    short_model,
    time_tag,
)

PARIS = ZoneInfo("Europe/Paris")
NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (318.4, "318"),
        (0.0, "0"),
        (1.0, "1.00"),
        (0.0012, "0.00120"),
        (0.0009, "<0.001"),
        (-0.0009, "-<0.001"),
        (1999.0, "1999"),
        (12345.0, "12\u202f345"),
        (-12345678.0, "-12\u202f345\u202f678"),
    ],
)
def test_three_digits_and_no_rows_of_zeros(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_column_has_no_room_for_who_made_a_gpu() -> None:
    assert [short_model(model) for model in ("NVIDIA H100 PCIe", "AMD Instinct MI300X", "gpu")] == [
        "H100 PCIe",
        "AMD Instinct MI300X",
        "gpu",
    ]


def test_a_column_has_one_scale_and_its_cells_their_full_precision() -> None:
    column = column_of([4_464_123.5, 3600.0, None], "energy")

    assert column.unit == "kWh"
    assert column.cell(4_464_123.5) == '<span title="4464123.5 J">1.24</span>'
    assert column.cell(3600.0) == '<span title="3600 J">0.00100</span>'


def test_no_data_is_a_dash_that_says_why_and_never_zero() -> None:
    cell = column_of([1.0], "power").cell(None, 'ended <"at noon">')

    assert "–" in cell
    assert 'title="ended &lt;&#34;at noon&#34;&gt;"' in cell
    assert "0" not in column_of([], "power").cell(None, "ended")
    assert column_of([], "power").cell(0.0) == '<span title="0 W">0</span>'


def test_grams_say_of_what() -> None:
    assert column_of([12.4], "mass").unit == "g CO₂e"


@pytest.mark.parametrize(
    ("value", "text"), [(0.1 + 0.2, "0.3"), (3.0, "3"), (1234567.25, "1234567.25"), (1e-9, "1e-09"), (2e20, "2e+20")]
)
def test_full_precision_is_readable(value: float, text: str) -> None:
    assert full(value) == text


def test_a_headline_keeps_number_and_unit_apart() -> None:
    assert (headline(4_464_000.0, "energy").number, headline(4_464_000.0, "energy").unit) == ("1.24", "kWh")
    assert headline(None, "power", "no slot") == headline(None, "mass", "no slot")
    assert headline(None, "power", "no slot").title == "no slot"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"),
        pytest.param(0.0, "0.0 %", id="case_users_10"),
        (0.0001, "<0.1 %"),
        (0.058, "5.8 %"),
        (0.0996, "10 %"),
        (0.94, "94 %"),
        (0.99, "99.0 %"),
        (0.99999, "99.9 %"),
        (1.0, "100 %"),
        (1.24, "124 %"),
    ],
)
def test_shares_are_never_rounded_to_nothing_or_to_all(ratio: float | None, text: str) -> None:
    assert percent(ratio) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (-3.0, "0 s"),
        (41.4, "41 s"),
        (90.0, "2 min"),
        (3600.0, "1 h"),
        (22320.0, "6 h 12 min"),
        (47 * 3600.0, "47 h"),
        (3.5 * 86400, "3 d 12 h"),
        (30 * 86400, "30 d"),
    ],
)
def test_lengths(seconds: float | None, text: str) -> None:
    assert length(seconds) == text


def test_a_time_is_in_the_sites_zone_with_utc_in_its_title() -> None:
    tag = time_tag(NOON, PARIS)

    assert ">2026-11-29 13:00<" in tag
    assert 'title="2026-11-29T12:00:00Z"' in tag
    assert ">2026-11-29 13:00:00<" in time_tag(NOON, PARIS, "seconds")
    assert "not known" in time_tag(None, PARIS)


def test_a_recent_time_leaves_out_its_year() -> None:
    assert ">11-29 13:00<" in recent_time_tag(NOON, PARIS, NOON)
    assert ">2025-11-29 13:00<" in recent_time_tag(NOON - timedelta(days=365), PARIS, NOON)
    assert ">2026-11-29 13:00<" in recent_time_tag(NOON, PARIS, NOON - timedelta(hours=1))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "now"),
        (1, "now"),
        (12, "12 s ago"),
        (89, "89 s ago"),
        (95, "2 min ago"),
        (5399, "90 min ago"),
        (7200, "2 h ago"),
        (172800, "2 d ago"),
    ],
)
def test_how_long_ago(seconds: int, text: str) -> None:
    assert ago_text(NOON - timedelta(seconds=seconds), NOON) == text


def test_never_is_a_dash_with_a_reason() -> None:
    assert "never" in ago_tag(None, NOON)
    assert "data-relative" in ago_tag(NOON, NOON)
    assert no_data("x").startswith("<span")


def test_a_bar_is_in_percent_of_the_whole() -> None:
    pieces = bar_pieces([("a", "A", 30.0), ("b", "B", None), ("c", "C", 0.0), ("d", "D", 20.0)], 100.0)

    assert [(piece.css_class, piece.start, piece.width) for piece in pieces] == [("a", 0, 30), ("d", 30, 20)]


def test_a_bar_of_nothing_is_empty() -> None:
    assert bar_pieces([("a", "A", 1.0)], 0.0) == []


@given(st.lists(st.floats(min_value=0, max_value=1e12), max_size=12), st.floats(min_value=1e-3, max_value=1e12))
def test_a_bar_never_leaves_its_place(amounts: list[float], whole: float) -> None:
    pieces = bar_pieces([("x", "", amount) for amount in amounts], whole)

    assert all(piece.start + piece.width <= 100.01 for piece in pieces)


def test_idle_is_hatched() -> None:
    assert fill_of(Component.CPU, Part.IDLE) == "fill-cpu-idle"
    assert fill_of("gpu", "dynamic") == "fill-gpu"


def test_a_column_without_a_figure_names_no_unit() -> None:
    assert column_of([None, None], "bytes").unit == ""
    assert column_of([], "mass").unit == ""
    assert column_of([0.0], "bytes").unit == "B"
