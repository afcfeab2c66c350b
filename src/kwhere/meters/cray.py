"""Cray's power management counters: node, processors, memory and accelerators, measured by the board at 10 Hz."""

from collections.abc import Mapping, Sequence

from kwhere.core.errors import NoData, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, P_MAX_MULTI_DIE_UW, p_max_gpu_uw
from kwhere.kernel.pm_counters import PM_DIRECTORY, PmCounter, PmFile, PmReader, PmSet, find_energy_files
from kwhere.meters.meter import PLATFORM, Domain, MeterContext, Plugin, Reading
from kwhere.meters.movement import Movement

STALE_AFTER_NS = 10 * NANOSECONDS_PER_SECOND
"""Freshness counts about ten times a second: one that stands still this long is a dead controller."""
LARGEST_ACCELERATOR_UW = 1_000_000_000
_KIND_OF = {"": DomainKind.PLATFORM, "cpu": DomainKind.CPU, "memory": DomainKind.DRAM, "accel": DomainKind.GPU}


class CrayMeter:
    """One coherent set of counters per read. What says 0 has no sensor: it is left out until it counts.

    A reading's time is ours at the moment its device time changed: the controller's clock may be set at any time.
    """

    source = "cray"
    method = Method.COUNTER
    covers = frozenset(Component)
    refresh_seconds = 0.0
    needs_proof = False

    def __init__(self, reader: PmReader, domains: Mapping[str, Domain], context: MeterContext) -> None:
        """`domains` is what each file counts for."""
        self._reader = reader
        self._domain_of = dict(domains)
        self.domains = tuple(sorted(set(domains.values())))
        self._sockets = max(1, len(set(context.socket_of_cpu.values())))
        self._headroom_uw = context.settings.platform_headroom_uw
        self._movement = Movement(STALE_AFTER_NS)
        self._seen: dict[str, tuple[int | None, int]] = {}

    def read(self, now_ns: int) -> list[Reading]:
        """Return every counter. Raises Unavailable (absent, stuck, unsupported), SourceError, NoData."""
        found = self._reader.read()
        self._movement.check(found.freshness, now_ns, f"{PM_DIRECTORY}/freshness")
        readings = [
            Reading(
                domain,
                name,
                self._time_ns(name, found.energy[name], now_ns),
                counter_uj=found.energy[name].micro,
                device_time=True,
                epoch=str(found.startup),
            )
            for name, domain in self._domain_of.items()
            if counts(found, name)
        ]
        if not readings:
            raise Unavailable("unsupported", f"{PM_DIRECTORY}: expected a counter above 0 J, found none")
        return readings

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        if domain.kind is DomainKind.PLATFORM:
            return self._headroom_uw
        if domain.kind is DomainKind.GPU:
            return p_max_gpu_uw(LARGEST_ACCELERATOR_UW)
        one_uw = P_MAX_MULTI_DIE_UW if domain.kind is DomainKind.CPU else P_MAX_DRAM_UW
        return one_uw * (1 if domain.index else self._sockets)

    def close(self) -> None:
        """Give back file descriptors."""
        self._reader.close()

    def _time_ns(self, name: str, found: PmCounter, now_ns: int) -> int:
        seen = self._seen.get(name)
        if seen is None or seen[0] is None or seen[0] != found.device_us:
            seen = self._seen[name] = (found.device_us, now_ns)
        return seen[1]


def counts(found: PmSet, name: str) -> bool:
    """Return whether a file was read and has ever counted: 0 J means that there is no sensor."""
    return name in found.energy and found.energy[name].micro > 0


def place_files(files: Sequence[PmFile], sockets: Sequence[str]) -> dict[str, Domain]:
    """Return the domain of each file that counts for one, each joule once.

    `cpu0_energy`, … are sockets where there is one for each; then `cpu_energy`, their sum, is left out. Else that one
    counts for all sockets. `accel_energy` is the sum of `accel0_energy`, … and used where there are none of these.
    """
    placed: dict[str, Domain] = {}
    for part, kind in _KIND_OF.items():
        mine = [file for file in files if file.part == part]
        numbered = sorted((file for file in mine if file.number), key=lambda file: int(file.number))
        whole = next((file for file in mine if not file.number), None)
        if kind is DomainKind.PLATFORM:
            placed |= {file.name: PLATFORM for file in mine}
        elif kind is DomainKind.GPU and numbered:
            placed |= {file.name: Domain(kind, f"accel{int(file.number)}") for file in numbered}
        elif kind is not DomainKind.GPU and numbered and len(numbered) == len(sockets):
            placed |= {file.name: Domain(kind, socket) for file, socket in zip(numbered, sockets, strict=True)}
        elif whole is not None:
            index = "accel" if kind is DomainKind.GPU else sockets[0] if len(sockets) == 1 else ""
            placed[whole.name] = Domain(kind, index)
    return placed


def build(context: MeterContext) -> CrayMeter:
    """Return the meter of the counters that count. Raises Unavailable: absent, permission, unsupported."""
    sockets = sorted(set(context.socket_of_cpu.values()), key=lambda label: (len(label), label))
    domains = place_files(find_energy_files(context.fs), sockets)
    reader = PmReader(context.fs, tuple(domains))
    try:
        first = reader.read()
    except NoData:
        return CrayMeter(reader, domains, context)
    found = {name: domain for name, domain in domains.items() if counts(first, name)}
    if not found:
        reader.close()
        raise Unavailable("unsupported", f"{PM_DIRECTORY}: expected a counter above 0 J, found none")
    return CrayMeter(reader, found, context)


plugin = Plugin("cray", build)
