"""What meters say now: slow ones are waited for, all at once, up to their own give-up time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.core.terms import DomainKind, Method
from kwhere.meters.background import BackgroundMeter
from kwhere.meters.failures import as_unavailable
from kwhere.meters.meter import Meter, Reading

BETWEEN_SECONDS = 0.5
"""Between two looks at a counter."""
QUICK_SECONDS = 2.0
"""How long a meter is waited for that never blocks."""
SLOW_SECONDS = 60.0
"""How long at most one that may; most give up by themselves before."""
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class MeterAnswer:
    """What one meter said: power by kind of domain, or why not."""

    watts: Mapping[DomainKind, float] = field(default_factory=dict)
    failure: Unavailable | None = None


def ask_meters(
    meters: Sequence[Meter],
    clock_ns: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, MeterAnswer]:
    """Return the answer of each meter by source; the model's is left out: it is no measurement."""
    asked = [_Asked(meter, clock_ns()) for meter in meters if meter.method is not Method.MODELLED]
    waiting = asked
    while waiting:
        waiting = [each for each in waiting if each.goes_on(clock_ns())]
        if waiting:
            sleep(POLL_SECONDS)
    return {each.meter.source: each.answer() for each in asked}


class _Asked:
    """One meter while it is asked: a first answer, and of a counter a second half a second later."""

    def __init__(self, meter: Meter, began_ns: int) -> None:
        self.meter = meter
        self._limit_ns = began_ns + int((SLOW_SECONDS if isinstance(meter, BackgroundMeter) else QUICK_SECONDS) * 1e9)
        self._first: dict[tuple[str, str], Reading] | None = None
        self._first_ns = 0
        self._second: dict[tuple[str, str], Reading] | None = None
        self._failure: Unavailable | None = None

    def goes_on(self, now_ns: int) -> bool:
        """Ask where it is time to; return whether there is more to wait for."""
        if self._failure is not None or self._second is not None:
            return False
        if self._first is not None and now_ns - self._first_ns < BETWEEN_SECONDS * 1e9:
            return True
        if now_ns > self._limit_ns:
            if self._first is None:
                self._failure = Unavailable("timeout", f"{self.meter.source}: no answer yet")
            return False
        return self._ask(now_ns)

    def answer(self) -> MeterAnswer:
        """Return what was found."""
        if self._failure is not None or self._first is None:
            return MeterAnswer(failure=self._failure)
        watts: dict[DomainKind, float] = {}
        for key, reading in self._first.items():
            power = _watts(reading, (self._second or {}).get(key))
            if power is not None:
                watts[reading.domain.kind] = watts.get(reading.domain.kind, 0.0) + power
        return MeterAnswer(watts)

    def _ask(self, now_ns: int) -> bool:
        try:
            readings = self.meter.read(now_ns)
        except NoData:
            return True
        except (Unavailable, SourceError) as error:
            self._failure = as_unavailable(error)
            return False
        found = {(str(reading.domain), reading.zone): reading for reading in readings}
        if self._first is not None:
            self._second = found
            return False
        self._first, self._first_ns = found, now_ns
        # a slow source's second answer is not worth the wait: power it tells by itself, of a counter none is shown
        return not isinstance(self.meter, BackgroundMeter) and any(r.counter_uj is not None for r in readings)


def _watts(first: Reading, second: Reading | None) -> float | None:
    if first.power_uw is not None:
        return first.power_uw / MICROJOULES_PER_JOULE
    if second is None or second.counter_uj is None or first.counter_uj is None:
        return None
    seconds = (second.time_ns - first.time_ns) / 1e9
    grown = second.counter_uj - first.counter_uj
    return grown / MICROJOULES_PER_JOULE / seconds if seconds > 0 and grown >= 0 else None
