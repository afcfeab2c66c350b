"""CPU time of the whole node by mode, from `/proc/stat`."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import USER_HZ_NANOSECONDS, seconds
from kwhere.kernel.stat import CpuTimes, StatFile

CPU_SECONDS = MetricSpec(
    "kwhere_node_cpu_seconds_total",
    Kind.COUNTER,
    "CPU time of the node since boot by mode, over all CPUs; user includes guests, the sum over modes is all CPU time.",
    ("mode",),
)
CPUS = MetricSpec("kwhere_node_cpus", Kind.GAUGE, "CPUs that are online.")
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

_RESET_TICKS_PER_CPU = 100


class CpuSettings(CollectorSettings):
    """Nothing to set."""


class CpuCollector:
    """Keeps `/proc/stat` open and the largest value shown of each mode."""

    def __init__(self, context: CollectorContext, settings: CpuSettings) -> None:
        """Open the file. Raises Unavailable."""
        self._file = StatFile(context.host)
        self._shown: dict[str, int] = dict.fromkeys(MODES, 0)

    def collect(self) -> Iterator[Sample]:
        """Yield CPU seconds by mode and the number of online CPUs."""
        stat = self._file.read()
        for mode in MODES:
            ticks = self._level(mode, stat.total, len(stat.cpus))
            yield Sample(CPU_SECONDS, (mode,), seconds(ticks * USER_HZ_NANOSECONDS))
        yield Sample(CPUS, (), len(stat.cpus))

    def _level(self, mode: str, total: CpuTimes, cpus: int) -> int:
        """Return the ticks to show: iowait and idle go back a little now and then, which would read as a reset."""
        now: int = getattr(total, mode)
        shown = self._shown[mode]
        if shown - now > _RESET_TICKS_PER_CPU * max(1, cpus):  # CPUs went offline and took their time along
            shown = 0
        self._shown[mode] = max(shown, now)
        return self._shown[mode]

    def close(self) -> None:
        """Give back the file."""
        self._file.close()


plugin = CollectorPlugin(
    name="cpu",
    summary="CPU time of the node by mode, and online CPUs.",
    settings_class=CpuSettings,
    specs=(CPU_SECONDS, CPUS),
    build=CpuCollector,
)
