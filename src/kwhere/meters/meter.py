"""The seam between a source of energy readings and everything that uses them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kwhere.core.terms import Component, DomainKind, Method
from kwhere.devices.gpu import GpuSource
from kwhere.energy.calibration import Calibration
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import CpuModel
from kwhere.meters.settings import MeterSettings


@dataclass(frozen=True, slots=True, order=True)
class Domain:
    """What is measured: `cpu[socket]`, `dram[socket]`, `gpu[device]`, `platform` and `other` (index "")."""

    kind: DomainKind
    index: str = ""

    def __str__(self) -> str:
        return f"{self.kind}[{self.index}]" if self.index else str(self.kind)


PLATFORM = Domain(DomainKind.PLATFORM)


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
    """`max_energy_range_uj` as the kernel says it; None: the counter never wraps, a decrease is a reset."""
    p_max_uw: int | None = None
    """Largest plausible power of this zone; None: the domain's (`Meter.p_max_uw`)."""
    device_time: bool = False
    """Whether `time_ns` is the device's own: then only a newer one is fresh."""
    method: Method | None = None
    """How this domain's energy is known, where not as the meter's other domains': an old GPU beside new ones."""
    idle_uj: int | None = None
    """The idle part of `counter_uj`, as cumulative, where the source has split already: no baseline is learned."""
    epoch: str | None = None
    """Readings of different epochs are of different counters: a new one is a baseline, and a counted gap."""


class Meter(Protocol):
    """One energy source. Built by its module's `plugin`, which raises Unavailable where there is nothing to read."""

    source: str
    """The label value: powercap, psys, hwmon_energy, hwmon_power, model, …"""
    method: Method
    covers: frozenset[Component]
    """Components that lie inside a platform domain of this meter; empty for others."""
    refresh_seconds: float
    """How often the source has a new value; 0 = at every read. Hold time of power readings is three of these."""
    needs_proof: bool
    """Whether its platform is believed only once a first span shows at least the sum of the packages (psys)."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Return what it measures, as far as is known: a GPU may come later."""
        ...

    def read(self, now_ns: int) -> Sequence[Reading]:
        """Return what every readable zone says now; never blocks (see `background.py` for sources that may).

        Raises NoData while nothing is known yet, Unavailable or SourceError; one bad zone is left out.
        """
        ...

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain, microwatts; for `platform` what lies beside components."""
        ...

    def close(self) -> None:
        """Give back file descriptors."""
        ...


@dataclass(frozen=True, slots=True)
class MeterContext:
    """What a meter may be built from."""

    fs: HostFS
    socket_of_cpu: Mapping[int, str]
    """Online CPUs and the label of the socket each sits on."""
    cpu_vendor: str | None
    cpu_model: str | None
    memory_bytes: int | None
    busy_ns: Callable[[], Mapping[int, int]]
    """Cumulative busy nanoseconds by CPU, as the step under way has already read them."""
    settings: MeterSettings = field(default_factory=MeterSettings)
    node: str = ""
    """Name of this node, for addresses that hold it."""
    clock_ns: Callable[[], int] = time.monotonic_ns
    """The monotonic clock of the steps, for sources that are asked beside them."""
    gpus: Sequence[GpuSource] = ()
    """GPUs of each vendor that this node has; they are read beside the steps."""
    cpu: CpuModel = field(default_factory=CpuModel)
    """All that `/proc/cpuinfo` says of the first processor, for the model."""
    calibration: Calibration | None = None
    """What `kwhere calibrate` found on this machine, where it fits it."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a meter's module ends with. `build` raises Unavailable where there is nothing to read, and says why."""

    source: str
    build: Callable[[MeterContext], Meter]
