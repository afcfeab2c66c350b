"""The seam between a source of energy readings and everything that uses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kwhere.core.terms import Component, DomainKind, Method


@dataclass(frozen=True, slots=True, order=True)
class Domain:
    """What is measured: `cpu[socket]`, `dram[socket]`, `gpu[device]`, `platform` (index "")."""

    kind: DomainKind
    index: str = ""

    def __str__(self) -> str:
        return f"{self.kind}[{self.index}]" if self.index else str(self.kind)


@dataclass(frozen=True, slots=True)
class Reading:
    """One zone as it stands. Exactly one of `counter_uj` and `power_uw` is given.

    Several zones may belong to one domain (dies of a socket): each is unwrapped alone, then they are summed.
    """

    domain: Domain
    zone: str
    """Stable name of the zone within its source, e.g. `intel-rapl:0`."""
    time_ns: int
    """Device time where the source has one, else the `now_ns` of the read."""
    counter_uj: int | None = None
    power_uw: int | None = None
    range_uj: int | None = None
    """Modulus of the counter: `max_energy_range_uj` + one hardware unit; None: never wraps, a decrease is a reset."""
    p_max_uw: int | None = None
    """Largest plausible power of this zone; None: the domain's default."""
    device_time: bool = False
    """Whether `time_ns` is the device's own: then only a newer one is fresh."""


class Meter(Protocol):
    """One energy source. Built by its module's `plugin`, which raises Unavailable where there is nothing to read."""

    source: str
    """The label value: powercap, hwmon, model, …"""
    method: Method
    domains: tuple[Domain, ...]
    covers: frozenset[Component]
    """Components that lie inside a platform domain of this meter; empty for others."""
    refresh_seconds: float
    """How often the source has a new value; 0 = at every read. Hold time of power readings is three of these."""

    def read(self, now_ns: int) -> Sequence[Reading]:
        """Return what every readable zone says now. Raises Unavailable or SourceError; one bad zone is left out."""
        ...

    def close(self) -> None:
        """Give back file descriptors."""
        ...
