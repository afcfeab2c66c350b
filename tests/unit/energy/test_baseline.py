import dataclasses

import pytest

from kwhere.energy.baseline import BaselineState, IdleBaseline, IdleOrigin, QuietWindow, idle_of

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
WATT = 1_000_000
START = 1_790_000_000 * SECOND


def observe(baseline: IdleBaseline, power_w: float, utc_ns: int, utilisation: float | None = 0.01) -> None:
    """Feed five minutes of one power, in steps of one minute, that end at `utc_ns`."""
    for minute in range(5):
        now_ns = utc_ns - (4 - minute) * MINUTE
        baseline.observe(round(power_w * 60 * WATT), MINUTE, utilisation, now_ns)


def learned(*powers_w: float, utilisation: float | None = 0.01) -> IdleBaseline:
    baseline = IdleBaseline(table_uw=70 * WATT)
    for number, power_w in enumerate(powers_w):
        observe(baseline, power_w, START + number * 5 * MINUTE, utilisation)
    baseline.start_slot()
    return baseline


def test_the_table_serves_until_three_quiet_windows_are_seen() -> None:
    baseline = learned(40, 41)

    assert (baseline.idle_uw, baseline.origin) == (70 * WATT, IdleOrigin.TABLE)


def test_three_quiet_windows_teach_the_tenth_percentile() -> None:
    baseline = learned(42, 40, 41)

    assert (baseline.idle_uw, baseline.origin) == (40 * WATT, IdleOrigin.LEARNED)


def test_what_is_learned_is_in_force_from_the_next_slot() -> None:
    baseline = IdleBaseline(table_uw=70 * WATT)
    for number in range(3):
        observe(baseline, 40, START + number * 5 * MINUTE)

    within_the_slot = baseline.idle_uw
    baseline.start_slot()

    assert (within_the_slot, baseline.idle_uw) == (70 * WATT, 40 * WATT)


@pytest.mark.parametrize("utilisation", [0.05, 0.9, None])
def test_busy_or_unknown_windows_teach_nothing(utilisation: float | None) -> None:
    assert learned(40, 40, 40, 40, utilisation=utilisation).origin is IdleOrigin.TABLE


def test_a_window_is_as_busy_as_its_mean() -> None:
    baseline = IdleBaseline(table_uw=70 * WATT)
    for window in range(3):
        for minute in range(5):
            now_ns = START + (5 * window + minute) * MINUTE
            baseline.observe(40 * 60 * WATT, MINUTE, 0.2 if minute == 0 else 0.0, now_ns)  # mean 4 %
    baseline.start_slot()

    assert baseline.origin is IdleOrigin.LEARNED


def test_a_gap_drops_the_window_under_way() -> None:
    baseline = learned(40, 40)
    for minute in range(4):
        baseline.observe(1, MINUTE, 0.0, START + (10 + minute) * MINUTE)
    baseline.interrupt()
    baseline.observe(1, MINUTE, 0.0, START + 15 * MINUTE)
    baseline.start_slot()

    assert baseline.origin is IdleOrigin.TABLE


def test_the_tenth_percentile_is_by_nearest_rank() -> None:
    windows = [QuietWindow(START, watts * WATT) for watts in range(30, 10, -1)]

    assert idle_of(windows) == 12 * WATT  # 20 windows: the second smallest of 11 … 30
    assert idle_of(windows[:2]) is None


def test_it_falls_at_once_and_rises_one_percent_a_day() -> None:
    baseline = learned(50, 50, 50)
    later = START + 8 * DAY  # the old windows are forgotten
    for number in range(3):
        observe(baseline, 80, later + number * 5 * MINUTE)
    baseline.start_slot()
    risen = baseline.idle_uw
    observe(baseline, 30, later + 20 * MINUTE)
    baseline.start_slot()

    # 8 days and 10 minutes after it was learned (10 minutes after START): 1 % of 50 W per day
    assert 54 * WATT <= risen < 54.01 * WATT
    assert baseline.idle_uw == 30 * WATT


def test_windows_of_the_last_seven_days_count() -> None:
    baseline = learned(20, 50, 50)
    observe(baseline, 50, START + 7 * DAY)
    baseline.start_slot()

    assert [window.mean_uw for window in baseline.saved().windows] == [50 * WATT] * 3
    assert baseline.idle_uw == 21_398_611  # 1 % of 20 W a day, 10 minutes short of 7 days


def test_the_configured_power_wins() -> None:
    baseline = IdleBaseline(table_uw=70 * WATT, configured_uw=55 * WATT)
    for number in range(4):
        observe(baseline, 40, START + number * 5 * MINUTE)
    baseline.start_slot()

    assert (baseline.idle_uw, baseline.origin) == (55 * WATT, IdleOrigin.CONFIGURED)


def test_modelled_domains_do_not_learn() -> None:
    baseline = IdleBaseline(table_uw=70 * WATT, learns=False)
    for number in range(4):
        observe(baseline, 40, START + number * 5 * MINUTE)
    baseline.start_slot()
    baseline.restore(BaselineState((), 5, START))

    assert (baseline.idle_uw, baseline.origin) == (70 * WATT, IdleOrigin.MODEL)


def test_the_table_is_never_zero() -> None:
    assert IdleBaseline(table_uw=0).idle_uw == 1
    assert learned(0, 0, 0).idle_uw == 1


def test_what_was_learned_survives_a_restart() -> None:
    before = learned(40, 41, 42)
    state = before.saved()
    after = IdleBaseline(table_uw=70 * WATT)

    after.restore(BaselineState(*(getattr(state, f.name) for f in dataclasses.fields(state))))

    assert (after.idle_uw, after.origin) == (40 * WATT, IdleOrigin.LEARNED)
    assert after.saved() == state


def test_what_waits_for_the_next_slot_is_saved_too() -> None:
    baseline = IdleBaseline(table_uw=70 * WATT)
    for number in range(3):
        observe(baseline, 40, START + number * 5 * MINUTE)

    assert baseline.saved().learned_uw == 40 * WATT


def test_an_empty_span_is_no_observation() -> None:
    baseline = IdleBaseline(table_uw=70 * WATT)

    baseline.observe(5, 0, 0.0, START)

    assert baseline.saved() == BaselineState()
