"""What each unit uses: CPU, memory, pressure, I/O, processes; as the kernel has it, inner units included."""

from collections.abc import Callable, Iterator, Mapping

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.discovery.unit_source import UnitDetail
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.memory import parse_meminfo
from kwhere.sampling.totals import TotalsBoard, UnitTotals

UNIT = ("manager", "unit", "run")
INFO_LABELS = ("kube_namespace", "kube_pod", "kube_owner", "runtime", "qos", "node_name")
"""Facts of `UnitInfo.labels` that have a label of their own; one that a unit lacks is left out."""

_MICROSECONDS = 1_000_000
_MILLI = 1000
_HERTZ_PER_KHZ = 1000


def _gauge(name: str, text: str) -> MetricSpec:
    return MetricSpec(name, Kind.GAUGE, text, UNIT)


def _counter(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, Kind.COUNTER, text, (*UNIT, *labels))


UNITS = MetricSpec("kwhere_units", Kind.GAUGE, "Units that live on this node.", ("manager",))
INFO = MetricSpec(
    "kwhere_unit_info", Kind.INFO, "What a person calls the unit.", (*UNIT, "name", "user", "project", *INFO_LABELS)
)
CPU = _counter("kwhere_unit_cpu_seconds_total", "CPU time of the unit, its inner units included.", "mode")
CPUS = _gauge("kwhere_unit_cpus", "CPUs allocated to the unit.")
HERTZ = _gauge("kwhere_unit_cpu_frequency_hertz", "Mean frequency of the CPUs that the unit may run on.")
PRESSURE = _counter(
    "kwhere_unit_pressure_seconds_total", "Time in which some or all tasks of the unit stalled.", "resource", "kind"
)

_Value = Callable[[UnitDetail], float | int | None]


def _per(value: int | None, divisor: int) -> float | None:
    return None if value is None else value / divisor


SWAP_LIMIT = _gauge(
    "kwhere_unit_memory_swap_limit_bytes", "Most swap that the unit may use; without a limit, all that the node has."
)
DETAILS: tuple[tuple[MetricSpec, _Value], ...] = (
    (
        _counter("kwhere_unit_cpu_throttled_seconds_total", "Time in which the unit's CPU limit held it back."),
        lambda d: _per(d.throttled_ns, NANOSECONDS_PER_SECOND),
    ),
    (_gauge("kwhere_unit_memory_used_bytes", "Memory charged to the unit."), lambda d: d.memory_current_bytes),
    (_gauge("kwhere_unit_memory_anon_bytes", "Anonymous memory of the unit."), lambda d: d.memory_anon_bytes),
    (_gauge("kwhere_unit_memory_file_bytes", "Page cache charged to the unit."), lambda d: d.memory_file_bytes),
    (_gauge("kwhere_unit_memory_shmem_bytes", "Shared memory charged to the unit."), lambda d: d.memory_shmem_bytes),
    (_gauge("kwhere_unit_memory_swap_bytes", "Swap charged to the unit."), lambda d: d.memory_swap_bytes),
    (_gauge("kwhere_unit_memory_peak_bytes", "Most memory ever charged to the unit."), lambda d: d.memory_peak_bytes),
    (_gauge("kwhere_unit_memory_limit_bytes", "Memory limit of the unit."), lambda d: d.memory_limit_bytes),
    (_counter("kwhere_unit_memory_oom_kills_total", "Processes killed for want of memory."), lambda d: d.oom_kills),
    (_counter("kwhere_unit_io_read_bytes_total", "Bytes read from block devices."), lambda d: d.io_read_bytes),
    (_counter("kwhere_unit_io_write_bytes_total", "Bytes written to block devices."), lambda d: d.io_write_bytes),
    (
        _counter("kwhere_unit_io_read_operations_total", "Read operations on block devices."),
        lambda d: d.io_read_operations,
    ),
    (
        _counter("kwhere_unit_io_write_operations_total", "Write operations on block devices."),
        lambda d: d.io_write_operations,
    ),
    (_gauge("kwhere_unit_processes", "Processes of the unit."), lambda d: d.processes),
    (_gauge("kwhere_unit_threads", "Threads of the unit."), lambda d: d.threads),
)


