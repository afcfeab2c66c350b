"""When units ended, as their directories tell it: a container's, a service's or a pod's goes with its last process.

A slot says only in which minute that was. Jobs of SLURM have a note of their own: the epilog still belongs to them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kwhere.core.clock import Clock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.discovery import slurm
from kwhere.discovery.unit_source import TrackedUnit

LABEL = "directory_end"
"""UTC seconds since 1970, the first whole one after it."""


def told_by_directories(ended: Sequence[TrackedUnit], clock: Clock) -> Iterator[TrackedUnit]:
    """Yield the units that ended when their directory was seen to go, labelled with that."""
    for unit in ended:
        if unit.ended_ns is not None and unit.key.manager != slurm.MANAGER:
            ago_ns = max(0, clock.boottime_ns() - unit.ended_ns)
            seconds = -(-(clock.utc_ns() - ago_ns) // NANOSECONDS_PER_SECOND)
            labels = dict(unit.info.labels) | {LABEL: str(seconds)}
            yield replace(unit, info=replace(unit.info, labels=tuple(labels.items())))
