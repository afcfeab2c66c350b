"""What meters say now: slow ones are waited for, all at once, up to their own give-up time."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.counters import GapCause, modulus_of, unwrap
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
    return _believed(asked)


def ask_copy(meters: Sequence[Meter], moments: Iterable[int]) -> dict[str, MeterAnswer]:
    """Return the answer of each meter of a copied tree; each of `moments` has turned the tree to its own time."""
    asked = [_Asked(meter, 0) for meter in meters if meter.method is not Method.MODELLED]
    for now_ns in moments:
        for each in asked:
            each.look(now_ns)
    return _believed(asked)


def _believed(asked: Sequence["_Asked"]) -> dict[str, MeterAnswer]:
    """Return the answers; a total that has to prove itself and shows less than the CPUs inside it is a failure."""
    answers = {each.meter.source: each.answer() for each in asked}
    cpu_watts = next((a.watts[DomainKind.CPU] for a in answers.values() if DomainKind.CPU in a.watts), 0.0)
    for each in asked:
        total = answers[each.meter.source].watts.get(DomainKind.PLATFORM)
        if each.meter.needs_proof and total is not None and total < cpu_watts:
            text = f"{each.meter.source}: {total:.3g} W, and the processors alone {cpu_watts:.3g} W"
            answers[each.meter.source] = MeterAnswer(failure=Unavailable("below_components", text))
    return answers


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

    def look(self, now_ns: int) -> None:
        """Ask once more, unless it failed or has said twice what it says."""
        if self._failure is None and self._second is None:
            self._ask(now_ns)

    def answer(self) -> MeterAnswer:
        """Return what was found; a kind of which one zone is not known has no power: half of it would be wrong."""
        if self._failure is not None or self._first is None:
            return MeterAnswer(failure=self._failure)
        powers: dict[DomainKind, list[float | None]] = {}
        beyond: list[str] = []
        for key, reading in self._first.items():
            power = self._power(reading, (self._second or {}).get(key))
            if isinstance(power, str):
                beyond.append(power)
            else:
                powers.setdefault(reading.domain.kind, []).append(power)
        if beyond and not powers:
            return MeterAnswer(failure=Unavailable("nonsense", f"{self.meter.source}: {beyond[0]}"))
        whole = {kind: [p for p in found if p is not None] for kind, found in powers.items() if None not in found}
        return MeterAnswer({kind: sum(found) for kind, found in whole.items()})

    def _power(self, first: Reading, second: Reading | None) -> float | str | None:
        """Return watts; None where they are not known; what is wrong, in words, where no machine can draw that."""
        if first.power_uw is not None:
            return first.power_uw / MICROJOULES_PER_JOULE
        if first.counter_uj is not None and first.range_uj and first.counter_uj > first.range_uj:
            return f"its counter is beyond its own range: {first.counter_uj} of {first.range_uj} µJ"
        if second is None or second.counter_uj is None or first.counter_uj is None:
            return None
        elapsed_ns = second.time_ns - first.time_ns
        if elapsed_ns <= 0:
            return None
        p_max_uw = first.p_max_uw or self.meter.p_max_uw(first.domain)
        is_part = first.domain.kind not in (DomainKind.PLATFORM, DomainKind.OTHER)  # of the rest it is not known here
        grown = unwrap(
            first.counter_uj,
            second.counter_uj,
            modulus=modulus_of(first.range_uj, first.counter_uj),
            elapsed_ns=elapsed_ns,
            p_max_uw=p_max_uw if is_part else None,
        )
        if grown is GapCause.IMPLAUSIBLE:
            watts = (second.counter_uj - first.counter_uj) * 1000 / elapsed_ns
            return f"{watts:.3g} W, and {p_max_uw / MICROJOULES_PER_JOULE:.3g} W is the most that is plausible"
        return None if isinstance(grown, GapCause) else grown * 1000 / elapsed_ns

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
