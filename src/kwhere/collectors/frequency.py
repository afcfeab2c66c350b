"""CPU frequencies and governors of the node, per socket."""

from collections.abc import Iterator, Mapping

from pydantic import Field

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.frequency import SHORTEST_INTERVAL_SECONDS, CpuFrequency, FrequencyMonitor
from kwhere.kernel.topology import CpuTopology, online_cpus, read_topology

HERTZ = MetricSpec(
    "kwhere_node_cpu_frequency_hertz",
    Kind.GAUGE,
    "Frequency of the CPUs of a socket at the last look: the slowest, the mean, the fastest.",
    ("socket", "stat"),
)
GOVERNOR = MetricSpec(
    "kwhere_node_cpu_governor_info",
    Kind.INFO,
    "Governors that choose the frequency on a socket.",
    ("socket", "governor"),
)
CORE_HERTZ = MetricSpec(
    "kwhere_node_core_frequency_hertz", Kind.GAUGE, "Frequency of one CPU at the last look.", ("cpu",)
)

_HERTZ_PER_KHZ = 1000


class FrequencySettings(CollectorSettings):
    """How often frequencies are read, and how finely they are shown."""

    interval_seconds: float = Field(
        default=SHORTEST_INTERVAL_SECONDS,
        ge=SHORTEST_INTERVAL_SECONDS,
        description="Seconds between two looks; longer where a look takes more than a twentieth of it.",
    )
    per_cpu: bool = Field(default=False, description="Whether each CPU has a series of its own as well.")


class FrequencyCollector:
    """Shows what a thread of its own read last."""

    def __init__(self, context: CollectorContext, settings: FrequencySettings) -> None:
        """Make ready; the thread starts with the first question."""
        self._host = context.host
        self._settings = settings
        self._topology: CpuTopology | None = None
        self._shared = context.frequency
        self._monitor = context.frequency or FrequencyMonitor(context.host, settings.interval_seconds)

    def collect(self) -> Iterator[Sample]:
        """Yield frequencies in hertz by socket, and the governors. Raises Unavailable where no CPU tells."""
        frequencies = self._monitor.latest()
        if not frequencies:
            if self._monitor.has_looked:
                raise Unavailable("absent", f"{self._host.path('sys/devices/system/cpu')}: no CPU tells its frequency")
            raise NoData("the first look at the CPU frequencies has not ended")
        topology = self._current_topology()
        for socket in topology.sockets:
            yield from _socket_samples(socket, topology, frequencies)
        if self._settings.per_cpu:
            for cpu in topology.online:
                khz = frequencies.get(cpu, CpuFrequency()).current_khz
                if khz is not None:
                    yield Sample(CORE_HERTZ, (str(cpu),), khz * _HERTZ_PER_KHZ)

    def _current_topology(self) -> CpuTopology:
        """Return the topology, read anew only when CPUs came or went: it takes two files per CPU."""
        if self._topology is None or self._topology.online != online_cpus(self._host):
            self._topology = read_topology(self._host)
        return self._topology

    def close(self) -> None:
        """End the thread, unless it is another's."""
        if self._shared is None:
            self._monitor.close()


def _socket_samples(socket: str, topology: CpuTopology, frequencies: Mapping[int, CpuFrequency]) -> Iterator[Sample]:
    mine = [frequencies[cpu] for cpu in topology.cpus_of(socket) if cpu in frequencies]
    khz = [frequency.current_khz for frequency in mine if frequency.current_khz is not None]
    if khz:
        yield Sample(HERTZ, (socket, "min"), min(khz) * _HERTZ_PER_KHZ)
        yield Sample(HERTZ, (socket, "mean"), sum(khz) * _HERTZ_PER_KHZ / len(khz))
        yield Sample(HERTZ, (socket, "max"), max(khz) * _HERTZ_PER_KHZ)
    for governor in sorted({frequency.governor for frequency in mine if frequency.governor}):
        yield Sample(GOVERNOR, (socket, governor), 1)


plugin = CollectorPlugin(
    name="frequency",
    summary="CPU frequencies and governors by socket.",
    settings_class=FrequencySettings,
    specs=(HERTZ, GOVERNOR, CORE_HERTZ),
    build=FrequencyCollector,
)
