"""What each container of a pod uses; off by default: it multiplies the series of pods.

Series with a `name` are containers, those without one the rest of the pod: together they are the pod.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, joules
from kwhere.core.unit import UnitKey
from kwhere.discovery import kubernetes
from kwhere.discovery.match import segments_of
from kwhere.discovery.pod_containers import ContainerNames
from kwhere.kernel.cgroups import CgroupLayout, CpuFile, Hierarchy, child_directories, detect_layout, parse_number
from kwhere.kernel.hostfs import HostFS
from kwhere.sampling.pod_books import ContainerReading, PodBook
from kwhere.sampling.totals import TotalsBoard, UnitTotals

_LABELS = ("manager", "unit", "run", "name")
CPU = MetricSpec(
    "kwhere_unit_container_cpu_seconds_total",
    Kind.COUNTER,
    "CPU time of a container of a pod, those of its name before it included; without a name: the rest of the pod.",
    _LABELS,
)
MEMORY = MetricSpec(
    "kwhere_unit_container_memory_used_bytes",
    Kind.GAUGE,
    "Memory charged to a container of a pod; without a name: the rest of the pod.",
    _LABELS,
)
ENERGY = MetricSpec(
    "kwhere_unit_container_energy_joules_total",
    Kind.COUNTER,
    "Energy of a container of a pod by its CPU time; without a name: the rest, idle energy and GPUs included.",
    (*_LABELS, "component", "part"),
)


class PodContainersSettings(CollectorSettings):
    """How many containers are shown."""

    limit: int = Field(
        default=1000, ge=1, description="Containers of this node that are looked at; further ones are rest."
    )


@dataclass(slots=True)
class _Pod:
    book: PodBook = field(default_factory=PodBook)
    created_s: float = 0.0
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """By name; "" is the rest. Empty where the kernel does not say, or the pod has ended."""


class PodContainersCollector:
    """Looks at the directories below each pod's at a scrape; what came between two scrapes is split then."""

    def __init__(self, context: CollectorContext, settings: PodContainersSettings) -> None:
        """Raises Unavailable where this process does not sample, or there are no cgroups."""
        if context.totals is None:
            raise Unavailable("absent", "pod_containers: this process has no sampler")
        self._totals: TotalsBoard = context.totals
        self._host = context.host
        self._layout = detect_layout(context.host)
        self._limit = settings.limit
        self._names = ContainerNames(context.units)
        self._pods: dict[UnitKey, _Pod] = {}

    def collect(self) -> Iterator[Sample]:
        """Yield the containers of every pod. Raises NoData before the first step."""
        totals = self._totals.snapshot()
        if totals is None:
            raise NoData("pod_containers: the first step is still to come")
        pods = [unit for unit in totals.units if unit.key.manager == kubernetes.MANAGER]
        self._pods = {unit.key: self._pods.get(unit.key) or _Pod(created_s=_now(totals.utc_ns)) for unit in pods}
        seen: set[str] = set()
        for unit in pods:
            pod = self._pods[unit.key]
            self._look(unit, pod, seen)
            yield from _samples(unit.key, pod)
        self._names.forget(frozenset(seen))

    def close(self) -> None:
        """Hold nothing."""

    def _look(self, unit: UnitTotals, pod: _Pod, seen: set[str]) -> None:
        containers: dict[str, ContainerReading] = {}
        pod.memory_bytes = {}
        path = unit.tracked.cgroup
        for identifier, inner in self._inside(path) if unit.live and path is not None else ():
            if len(seen) >= self._limit:
                break
            cpu_ns = read_cpu(self._host, self._layout, inner)
            if cpu_ns is None:
                continue
            seen.add(identifier)
            found = self._names.find(identifier)
            name = found.name if found is not None else None
            containers[identifier] = ContainerReading(name, cpu_ns)
            memory = read_memory(self._host, self._layout, inner) if name is not None else None
            if name is not None and memory is not None:
                pod.memory_bytes[name] = pod.memory_bytes.get(name, 0) + memory
        cpu_ns = read_cpu(self._host, self._layout, path) if unit.live and path is not None else None
        pod.book.take(unit.energy_uj, cpu_ns, containers)
        whole = read_memory(self._host, self._layout, path) if unit.live and path is not None else None
        if whole is not None:
            pod.memory_bytes[""] = max(0, whole - sum(pod.memory_bytes.values()))

    def _inside(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield id and path of the containers right below a pod."""
        for hierarchy in self._layout.cpu:
            try:
                names = [name for name, _ in child_directories(self._host, hierarchy, path)]
            except (Unavailable, SourceError):
                continue
            for name in names:
                inner = f"{path}/{name}"
                match = kubernetes.match(segments_of(inner))
                if match is not None and match.container:
                    yield match.container, inner
            return


def read_cpu(host: HostFS, layout: CgroupLayout, path: str) -> int | None:
    """Return a cgroup's CPU time so far in ns; None where it is gone or says nonsense."""
    for hierarchy in layout.cpu:
        try:
            file = CpuFile(host, hierarchy, path)
        except (Unavailable, SourceError):
            continue
        try:
            return file.read().total_ns
        except (Unavailable, SourceError):
            continue
        finally:
            file.close()
    return None


def read_memory(host: HostFS, layout: CgroupLayout, path: str) -> int | None:
    """Return the memory charged to a cgroup in bytes; None where the kernel does not say."""
    places: list[tuple[Hierarchy | None, str]] = [
        (layout.controllers.get("memory"), "memory.usage_in_bytes"),
        (layout.unified, "memory.current"),
    ]
    for hierarchy, name in places:
        if hierarchy is None:
            continue
        try:
            return parse_number(host.read(hierarchy.file(path, name)), name)
        except (Unavailable, SourceError):
            continue
    return None


def _samples(key: UnitKey, pod: _Pod) -> Iterator[Sample]:
    names, book = (key.manager, key.unit, key.run), pod.book
    cpu_ns: Mapping[str, int] = {**book.cpu_ns, "": book.rest_cpu_ns}
    for name, used_ns in cpu_ns.items():
        yield Sample(CPU, (*names, name), used_ns / NANOSECONDS_PER_SECOND, pod.created_s)
    for name, memory_bytes in pod.memory_bytes.items():
        yield Sample(MEMORY, (*names, name), memory_bytes)
    for name, shares in {**book.energy_uj, "": book.rest_uj()}.items():
        for (component, part), energy_uj in shares.items():
            yield Sample(ENERGY, (*names, name, component.value, part.value), joules(energy_uj), pod.created_s)


def _now(utc_ns: int) -> float:
    return utc_ns / NANOSECONDS_PER_SECOND


plugin = CollectorPlugin(
    name="pod_containers",
    summary="CPU, memory and energy of each container of a pod, and of the rest of the pod.",
    settings_class=PodContainersSettings,
    specs=(CPU, MEMORY, ENERGY),
    build=PodContainersCollector,
    enabled_by_default=False,
)
