"""Stall time of the node, from `/proc/pressure`."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.pressure import RESOURCES, parse_pressure

STALLED = MetricSpec(
    "kwhere_node_pressure_seconds_total",
    Kind.COUNTER,
    "Time since boot in which some task, or all tasks (full), waited for a resource.",
    ("resource", "kind"),
)
_MICROSECONDS = 1_000_000


class PressureSettings(CollectorSettings):
    """Nothing to set."""


class PressureCollector:
    """Keeps the pressure files open that this kernel has."""

    def __init__(self, context: CollectorContext, settings: PressureSettings) -> None:
        """Open the files. Raises Unavailable where there is none: old kernels, or `psi=0`."""
        self._files = {}
        refusals = []
        for resource in RESOURCES:
            try:
                file = context.host.keep(f"proc/pressure/{resource}")
                file.read()  # with psi=0 it opens and does not read
            except Unavailable as refusal:
                refusals.append(refusal)
            else:
                self._files[resource] = file
        if not self._files:
            raise refusals[0]

    def collect(self) -> Iterator[Sample]:
        """Yield the stall time of each resource, in seconds. CPU has no `full` for a whole node: it is always 0."""
        for resource, file in self._files.items():
            pressure = parse_pressure(file.read().decode(errors="replace"), f"proc/pressure/{resource}")
            if pressure.some_us is not None:
                yield Sample(STALLED, (resource, "some"), pressure.some_us / _MICROSECONDS)
            if pressure.full_us is not None and resource != "cpu":
                yield Sample(STALLED, (resource, "full"), pressure.full_us / _MICROSECONDS)

    def close(self) -> None:
        """Give back the files."""
        for file in self._files.values():
            file.close()


plugin = CollectorPlugin(
    name="pressure",
    summary="Time in which tasks of the node waited for CPU, memory or I/O.",
    settings_class=PressureSettings,
    specs=(STALLED,),
    build=PressureCollector,
)
