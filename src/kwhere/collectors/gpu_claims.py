"""How each source of "who holds a GPU" does, and the GPUs that guests have whole."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.discovery.gpu_holders import NodeMapping

_ABSENT = "absent"
SOURCE_UP = MetricSpec(
    "kwhere_gpu_claims_source_up",
    Kind.GAUGE,
    "Whether a source tells who holds a GPU; one that is not on this node has no series.",
    ("source", "reason"),
)
HELD = MetricSpec("kwhere_gpu_claims_held", Kind.GAUGE, "Holds of units on GPUs that a source tells of.", ("source",))
HIDDEN = MetricSpec(
    "kwhere_gpu_hidden_info",
    Kind.INFO,
    "A GPU that a guest has whole: this host's driver does not see it, so its power is not known here.",
    ("manager", "unit", "run", "pci"),
)


class GpuClaimsSettings(CollectorSettings):
    """Nothing to set."""


class GpuClaimsCollector:
    """Shows what the mapping last found; a scrape asks nobody."""

    def __init__(self, context: CollectorContext, settings: GpuClaimsSettings) -> None:
        """Raises Unavailable where there is no GPU."""
        if context.gpu_mapping is None:
            raise Unavailable("absent", "gpu_claims: expected a GPU, found none")
        self._mapping: NodeMapping = context.gpu_mapping

    def collect(self) -> Iterator[Sample]:
        """Yield every source that is on this node, then every hidden GPU."""
        for state in self._mapping.holders.states():
            if state.reason == _ABSENT:
                continue
            yield Sample(SOURCE_UP, (state.source.value, state.reason), int(state.up))
            if state.up:
                yield Sample(HELD, (state.source.value,), state.holds)
        for gpu in self._mapping.hidden():
            yield Sample(HIDDEN, (gpu.unit.manager, gpu.unit.unit, gpu.unit.run, gpu.pci), 1)

    def close(self) -> None:
        """Hold nothing."""


plugin = CollectorPlugin(
    name="gpu_claims",
    summary="Sources that tell who holds a GPU, and GPUs that guests have whole.",
    settings_class=GpuClaimsSettings,
    specs=(SOURCE_UP, HELD, HIDDEN),
    build=GpuClaimsCollector,
)
