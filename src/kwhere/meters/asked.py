"""A meter whose reads may block, asked by a thread of its own."""

from collections.abc import Callable, Sequence

from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.meter import Domain, Meter, Reading


class AskedMeter(BackgroundMeter):
    """What `meter` says, read by a thread of its own; the step takes the last answer from memory."""

    def __init__(self, meter: Meter, give_up_seconds: float, clock_ns: Callable[[], int]) -> None:
        """`meter` is read by one thread alone, with `now_ns` 0: it must not use the time; readings get the answer's."""
        facts = SlowFacts(
            source=meter.source,
            domains=meter.domains,
            covers=meter.covers,
            refresh_seconds=meter.refresh_seconds,
            give_up_seconds=give_up_seconds,
            p_max_uw=0,
            method=meter.method,
            needs_proof=meter.needs_proof,
        )
        super().__init__(facts, _Asker(meter), clock_ns)
        self._meter = meter

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        return self._meter.p_max_uw(domain)


class _Asker(BlockingSource):
    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def ask(self) -> Sequence[Reading]:
        """Return what the meter says. Raises as its `read` does."""
        return self._meter.read(0)

    def close(self) -> None:
        """Close the meter."""
        self._meter.close()
