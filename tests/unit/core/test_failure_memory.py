from collections.abc import Callable

import pytest

from kwhere.core.failure_memory import BURST, NEVER_NS, QUIET_NS, FailureMemory

SCRAPE_NS = 15_000_000_000
DAY_NS = 86_400_000_000_000


def test_failure_is_told_on_change_then_hourly_with_a_count() -> None:
    memory = FailureMemory()

    assert memory.failed("disk", "full", 0) == 1
    assert memory.failed("disk", "full", 10) is None
    assert memory.failed("disk", "full", QUIET_NS - 1) is None
    assert memory.failed("disk", "full", QUIET_NS) == 3
    assert memory.failed("disk", "full", QUIET_NS + 1) is None
    assert memory.failed("disk", "read only", QUIET_NS + 2) == 1


def test_subjects_are_told_apart() -> None:
    memory = FailureMemory()

    assert memory.failed("disk", "full", 0) == 1
    assert memory.failed("network", "full", 0) == 1


def test_recovery_is_told_once() -> None:
    memory = FailureMemory()
    memory.failed("disk", "full", 0)

    assert memory.recovered("disk")
    assert not memory.recovered("disk")
    assert not memory.recovered("network")


def test_what_comes_and_goes_is_told_once_an_hour() -> None:
    memory = FailureMemory()
    told = []
    for second in range(0, 7200, 10):
        told.append(memory.failed("disk", "full", second * 10**9))
        told.append(1 if memory.recovered("disk") else None)

    # at 0 s and 3600 s, each failure with its recovery
    assert [count for count in told if count] == [1, 1, 360, 1]


def test_what_is_not_told_is_summed_up_hourly() -> None:
    memory = FailureMemory(NEVER_NS)
    for subject in ("disk", "network"):
        assert memory.failed(subject, "gone", 0) == 1
    assert memory.repeated(0) == {}
    for _ in range(3):
        assert memory.failed("disk", "gone", QUIET_NS - 1) is None

    assert memory.repeated(QUIET_NS - 1) == {}
    assert memory.repeated(QUIET_NS) == {"disk": 3}
    assert memory.repeated(2 * QUIET_NS) == {}


PATTERNS: dict[str, Callable[[FailureMemory, str, int], list[object]]] = {
    "same": lambda memory, subject, now_ns: [memory.failed(subject, "broken", now_ns)],
    "changing": lambda memory, subject, now_ns: [memory.failed(subject, f"found {now_ns}", now_ns)],
    "flapping": lambda memory, subject, now_ns: [
        memory.failed(subject, "broken", now_ns),
        memory.recovered(subject) or None,
    ],
    "flapping_and_changing": lambda memory, subject, now_ns: [
        memory.failed(subject, f"found {now_ns}", now_ns),
        memory.recovered(subject) or None,
    ],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_day_with_everything_broken_fills_no_log(pattern: str) -> None:
    memory = FailureMemory(NEVER_NS)
    lines = 0
    for now_ns in range(0, DAY_NS, SCRAPE_NS):
        for number in range(14):
            lines += sum(told is not None for told in PATTERNS[pattern](memory, f"source{number}", now_ns))
        lines += bool(memory.repeated(now_ns))

    # the burst at the start is no steady state
    assert lines - BURST <= 48 + 24
