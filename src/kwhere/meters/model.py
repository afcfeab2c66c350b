"""The meter of last resort: sockets and memory by the documented model, as virtual counters."""

from collections.abc import Mapping
from dataclasses import replace

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.calibration import Calibration, Scope
from kwhere.energy.cpu_table import CpuFacts
from kwhere.energy.limits import P_MAX_DRAM_UW, P_MAX_MULTI_DIE_UW
from kwhere.energy.model import (
    CpuPower,
    Memory,
    cpu_counter_uj,
    dram_counter_uj,
    dram_idle_table_uw,
    dram_idle_uw,
    other_idle_uw,
)
from kwhere.meters.cpu_table import shipped_cpus
from kwhere.meters.meter import Domain, MeterContext, Plugin, Reading

HAND_UNCERTAINTY_RATIO = 0.2
"""Of figures that a site sets; our estimate."""
LEAST_CPU_RATIO = 0.1
"""What is left to the CPUs at least, of a node's idle power, once its memory is taken off by size."""
_WATT = 1_000_000


class ModelMeter:
    """Virtual counters, linear in uptime and busy time: when they are read makes no difference."""

    source = "model"
    method = Method.MODELLED
    covers: frozenset[Component] = frozenset()
    refresh_seconds = 0.0
    needs_proof = False

    def __init__(self, context: MeterContext) -> None:
        self._busy_ns = context.busy_ns
        self._socket_of_cpu = dict(context.socket_of_cpu)
        self._highest_busy_ns: dict[int, int] = {}
        self.powers = cpu_powers(context)
        self.memories_uw = memory_powers_uw(context)
        self.calibration = context.calibration
        cpus = (Domain(DomainKind.CPU, socket) for socket in self.powers)
        drams = (Domain(DomainKind.DRAM, socket) for socket in self.memories_uw)
        self.domains = (*cpus, *drams)

    def read(self, now_ns: int) -> list[Reading]:
        """Return the virtual counters at `now_ns`, nanoseconds since boot.

        Their epoch is their coefficients: after another table or calibration they are other counters.
        """
        busy_ns = self._busy_by_socket()
        cpus = [
            Reading(
                Domain(DomainKind.CPU, socket),
                f"cpu{socket}",
                now_ns,
                counter_uj=cpu_counter_uj(power, self._cpus(socket), now_ns, busy_ns[socket]),
                epoch=f"{power.idle_uw} {power.max_uw} {self._cpus(socket)}",
            )
            for socket, power in self.powers.items()
        ]
        drams = [
            Reading(
                Domain(DomainKind.DRAM, socket),
                f"dram{socket}",
                now_ns,
                counter_uj=dram_counter_uj(power_uw, now_ns),
                epoch=str(power_uw),
            )
            for socket, power_uw in self.memories_uw.items()
        ]
        return cpus + drams

    @property
    def basis(self) -> str:
        """Return a sentence: by which figures, and how far they may be off."""
        socket, power = next(iter(self.powers.items()))
        idle = sum(power.idle_uw for power in self.powers.values()) / _WATT
        full = sum(power.max_uw for power in self.powers.values()) / _WATT
        cpus = self._cpus(socket)
        is_part = power.chip_threads is not None and cpus < power.chip_threads
        share = f" ({cpus} of {power.chip_threads} threads)" if is_part else ""
        off = round(100 * power.uncertainty_ratio)
        return f"By {power.family}{share}: cpu {idle:.3g} W idle, {full:.3g} W at full load, ± {off} %."

    def idle_uw(self, domain: Domain) -> int:
        """Return the idle power of a modelled domain: the model's own, not learned."""
        if domain.kind is DomainKind.DRAM:
            return self.memories_uw[domain.index]
        return self.powers[domain.index].idle_uw

    def p_max_uw(self, domain: Domain) -> int:
        """Return a bound that the model itself cannot exceed."""
        if domain.kind is DomainKind.DRAM:
            return max(P_MAX_DRAM_UW, 2 * self.memories_uw[domain.index])
        return max(P_MAX_MULTI_DIE_UW, 2 * self.powers[domain.index].max_uw)

    def close(self) -> None:
        """Hold nothing."""

    def _cpus(self, socket: str) -> int:
        return sum(1 for label in self._socket_of_cpu.values() if label == socket)

    def _busy_by_socket(self) -> dict[str, int]:
        """Return busy time by socket; a CPU that goes offline, or counts backwards, keeps what it had."""
        sums = dict.fromkeys(self.powers, 0)
        highest = self._highest_busy_ns
        for cpu, busy_ns in self._busy_ns().items():
            highest[cpu] = max(busy_ns, highest.get(cpu, 0))
        for cpu, busy_ns in highest.items():
            socket = self._socket_of_cpu.get(cpu)
            if socket is not None:
                sums[socket] += busy_ns
        return sums


def cpu_powers(context: MeterContext) -> dict[str, CpuPower]:
    """Return the power of each socket by label: set by hand, else calibrated, else the table's."""
    powers = table_powers(context)
    if context.calibration is not None:
        powers = _calibrated(context, context.calibration, powers)
    return _by_hand(context, powers)


