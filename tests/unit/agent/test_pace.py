"""The schedule of steps, with time as numbers."""

from kwhere.agent.pace import WINDOW_STEPS, Pace

SECOND = 1_000_000_000


def test_steps_do_not_drift() -> None:
    pace = Pace(SECOND, budget_ratio=0.5)
    now = 100 * SECOND
    for _ in range(50):
        pace.begin(now)
        now += pace.end(now + 7_000_000, cpu_ns=0) + 7_000_000

    assert now == 150 * SECOND
    assert (pace.late, pace.missed) == (0, 0)


def test_a_late_step_is_counted_and_the_schedule_kept() -> None:
    pace = Pace(SECOND, budget_ratio=0.5)
    pace.begin(0)
    pace.end(0, cpu_ns=0)

    pace.begin(1_300_000_000)

    assert (pace.late, pace.missed) == (1, 0)
    assert pace.end(1_300_000_000, cpu_ns=0) == 700_000_000


def test_missed_steps_are_counted_and_not_made_up_for() -> None:
    pace = Pace(SECOND, budget_ratio=0.5)
    pace.begin(0)
    pace.end(0, cpu_ns=0)

    pace.begin(4_500_000_000)

    assert (pace.late, pace.missed) == (1, 3)
    assert pace.end(4_500_000_000, cpu_ns=0) == 500_000_000


def run(pace: Pace, steps: int, cpu_ns: int, now: int = 0) -> int:
    for _ in range(steps):
        pace.begin(now)
        now += pace.end(now, cpu_ns)
    return now


def test_over_its_budget_it_slows_down_and_comes_back() -> None:
    pace = Pace(SECOND, budget_ratio=0.05)

    now = run(pace, WINDOW_STEPS, cpu_ns=80_000_000)
    assert pace.step_ns == 2 * SECOND
    now = run(pace, WINDOW_STEPS, cpu_ns=80_000_000, now=now)
    assert pace.step_ns == 2 * SECOND
    run(pace, WINDOW_STEPS, cpu_ns=1_000_000, now=now)

    assert pace.step_ns == SECOND


def test_it_never_slows_beyond_a_minute() -> None:
    pace = Pace(SECOND, budget_ratio=0.01)
    now = 0
    for _ in range(10):
        now = run(pace, WINDOW_STEPS, cpu_ns=30 * SECOND, now=now)

    assert pace.step_ns == 60 * SECOND
