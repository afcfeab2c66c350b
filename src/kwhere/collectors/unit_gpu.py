"""Which unit holds which GPU or instance, how that is known, and what it did there."""

from collections.abc import Callable, Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.sampling.gpu_shown import UnitGpu
from kwhere.sampling.totals import TotalsBoard, UnitTotals

PLACE = ("manager", "unit", "run", "gpu", "uuid", "mig")


def _gauge(name: str, text: str) -> MetricSpec:
    return MetricSpec(f"kwhere_unit_gpu_{name}", Kind.GAUGE, text, PLACE)


def _counter(name: str, text: str) -> MetricSpec:
    return MetricSpec(f"kwhere_unit_gpu_{name}_seconds_total", Kind.COUNTER, text, PLACE)


INFO = MetricSpec("kwhere_unit_gpu_info", Kind.INFO, "Which unit holds a GPU, and how we know.", (*PLACE, "source"))
SHARE = _gauge("share_ratio", "Share of the whole GPU that the unit holds.")
MEMORY = _gauge("memory_used_bytes", "Memory of the GPU that the unit uses.")
MEMORY_PEAK = _gauge("memory_peak_bytes", "Most memory of the GPU that the unit was seen to use.")
BUSY = _counter("busy", "GPU time of the unit: a whole GPU for a second is one second.")
HELD = _counter("held", "Time in which the unit held the GPU.")
HELD_IDLE = _counter("held_idle", "Time in which the unit held the GPU and nothing of it ran there.")

_HOLDING: tuple[tuple[MetricSpec, Callable[[UnitGpu], float | int | None]], ...] = (
    (SHARE, lambda gpu: gpu.share_ratio),
    (MEMORY, lambda gpu: gpu.memory_bytes),
)
_SINCE: tuple[tuple[MetricSpec, Callable[[UnitGpu], int | None]], ...] = (
    (BUSY, lambda gpu: gpu.busy_ns),
    (HELD, lambda gpu: gpu.held_ns),
    (HELD_IDLE, lambda gpu: gpu.held_idle_ns),
)


class UnitGpuSettings(CollectorSettings):
    """Nothing to set."""


class UnitGpuCollector:
    """Shows the sampler's snapshot; a scrape asks no GPU."""

    def __init__(self, context: CollectorContext, settings: UnitGpuSettings) -> None:
        """Raises Unavailable where this process does not sample, or has no GPUs."""
        if context.totals is None:
            raise Unavailable("absent", "unit_gpu: this process has no sampler")
        if not context.gpus:
            raise Unavailable("absent", "unit_gpu: expected a GPU, found none")
        self._totals: TotalsBoard = context.totals

    def collect(self) -> Iterator[Sample]:
        """Yield every unit's GPUs; of one that is not held any more its sums alone. Raises NoData before a step."""
        totals = self._totals.snapshot()
        if totals is None:
            raise NoData("unit_gpu: the first step is still to come")
        created_s = totals.created_utc_ns / NANOSECONDS_PER_SECOND
        for unit in totals.units:
            for gpu in unit.gpus:
                yield from _held(unit, gpu, created_s)

    def close(self) -> None:
        """Hold nothing."""


def _held(unit: UnitTotals, gpu: UnitGpu, created_s: float) -> Iterator[Sample]:
    key = unit.key
    place = (key.manager, key.unit, key.run, str(gpu.index), gpu.device, gpu.instance)
    if unit.live and gpu.share_ratio:
        yield Sample(INFO, (*place, gpu.source.value), 1)
        for spec, value_of in _HOLDING:
            value = value_of(gpu)
            if value is not None:
                yield Sample(spec, place, value)
    if gpu.memory_peak_bytes is not None:
        yield Sample(MEMORY_PEAK, place, gpu.memory_peak_bytes)
    for spec, time_of in _SINCE:
        time_ns = time_of(gpu)
        if time_ns is not None:
            yield Sample(spec, place, time_ns / NANOSECONDS_PER_SECOND, created_s)


plugin = CollectorPlugin(
    name="unit_gpu",
    summary="GPUs that units hold, and what they did there.",
    settings_class=UnitGpuSettings,
    specs=(INFO, SHARE, MEMORY, MEMORY_PEAK, BUSY, HELD, HELD_IDLE),
    build=UnitGpuCollector,
)
