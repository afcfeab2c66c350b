"""Numbers as people read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.reports.figures import (
    BYTES,
    CPU_TIME,
    ENERGY,
    MASS,
    POWER,
    Scale,
    ago,
    choose_scale,
    duration,
    quantity,
    share,
    significant,
    utc_of,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (318.4, "318"),
        (1.2449, "1.24"),
        (0.9996, "1.00"),
        (9.996, "10.0"),
        (999.6, "1000"),
        (12345.0, "12345"),
        (0.01234, "0.0123"),
        (-2.5, "-2.50"),
        (float("nan"), "–"),
        (1e-12, "1.00e-12"),
    ],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(
    ("value", "scales", "text"),
    [
        (4_464_000.0, ENERGY, "1.24 kWh"),
        (3600.0, ENERGY, "1.00 Wh"),
        (3.6, ENERGY, "1.00 mWh"),
        (318.0, POWER, "318 W"),
        (999.9, POWER, "1.00 kW"),
        (12.4, MASS, "12.4 g"),
        (1000.0, MASS, "1.00 kg"),
        (0.0, ENERGY, "0 Wh"),
        (0.0, POWER, "0 W"),
        (0.0, BYTES, "0 B"),
        (1536.0, BYTES, "1.50 KiB"),
        (7200.0, CPU_TIME, "2.00 CPU-h"),
        (None, POWER, "–"),
    ],
)
def test_one_value_on_its_own_scale(value: float | None, scales: tuple[object, ...], text: str) -> None:
    assert quantity(value, scales) == text  # type: ignore[arg-type]


def test_a_column_has_one_scale() -> None:
    scale = choose_scale([160.0, 20.0, None, 0.4], POWER)

    assert [scale.text(v) for v in (160.0, 20.0, None, 0.4)] == ["160", "20.0", "–", "0.400"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.1, "4.10 s"), (0.0, "0 s"), (7384, "02:03:04"), (93784, "1-02:03:04"), (59.999, "60.0 s"), (None, "–")],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "just now"), (42, "42 s ago"), (750, "12 min ago"), (7300, "2 h ago"), (90000, "1 d ago")]
)
def test_ago(seconds: float, text: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)

    assert ago(now - timedelta(seconds=seconds), now) == text


def test_share_and_time() -> None:
    assert share(0.9412) == "94.1 %"
    assert share(None) == "–"
    assert utc_of(1_700_000_000_123_456_789) == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)


@given(st.floats(min_value=1e-6, max_value=1e14))
def test_the_text_is_within_half_of_the_last_digit(value: float) -> None:
    assert float(significant(value)) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.0000752, "<0.001"), (-0.0002, "-<0.001"), (0.00123, "0.00123"), (12.34, "12.3")]
)
def test_next_to_nothing_fills_no_column_with_zeros(value: float, text: str) -> None:
    assert Scale("W", 1.0).text(value) == text
