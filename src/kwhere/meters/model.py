"""The meter of last resort: sockets and memory by the documented model, as virtual counters."""

from collections.abc import Mapping

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, P_MAX_MULTI_DIE_UW
from kwhere.energy.model import (
    CpuPower,
    cpu_counter_uj,
    cpu_power,
    dram_counter_uj,
    dram_idle_table_uw,
    dram_idle_uw,
    other_idle_uw,
)
from kwhere.meters.meter import Domain, MeterContext, Plugin, Reading


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
        self.memories = memory_by_socket(context)
        cpus = (Domain(DomainKind.CPU, socket) for socket in self.powers)
        drams = (Domain(DomainKind.DRAM, socket) for socket in self.memories)
        self.domains = (*cpus, *drams)

    def read(self, now_ns: int) -> list[Reading]:
        """Return the virtual counters at `now_ns`, nanoseconds since boot."""
        busy_ns = self._busy_by_socket()
        cpus = [
            Reading(
                Domain(DomainKind.CPU, socket),
                f"cpu{socket}",
                now_ns,
                counter_uj=cpu_counter_uj(power, self._cpus(socket), now_ns, busy_ns[socket]),
            )
            for socket, power in self.powers.items()
        ]
        drams = [
            Reading(Domain(DomainKind.DRAM, socket), f"dram{socket}", now_ns, counter_uj=dram_counter_uj(size, now_ns))
            for socket, size in self.memories.items()
        ]
        return cpus + drams

    def idle_uw(self, domain: Domain) -> int:
        """Return the idle power of a modelled domain: the model's own, not learned."""
        if domain.kind is DomainKind.DRAM:
            return dram_idle_uw(self.memories[domain.index])
        return self.powers[domain.index].idle_uw

    def p_max_uw(self, domain: Domain) -> int:
        """Return a bound that the model itself cannot exceed."""
        if domain.kind is DomainKind.DRAM:
            return max(P_MAX_DRAM_UW, 2 * dram_idle_uw(self.memories[domain.index]))
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
    """Return the table's power of each socket, by label."""
    return {socket: cpu_power(context.cpu_model, cpus) for socket, cpus in _cpus_by_socket(context).items()}


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
        powers = cpu_powers(context)
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
