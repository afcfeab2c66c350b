"""Load averages of the node, from `/proc/loadavg`."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.loadavg import parse_loadavg

LOAD1 = MetricSpec("kwhere_node_load1", Kind.GAUGE, "Tasks that run or wait, mean over one minute.")
LOAD5 = MetricSpec("kwhere_node_load5", Kind.GAUGE, "Tasks that run or wait, mean over five minutes.")
LOAD15 = MetricSpec("kwhere_node_load15", Kind.GAUGE, "Tasks that run or wait, mean over fifteen minutes.")


class LoadSettings(CollectorSettings):
    """Nothing to set."""


class LoadCollector:
    """Keeps `/proc/loadavg` open."""

    def __init__(self, context: CollectorContext, settings: LoadSettings) -> None:
        """Open the file. Raises Unavailable."""
        self._file = context.host.keep("proc/loadavg")

    def collect(self) -> Iterator[Sample]:
        """Yield the three load averages."""
        load = parse_loadavg(self._file.read().decode(errors="replace"))
        yield Sample(LOAD1, (), load.load1_hundredths / 100)
        yield Sample(LOAD5, (), load.load5_hundredths / 100)
        yield Sample(LOAD15, (), load.load15_hundredths / 100)

    def close(self) -> None:
        """Give back the file."""
        self._file.close()


plugin = CollectorPlugin(
    name="load",
    summary="Load averages of the node.",
    settings_class=LoadSettings,
    specs=(LOAD1, LOAD5, LOAD15),
    build=LoadCollector,
)
