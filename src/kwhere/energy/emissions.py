"""Grams of CO2e from energy: derived over five-minute buckets, never accumulated."""

from collections.abc import Iterable
from dataclasses import dataclass

from kwhere.core.quantities import JOULES_PER_KWH, NANOSECONDS_PER_SECOND, joules
from kwhere.energy.apportion import apportion

BUCKET_NS = 300 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class BucketEnergy:
    """Energy of one bucket with the power usage effectiveness and the factor (g/kWh) in force then."""

    energy_uj: int
    pue: float
    grams_per_kwh: float


def grams(energy_uj: int, pue: float, grams_per_kwh: float) -> float:
    """Return grams of CO2e: energy x PUE x factor / 3.6e6, with energy in joules and the factor in g/kWh."""
    return joules(energy_uj) * pue * grams_per_kwh / JOULES_PER_KWH


def grams_over(buckets: Iterable[BucketEnergy]) -> float:
    """Return the grams of CO2e of all buckets, each with its own PUE and factor."""
    return sum((grams(bucket.energy_uj, bucket.pue, bucket.grams_per_kwh) for bucket in buckets), 0.0)


def spread(amount: int, start_ns: int, end_ns: int, bucket_ns: int = BUCKET_NS) -> list[tuple[int, int]]:
    """Return (bucket start, share) of `amount` over the aligned buckets that [start_ns, end_ns) touches, by time.

    Shares sum to `amount`; ties go to the earlier bucket. Raises ValueError for an empty span.
    """
    if end_ns <= start_ns:
        raise ValueError(f"spread: expected start before end, found {start_ns} and {end_ns}")
    first = start_ns // bucket_ns * bucket_ns
    starts = range(first, end_ns, bucket_ns)
    lengths = [min(end_ns, start + bucket_ns) - max(start_ns, start) for start in starts]
    return list(zip(starts, apportion(amount, lengths), strict=True))
