"""The fit finds the truth through noise, ticks and lag; what a file may say is told from what it may not."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.energy.calibration import (
    Calibration,
    Fit,
    Mark,
    PowerPoint,
    Scope,
    fit_power,
    objection,
    parse_calibration,
    points_between,
    uncertainty_ratio,
)

SECOND = 1_000_000_000
FOUND = Calibration("powercap", Scope.CPU, "A CPU", 1, 2, 10.0, 5.0, 0.05, "2026-11-30T00:00:00+00:00")


def test_a_line_by_hand() -> None:
    """Watts 12, 20, 32 at 0, 1, 2 CPUs: slope 10, idle 34/3; residuals 2/3, -4/3, 2/3."""
    fit = fit_power([PowerPoint(0, 12), PowerPoint(1, 20), PowerPoint(2, 32)])

    assert fit.watts_per_cpu == pytest.approx(10)
    assert fit.idle_watts == pytest.approx(34 / 3)
    assert fit.residual_watts == pytest.approx(math.sqrt((4 + 16 + 4) / 9 / 3))
    assert fit.r_squared == pytest.approx(1 - (24 / 9) / (608 / 3))
    assert fit.slope_error_watts == pytest.approx(12.706 * math.sqrt(24 / 9 / 2))
    assert fit.idle_error_watts == pytest.approx(12.706 * math.sqrt(24 / 9 * (1 / 3 + 1 / 2)))
    assert fit.watts(1) == pytest.approx(64 / 3)


def test_time_is_weight() -> None:
    once = fit_power([PowerPoint(0, 10, 30), PowerPoint(1, 20, 10), PowerPoint(2, 33, 10)])
    thrice = fit_power([*[PowerPoint(0, 10, 10)] * 3, PowerPoint(1, 20, 10), PowerPoint(2, 33, 10)])

    assert (once.idle_watts, once.watts_per_cpu) == pytest.approx((thrice.idle_watts, thrice.watts_per_cpu))


def test_two_points_show_no_error() -> None:
    fit = fit_power([PowerPoint(0, 40), PowerPoint(2, 70)])

    assert (fit.idle_watts, fit.watts_per_cpu) == pytest.approx((40, 15))
    assert (fit.idle_error_watts, fit.slope_error_watts, fit.r_squared) == (None, None, None)


@pytest.mark.parametrize("points", [[], [PowerPoint(0, 1)], [PowerPoint(1, 5), PowerPoint(1, 6)]])
def test_one_load_gives_no_line(points: list[PowerPoint]) -> None:
    with pytest.raises(ValueError, match="expected"):
        fit_power(points)


@given(
    idle=st.floats(1, 500),
    slope=st.floats(0.1, 50),
    cpus=st.integers(1, 256),
    noise=st.lists(st.floats(-1, 1), min_size=16, max_size=16),
)
def test_idle_and_slope_come_out_of_noise(idle: float, slope: float, cpus: int, noise: list[float]) -> None:
    loads = [cpus * percent / 100 for percent in (0, 25, 50, 100) for _ in range(4)]
    points = [PowerPoint(load, idle + slope * load + error) for load, error in zip(loads, noise, strict=True)]

    fit = fit_power(points)

    assert abs(fit.watts(cpus / 2) - idle - slope * cpus / 2) <= 1 + 1e-6
    assert abs(fit.watts_per_cpu - slope) * cpus <= 4.5
    assert fit.residual_watts <= 1 + 1e-6


@given(
    idle_watts=st.integers(5, 200),
    slope_watts=st.integers(1, 20),
    unit_uj=st.sampled_from([1, 61, 15_259, 1_000_000]),
    lag_seconds=st.integers(0, 2),
)
def test_a_quantised_lagging_meter_is_no_obstacle(
    idle_watts: int, slope_watts: int, unit_uj: int, lag_seconds: int
) -> None:
    """Four loads of 34 s on 4 CPUs, read each second; 4 s to settle are left out; the meter shows old energy."""
    loads = [0, 1, 2, 4]
    energy_uj = busy_ns = 0
    true_uj = [0]
    marks = []
    for second in range(34 * len(loads)):
        load = loads[second // 34]
        energy_uj += (idle_watts + slope_watts * load) * 1_000_000
        busy_ns += load * SECOND
        true_uj.append(energy_uj)
        shown = true_uj[max(0, second + 1 - lag_seconds)] // unit_uj * unit_uj
        marks.append(Mark((second + 1) * SECOND, shown, busy_ns))

    points = [
        point
        for phase in range(len(loads))
        for point in points_between(marks, (phase * 34 + 4) * SECOND, (phase + 1) * 34 * SECOND, 10 * SECOND)
    ]
    fit = fit_power(points)

    assert len(points) == 12
    assert fit.idle_watts == pytest.approx(idle_watts, abs=0.3)
    assert fit.watts_per_cpu == pytest.approx(slope_watts, abs=0.15)


def test_windows_begin_and_end_at_readings() -> None:
    """10 J and half a CPU over the second of two readings that lie within; the third second is cut off."""
    marks = [
        Mark(0, 0, 0),
        Mark(SECOND, 5_000_000, 0),
        Mark(2 * SECOND, 15_000_000, SECOND // 2),
        Mark(9 * SECOND, 9, 9),
    ]

    assert points_between(marks, SECOND // 2, 3 * SECOND, 1) == [PowerPoint(0.5, 10.0, 1.0)]
    assert points_between(marks, 3 * SECOND, 8 * SECOND, 1) == []
    assert points_between([], 0, SECOND, 1) == []


@pytest.mark.parametrize(
    ("fit", "reason"),
    [
        (Fit(20, 5, 1, 0.1, 0.99, 0.2), ""),
        (Fit(20, 5, None, None, None, 0.0), ""),
        (Fit(20, 0.0, 1, 0.1, None, 0.2), "does not move"),
        (Fit(20, -3, 1, 0.1, 0.9, 0.2), "does not move"),
        (Fit(20, 0.05, 1, 0.01, 0.9, 0.2), "does not move"),
        (Fit(20, 5, 1, 6, 0.2, 9), "does not move"),
        (Fit(-1, 5, 1, 0.1, 0.9, 0.2), "idle power"),
    ],
)
def test_what_must_not_be_used(fit: Fit, reason: str) -> None:
    assert reason in objection(fit, 4)
    assert bool(objection(fit, 4)) is bool(reason)


def test_uncertainty_is_twice_the_residual_at_half_load() -> None:
    assert uncertainty_ratio(Fit(20, 5, 1, 1, 0.9, 3.0), 4) == pytest.approx(6 / 30)
    assert uncertainty_ratio(Fit(20, 5, 1, 1, 0.9, 0.0), 4) == 0.05


def test_a_file_says_what_was_found() -> None:
    assert parse_calibration(FOUND.to_json(), "f") == FOUND


def test_a_calibration_is_of_one_kind_of_machine() -> None:
    assert FOUND.misfit("A CPU", 1, 2) == ""
    assert "this machine has 4 CPUs of A CPU" in FOUND.misfit("A CPU", 1, 4)
    assert FOUND.misfit("Another", 1, 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 2),
        ("scope", "gpu"),
        ("cpus", 0),
        ("cpus", True),
        ("cpus", 2.5),
        ("sockets", "1"),
        ("idle_watts", 0),
        ("idle_watts", -4),
        ("idle_watts", math.nan),
        ("idle_watts", math.inf),
        ("idle_watts", 10**400),
        ("watts_per_cpu", None),
        ("watts_per_cpu", "5"),
        ("uncertainty_ratio", 0),
        ("source", 5),
        ("source", "x" * 300),
        ("measured_utc", "\x1b[31m"),
        ("dram_idle_watts", "none"),
    ],
)
def test_a_wrong_value_is_refused(key: str, value: object) -> None:
    record = json.loads(FOUND.to_json()) | {key: value}

    with pytest.raises(SourceError, match=r"c\.json: expected"):
        parse_calibration(json.dumps(record), "c.json")


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5).map(json.dumps))
def test_any_text_is_a_calibration_or_an_error(text: str) -> None:
    with suppress(SourceError):
        parse_calibration(text, "f")


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(SourceError):
        parse_calibration("[" * 100_000, "f")
