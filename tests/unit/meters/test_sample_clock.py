"""When a device's figure was new."""

import pytest

from kwhere.core.errors import Unavailable
from kwhere.meters.sample_clock import CounterClock, SampleClock

SECOND = 10**9


def test_without_a_stamp_each_answer_is_new() -> None:
    clock = SampleClock("1", 60)

    assert [clock.time_of(5, "", now) for now in (10, 20, 30)] == [10, 20, 30]


def test_a_stamp_that_stands_keeps_the_time_and_ends_as_stuck() -> None:
    clock = SampleClock("1", 60)
    assert clock.time_of(5, "a", 10 * SECOND) == 10 * SECOND
    assert clock.time_of(5, "a", 70 * SECOND) == 10 * SECOND

    with pytest.raises(Unavailable) as caught:
        clock.time_of(5, "a", 71 * SECOND)

    assert caught.value.reason == "stuck"
    assert clock.time_of(5, "b", 72 * SECOND) == 72 * SECOND


def test_a_stamp_that_goes_back_is_new_all_the_same() -> None:
    clock = SampleClock("1", 60)

    assert [clock.time_of(5, stamp, now) for stamp, now in (("2026", 10), ("1970", 20), ("1971", 30))] == [10, 20, 30]


def test_a_stamp_that_the_device_never_moves_is_not_looked_at() -> None:
    clock = SampleClock("1", 60)
    clock.time_of(5, "1970", 1 * SECOND)
    clock.time_of(6, "1970", 2 * SECOND)

    assert clock.time_of(6, "1970", 900 * SECOND) == 900 * SECOND


def test_a_counter_is_new_when_it_moves() -> None:
    clock = CounterClock()

    assert [clock.time_of(*seen) for seen in ((7, 10), (7, 20), (8, 30), (3, 40), (3, 50))] == [10, 10, 30, 40, 40]