class UnitsSettings(CollectorSettings):
    """How much of each unit is shown."""

    ended: bool = Field(default=True, description="Whether units that ended a moment ago are still shown.")


class UnitsCollector:
    """Shows the sampler's snapshot; a scrape reads no file."""

    def __init__(self, context: CollectorContext, settings: UnitsSettings) -> None:
        """Raises Unavailable where this process does not sample."""
        if context.totals is None:
            raise Unavailable("absent", "units: this process has no sampler")
        self._totals: TotalsBoard = context.totals
        self._settings = settings
        self._frequency = context.frequency
        self._swap_bytes = _node_swap_bytes(context.host)

    def collect(self) -> Iterator[Sample]:
        """Yield every unit. Raises NoData before the first step."""
        totals = self._totals.snapshot()
        if totals is None:
            raise NoData("units: the first step is still to come")
        khz = self._khz()
        live: dict[str, int] = {}
        for unit in totals.units:
            if unit.live:
                live[unit.key.manager] = live.get(unit.key.manager, 0) + 1
            elif not self._settings.ended:
                continue
            yield from unit_samples(unit)
            limit = None if unit.detail is None else unit.detail.memory_swap_limit_bytes
            if limit is not None and self._swap_bytes is not None:
                names = (unit.key.manager, unit.key.unit, unit.key.run)
                yield Sample(SWAP_LIMIT, names, min(limit, self._swap_bytes))
            if unit.live:
                yield from _frequency_samples(unit, khz)
        for manager, count in sorted(live.items()):
            yield Sample(UNITS, (manager,), count)

    def close(self) -> None:
        """Hold nothing."""

    def _khz(self) -> Mapping[int, int]:
        """Return the newest frequencies by CPU; empty where none is known yet."""
        if self._frequency is None:
            return {}
        latest = self._frequency.latest()
        return {cpu: found.current_khz for cpu, found in latest.items() if found.current_khz is not None}


def _node_swap_bytes(host: HostFS) -> int | None:
    try:
        return parse_meminfo(host.read_text("proc/meminfo")).swap_total_bytes
    except (Unavailable, SourceError):
        return None


def unit_samples(unit: UnitTotals) -> Iterator[Sample]:
    """Yield what one unit shows; what the kernel does not say is absent."""
    key = unit.key
    names = (key.manager, key.unit, key.run)
    info = unit.tracked.info
    facts = dict(info.labels) | ({"node_name": info.node_name} if info.node_name else {})
    called = (info.name or "", info.user or "", info.project or "")
    yield Sample(INFO, (*names, *called, *(facts.get(label, "") for label in INFO_LABELS)), 1)
    for mode, cpu_ns in (("user", unit.cpu_user_ns), ("system", unit.cpu_system_ns)):
        if cpu_ns is not None:
            yield Sample(CPU, (*names, mode), cpu_ns / NANOSECONDS_PER_SECOND)
    if unit.tracked.allocation.milli_cpus is not None:
        yield Sample(CPUS, names, unit.tracked.allocation.milli_cpus / _MILLI)
    if unit.detail is not None:
        yield from _detail_samples(names, unit.detail)


def _detail_samples(names: tuple[str, str, str], detail: UnitDetail) -> Iterator[Sample]:
    for spec, value_of in DETAILS:
        value = value_of(detail)
        if value is not None:
            yield Sample(spec, names, value)
    for (resource, kind), stalled_us in detail.pressure_us.items():
        yield Sample(PRESSURE, (*names, resource, kind), stalled_us / _MICROSECONDS)


def _frequency_samples(unit: UnitTotals, khz: Mapping[int, int]) -> Iterator[Sample]:
    cpuset = unit.tracked.allocation.cpuset
    mine = [value for cpu, value in khz.items() if cpuset is None or cpu in cpuset]
    if mine:
        key = unit.key
        yield Sample(HERTZ, (key.manager, key.unit, key.run), sum(mine) * _HERTZ_PER_KHZ / len(mine))


plugin = CollectorPlugin(
    name="units",
    summary="CPU, memory, pressure, I/O and processes of every unit.",
    settings_class=UnitsSettings,
    specs=(UNITS, INFO, CPU, CPUS, HERTZ, PRESSURE, SWAP_LIMIT, *(spec for spec, _ in DETAILS)),
    build=UnitsCollector,
)
