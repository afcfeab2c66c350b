"""Runs the collectors of a scrape: each timed, each on its own, none able to spoil another's samples."""

import threading
from collections.abc import Collection, Iterable, Sequence

import structlog

from kwhere.collectors.collector import AnyPlugin, Collector, CollectorContext, CollectorSettings
from kwhere.core.clock import Clock
from kwhere.core.errors import NoData, NotFound, Unavailable
from kwhere.core.failure_memory import NEVER_NS, FailureMemory
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, seconds

UP = MetricSpec("kwhere_collector_up", Kind.GAUGE, "Whether the collector's last run went well.", ("collector",))
DURATION = MetricSpec(
    "kwhere_collector_duration_seconds", Kind.GAUGE, "How long the collector's last run took.", ("collector",)
)
ERRORS = MetricSpec("kwhere_collector_errors_total", Kind.COUNTER, "Runs of the collector that failed.", ("collector",))
RUNNER_SPECS = (UP, DURATION, ERRORS)

_RETRY_NS = 60 * NANOSECONDS_PER_SECOND
_BUSY_SECONDS = 5.0
_CLOSE_SECONDS = 0.5

log = structlog.get_logger(__name__)


class CollectorRunner:
    """The enabled collectors. `collect` may be called from several threads; one collector runs once at a time."""

    def __init__(self, plugins: Sequence[tuple[AnyPlugin, CollectorSettings]], context: CollectorContext) -> None:
        self._failures = _Failures(context.clock)
        self._runs = {
            plugin.name: _CollectorRun(plugin, settings, context, self._failures) for plugin, settings in plugins
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the enabled collectors."""
        return tuple(self._runs)

    @property
    def specs(self) -> tuple[MetricSpec, ...]:
        """Return every metric that may appear."""
        return RUNNER_SPECS + tuple(spec for run in self._runs.values() for spec in run.plugin.specs)

    def collect(self, names: Collection[str] | None = None) -> list[Sample]:
        """Return the samples of the collectors named, of all without names. Raises NotFound for an unknown name."""
        unknown = sorted(set(names or ()) - self._runs.keys())
        if unknown:
            raise NotFound(f"collector {unknown[0]}: expected one of {', '.join(self._runs)}")
        samples: list[Sample] = []
        for name, run in self._runs.items():
            if not names or name in names:
                samples += run.collect()
        self._failures.sum_up()
        return samples

    def close(self) -> None:
        """Close every collector."""
        for run in self._runs.values():
            run.close()


_NOT_THERE = frozenset({"absent", "unsupported"})
"""Reasons that a person need not look at: most machines lack something."""


class _Failures:
    """What the log hears of failing collectors: each change, and one line an hour about all that still fail."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._memory = FailureMemory(NEVER_NS)
        self._nothing_there: dict[str, str] = {}

    def absent(self, name: str, why: str) -> None:
        """Note that there is nothing to read: no failure, told once."""
        with self._lock:
            is_news = self._nothing_there.get(name) != why
            self._nothing_there[name] = why
        if is_news:
            log.info("collector has nothing to read", collector=name, why=why)

    def failed(self, name: str, fault: str) -> None:
        """Note a failed run."""
        with self._lock:
            is_news = self._memory.failed(name, fault, self._clock.monotonic_ns()) is not None
        if is_news:
            log.warning("collector failed", collector=name, fault=fault)

    def went_well(self, name: str) -> None:
        """Note a good run."""
        with self._lock:
            is_news = self._memory.recovered(name)
        if is_news:
            log.info("collector works again", collector=name)

    def sum_up(self) -> None:
        """Tell, once an hour, how often which collectors failed."""
        with self._lock:
            counts = self._memory.repeated(self._clock.monotonic_ns())
        if counts:
            log.warning("collectors still fail", counts=counts)


class _CollectorRun:
    """One collector with what is remembered of its runs."""

    def __init__(
        self, plugin: AnyPlugin, settings: CollectorSettings, context: CollectorContext, failures: _Failures
    ) -> None:
        self.plugin = plugin
        self._settings = settings
        self._context = context
        self._lock = threading.Lock()
        self._collector: Collector | None = None
        self._unavailable: str | None = None
        self._is_absent = False
        self._tried_ns = 0
        self._errors = 0
        self._failures = failures
        self._created_s = context.clock.utc_ns() / NANOSECONDS_PER_SECOND

    def collect(self) -> list[Sample]:
        """Return what the collector says now, and how it went; nothing at all where there is nothing to read here."""
        clock = self._context.clock
        started_ns = clock.monotonic_ns()
        samples: list[Sample] = []
        if self._lock.acquire(timeout=_BUSY_SECONDS):
            try:
                is_up = self._run_into(samples)
            finally:
                self._lock.release()
        else:
            # stuck in the kernel on behalf of an earlier scrape: the others must not wait for it
            is_up = False
        name = (self.plugin.name,)
        if self._is_absent:  # an alert on `kwhere_collector_up == 0` is of what fails, not of what a machine lacks
            return []
        samples.append(Sample(UP, name, int(is_up)))
        samples.append(Sample(DURATION, name, seconds(clock.monotonic_ns() - started_ns)))
        samples.append(Sample(ERRORS, name, self._errors, self._created_s))
        return samples

    def close(self) -> None:
        """Close the collector."""
        if self._collector is not None and self._lock.acquire(timeout=_CLOSE_SECONDS):
            self._collector.close()
            self._collector = None
            self._lock.release()

    def _run_into(self, samples: list[Sample]) -> bool:
        """Add the samples; False where something failed. The one place of a scrape that catches everything."""
        try:
            collector = self._built()
            if collector is None:
                return False
            faults = _take_good(collector.collect(), self.plugin, samples)
        except NoData:
            faults = []
        except Exception as error:  # noqa: BLE001 - one collector must not take the others down
            faults = [f"{type(error).__name__}: {error}"]
        if faults:
            self._errors += 1
            self._failures.failed(self.plugin.name, faults[0])
            return False
        self._failures.went_well(self.plugin.name)
        return True

    def _built(self) -> Collector | None:
        """Return the collector; None where there is nothing to read, which is looked at again after a minute."""
        if self._collector is not None:
            return self._collector
        now_ns = self._context.clock.monotonic_ns()
        if self._unavailable is not None and now_ns - self._tried_ns < _RETRY_NS:
            return None
        self._tried_ns = now_ns
        try:
            self._collector = self.plugin.build(self._context, self._settings)
        except Unavailable as error:
            self._unavailable = f"{error.reason}: {error}"
            self._is_absent = error.reason in _NOT_THERE
            if self._is_absent:
                self._failures.absent(self.plugin.name, self._unavailable)
            else:
                self._failures.failed(self.plugin.name, self._unavailable)
            return None
        self._unavailable, self._is_absent = None, False
        return self._collector


def _take_good(found: Iterable[Sample], plugin: AnyPlugin, samples: list[Sample]) -> list[str]:
    """Append every sample that may be exposed; return what is wrong with the others."""
    specs = {spec.name: spec for spec in plugin.specs}
    seen: dict[str, set[tuple[str, ...]]] = {spec.name: set() for spec in plugin.specs}
    faults: list[str] = []
    for sample in found:
        name, labels = sample.spec.name, sample.labels
        if not _is_plainly_good(sample, specs.get(name)):
            fault = _fault_of(sample, specs)
            if fault is not None:
                faults.append(fault)
                continue
        known = seen[name]
        if labels in known:
            faults.append(f"{name}{labels}: given twice")
            continue
        known.add(labels)
        samples.append(sample)
    return faults


def _is_plainly_good(sample: Sample, declared: MetricSpec | None) -> bool:
    """Return whether a sample is good by the quick look that nearly all pass."""
    spec, labels, kind = sample.spec, sample.labels, type(sample.value)
    try:
        "".join(labels)
    except TypeError:
        return False
    return spec is declared and len(labels) == len(spec.labels) and (kind is float or kind is int)


def _fault_of(sample: Sample, specs: dict[str, MetricSpec]) -> str | None:
    spec, labels, value = sample.spec, sample.labels, sample.value
    declared = specs.get(spec.name)
    if declared is not spec and declared != spec:
        return f"{spec.name}: not among the collector's specs"
    if len(labels) != len(spec.labels):
        return f"{spec.name}: expected the labels {spec.labels}, found {labels}"
    if not all(type(label) is str for label in labels):
        return f"{spec.name}: expected texts as labels, found {labels}"
    if type(value) is not float and type(value) is not int:
        return f"{spec.name}{labels}: expected a number, found {value!r}"
    return None