def table_powers(context: MeterContext) -> dict[str, CpuPower]:
    """Return the table's power of each socket, by label."""
    names = (context.cpu_model or context.cpu.name, context.cpu.board)
    facts = CpuFacts(" ".join(name for name in names if name), context.cpu.code, is_guest=context.cpu.is_guest)
    table = shipped_cpus()
    return {socket: table.find(replace(facts, cpus=cpus)) for socket, cpus in _cpus_by_socket(context).items()}


def memory_powers_uw(context: MeterContext) -> dict[str, int]:
    """Return the power of the memory at each socket; empty where it is not known or lies in the processor's figure."""
    sizes = memory_by_socket(context)
    kinds = {power.memory for power in table_powers(context).values()}
    found = context.calibration
    if found is not None and found.dram_idle_watts:
        whole = sum(sizes.values()) or 1
        return {socket: round(found.dram_idle_watts * _WATT * size / whole) for socket, size in sizes.items()}
    if Memory.INSIDE in kinds:
        return {}
    kind = next(iter(kinds), None)
    return {socket: dram_idle_uw(size, kind) for socket, size in sizes.items()}


def _calibrated(context: MeterContext, found: Calibration, powers: Mapping[str, CpuPower]) -> dict[str, CpuPower]:
    """Return what was fitted, by CPUs; of a whole node's idle power its memory, by size, is taken off first."""
    counts = _cpus_by_socket(context)
    idle_uw = found.idle_watts * _WATT
    if found.scope is Scope.NODE:
        idle_uw = max(LEAST_CPU_RATIO * idle_uw, idle_uw - sum(memory_powers_uw(context).values()))
    return {
        socket: replace(
            power,
            idle_uw=max(1, round(idle_uw * counts[socket] / found.cpus)),
            max_uw=max(2, round(idle_uw * counts[socket] / found.cpus + found.watts_per_cpu * counts[socket] * _WATT)),
            uncertainty_ratio=found.uncertainty_ratio,
            family=f"figures calibrated against {found.source} on {found.measured_utc[:10]}",
            chip_threads=None,
        )
        for socket, power in powers.items()
    }


def _by_hand(context: MeterContext, powers: Mapping[str, CpuPower]) -> dict[str, CpuPower]:
    """Return the powers with what the settings say of idle power and slope."""
    settings = context.settings.model
    if settings.idle_watts is None and settings.watts_per_busy_cpu is None:
        return dict(powers)
    counts = _cpus_by_socket(context)
    whole = sum(counts.values())
    found = {}
    for socket, power in powers.items():
        slope_uw = power.max_uw - power.idle_uw
        if settings.watts_per_busy_cpu is not None:
            slope_uw = round(settings.watts_per_busy_cpu * counts[socket] * _WATT)
        idle_uw = power.idle_uw
        if settings.idle_watts is not None:
            idle_uw = max(1, round(settings.idle_watts * counts[socket] / whole * _WATT))
        found[socket] = replace(
            power,
            idle_uw=idle_uw,
            max_uw=idle_uw + slope_uw,
            uncertainty_ratio=HAND_UNCERTAINTY_RATIO,
            family="figures of meters.model",
            chip_threads=None,
        )
    return found


def memory_by_socket(context: MeterContext) -> dict[str, int]:
    """Return bytes of memory taken to sit at each socket: equal parts of MemTotal; empty where that is not known."""
    sockets = list(_cpus_by_socket(context))
    if context.memory_bytes is None or not sockets:
        return {}
    share, rest = divmod(context.memory_bytes, len(sockets))
    return {socket: share + (1 if position < rest else 0) for position, socket in enumerate(sockets)}


def idle_table_uw(context: MeterContext, domain: Domain) -> int:
    """Return what a measured domain is taken to draw idle until it has learned: the model's figure for that part."""
    if domain.kind is DomainKind.CPU:
        of_cpus = context.calibration is not None and context.calibration.scope is Scope.CPU
        powers = cpu_powers(context) if of_cpus else table_powers(context)
        known = powers.get(domain.index)
        if not domain.index:  # a meter of all sockets at once
            return sum(power.idle_uw for power in powers.values()) or 1
        return known.idle_uw if known else max((power.idle_uw for power in powers.values()), default=1)
    if domain.kind is DomainKind.DRAM:
        memories = memory_by_socket(context)
        return dram_idle_table_uw(memories.get(domain.index, context.memory_bytes or 0)) or 1
    return other_idle_uw(max(1, len(_cpus_by_socket(context))))


def _cpus_by_socket(context: MeterContext) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for socket in context.socket_of_cpu.values():
        counts[socket] = counts.get(socket, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (len(item[0]), item[0])))


def build(context: MeterContext) -> ModelMeter:
    """Return the model of this host. Raises Unavailable where not even its CPUs are known."""
    if not context.socket_of_cpu:
        raise Unavailable("absent", "model: expected at least one online CPU, found none")
    return ModelMeter(context)


plugin = Plugin("model", build)
