"""What the journal wrote, lost and failed at."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample

SLOTS = MetricSpec("kwhere_journal_slots_total", Kind.COUNTER, "Slots committed to the journal.")
LOST = MetricSpec(
    "kwhere_journal_lost_slots_total", Kind.COUNTER, "Slots that a bound removed before any reader had pulled them."
)
ERRORS = MetricSpec("kwhere_journal_errors_total", Kind.COUNTER, "Journal operations that failed.", ("cause",))
HELD = MetricSpec("kwhere_journal_held_slots", Kind.GAUGE, "Slots that the journal holds.")
BYTES = MetricSpec("kwhere_journal_bytes", Kind.GAUGE, "Size of what the journal holds.")


class JournalCollectorSettings(CollectorSettings):
    """Nothing to set."""


class JournalCollector:
    """Passes on what the journal counts."""

    def __init__(self, context: CollectorContext, settings: JournalCollectorSettings) -> None:
        if context.journal is None:
            raise Unavailable("absent", "journal: this process keeps none")
        self._stats = context.journal

    def collect(self) -> Iterator[Sample]:
        """Yield the journal's counts."""
        stats = self._stats()
        yield Sample(SLOTS, (), stats.slots_total, stats.created_s)
        yield Sample(LOST, (), stats.lost_total, stats.created_s)
        for cause, count in sorted(stats.errors_total.items()):
            yield Sample(ERRORS, (cause,), count, stats.created_s)
        yield Sample(HELD, (), stats.slots_held)
        yield Sample(BYTES, (), stats.bytes_held)

    def close(self) -> None:
        """Hold nothing."""


plugin = CollectorPlugin(
    name="journal",
    summary="The journal's slots and errors.",
    settings_class=JournalCollectorSettings,
    specs=(SLOTS, LOST, ERRORS, HELD, BYTES),
    build=JournalCollector,
)
