"""How the sampler itself is doing."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, seconds
from kwhere.sampling.totals import TotalsBoard

LATE = MetricSpec("kwhere_sampler_late_total", Kind.COUNTER, "Steps that began late.")
MISSED = MetricSpec(
    "kwhere_sampler_missed_total", Kind.COUNTER, "Steps that were left out; the next one made up for it."
)
FAILED = MetricSpec("kwhere_sampler_failed_total", Kind.COUNTER, "Steps that ended in a fault.")
STEPS = MetricSpec("kwhere_sampler_steps_total", Kind.COUNTER, "Steps done.")
STEP = MetricSpec("kwhere_sampler_step_seconds", Kind.GAUGE, "How long the last step took.")
INTERVAL = MetricSpec("kwhere_sampler_interval_seconds", Kind.GAUGE, "Time between two steps, as it is now.")
SLOWED = MetricSpec("kwhere_sampler_slowed", Kind.GAUGE, "Whether the sampler slowed down to keep its CPU budget.")
READ_ERRORS = MetricSpec("kwhere_sampler_read_errors_total", Kind.COUNTER, "Readings of the kernel that failed.")
UNBALANCED = MetricSpec("kwhere_sampler_unbalanced_slots_total", Kind.COUNTER, "Slots that did not balance.")


class SamplerSettings(CollectorSettings):
    """Nothing to set."""


class SamplerCollector:
    """Shows the counts of the sampler's snapshot."""

    def __init__(self, context: CollectorContext, settings: SamplerSettings) -> None:
        """Raises Unavailable where this process does not sample."""
        if context.totals is None:
            raise Unavailable("absent", "sampler: this process has no sampler")
        self._totals: TotalsBoard = context.totals

    def collect(self) -> Iterator[Sample]:
        """Yield counts since the process began. Raises NoData before the first step."""
        totals = self._totals.snapshot()
        if totals is None:
            raise NoData("sampler: the first step is still to come")
        counts, created_s = totals.counts, totals.created_utc_ns / NANOSECONDS_PER_SECOND
        yield Sample(STEP, (), seconds(counts.last_step_ns))
        yield Sample(INTERVAL, (), seconds(counts.interval_ns))
        yield Sample(SLOWED, (), int(counts.slowed))
        for spec, value in (
            (STEPS, counts.steps),
            (LATE, counts.late),
            (MISSED, counts.missed),
            (FAILED, counts.failed),
            (READ_ERRORS, counts.read_errors),
            (UNBALANCED, counts.unbalanced_slots),
        ):
            yield Sample(spec, (), value, created_s)

    def close(self) -> None:
        """Hold nothing."""


plugin = CollectorPlugin(
    name="sampler",
    summary="How the sampler itself is doing.",
    settings_class=SamplerSettings,
    specs=(LATE, MISSED, FAILED, STEPS, STEP, INTERVAL, SLOWED, READ_ERRORS, UNBALANCED),
    build=SamplerCollector,
)
