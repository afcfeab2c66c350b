"""Meters that are asked on a thread of their own: fresh, stale, failing, hanging."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

import pytest
from tests.sampling_world import SECOND, WATT, HandClock

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.terms import Component
from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.meter import PLATFORM, Reading

FACTS = SlowFacts("bmc", (PLATFORM,), frozenset(Component), refresh_seconds=5, give_up_seconds=10, p_max_uw=WATT)


@dataclass
class Scripted(BlockingSource):
    """Says what is on its list, one item per question; the clock moves while it thinks."""

    clock: HandClock
    script: list[int | Exception] = field(default_factory=list)
    thinks_ns: int = 0
    closed: bool = False

    def ask(self) -> Sequence[Reading]:
        self.clock.advance(self.thinks_ns)
        item = self.script.pop(0)
        if isinstance(item, Exception):
            raise item
        return [Reading(PLATFORM, "chassis", 0, power_uw=item)]

    def close(self) -> None:
        self.closed = True


def asked(*script: int | Exception, thinks_ns: int = 0) -> tuple[BackgroundMeter, HandClock]:
    """Return a meter that was asked once for each item, without its thread."""
    clock = HandClock()
    meter = BackgroundMeter(FACTS, Scripted(clock, list(script), thinks_ns), clock.monotonic_ns)
    meter._thread = object()  # type: ignore[assignment]  # the test asks, not a thread
    for _ in script:
        meter.ask_once()
    return meter, clock


def test_before_the_first_answer_there_is_no_data() -> None:
    meter, clock = asked()

    with pytest.raises(NoData):
        meter.read(clock.monotonic)


def test_an_answer_has_the_time_at_which_it_came_and_keeps_it() -> None:
    meter, clock = asked(300 * WATT, thinks_ns=2 * SECOND)
    answered_ns = clock.monotonic
    clock.advance(4 * SECOND)

    assert meter.read(clock.monotonic) == [
        Reading(PLATFORM, "chassis", answered_ns, power_uw=300 * WATT, device_time=True)
    ]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(Unavailable("refused", "bmc: refused"), "refused"), (SourceError("bmc: HTML"), "unsupported")],
)
def test_a_failure_shows_until_the_source_answers_again(failure: Exception, reason: str) -> None:
    meter, clock = asked(300 * WATT, failure)

    with pytest.raises(Unavailable) as caught:
        meter.read(clock.monotonic)
    assert caught.value.reason == reason


def test_nothing_to_say_keeps_the_last_answer() -> None:
    meter, clock = asked(300 * WATT, NoData("bmc: averaging"))

    assert meter.read(clock.monotonic)[0].power_uw == 300 * WATT


def test_the_next_question_comes_a_refresh_after_the_last_began() -> None:
    clock = HandClock()
    meter = BackgroundMeter(FACTS, Scripted(clock, [WATT, WATT], 3 * SECOND), clock.monotonic_ns)

    assert meter.ask_once() == 2.0


def test_a_source_that_says_when_is_left_alone_till_then() -> None:
    clock = HandClock()
    refused = Unavailable("busy", "bmc: 503", retry_after_seconds=77)
    meter = BackgroundMeter(FACTS, Scripted(clock, [refused]), clock.monotonic_ns)

    assert meter.ask_once() == 77


class Hanging(BlockingSource):
    """Answers only when it is closed."""

    def __init__(self) -> None:
        self.asked = Event()
        self.released = Event()

    def ask(self) -> Sequence[Reading]:
        self.asked.set()
        self.released.wait(30)
        return []

    def close(self) -> None:
        self.released.set()


def test_a_question_that_hangs_delays_nobody_and_is_a_time_out() -> None:
    clock, source = HandClock(), Hanging()
    meter = BackgroundMeter(FACTS, source, clock.monotonic_ns)
    with pytest.raises(NoData):
        meter.read(clock.monotonic)
    assert source.asked.wait(10)
    clock.advance(11 * SECOND)

    with pytest.raises(Unavailable) as caught:
        meter.read(clock.monotonic)
    meter.close()
    assert caught.value.reason == "timeout"


def test_a_source_that_says_when_is_asked_then_however_often_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug is pulled at any time: the batteries of a laptop on the mains are asked again every few seconds."""
    clock = HandClock()
    closed = [Unavailable("on_ac", "on the mains", retry_after_seconds=0.0) for _ in range(8)]
    source = Scripted(clock, [*closed, 7])
    meter = BackgroundMeter(FACTS, source, clock.monotonic_ns)
    waits: list[float | None] = []

    def wait(seconds: float | None = None) -> bool:
        waits.append(seconds)
        if not source.script:
            meter.close()
        return True

    monkeypatch.setattr(meter._stop, "wait", wait)
    meter._run()

    assert waits == [0.0] * 8 + [5.0]
