"""What the server shows to a scraper: the factors in force, and how its own work goes."""

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from kwhere.access.principal import principal_of
from kwhere.access.roles import Role
from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.health_records import DatabaseHealth
from kwhere.database.records import FactorRecord
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.provider import EmissionFactorProvider
from kwhere.exposition.negotiation import choose_format
from kwhere.exposition.text import Format, Renderer
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.resource_manager import ObservingManager
from kwhere.server.intake import Intake
from kwhere.server.passes import PassRunner

LEAST_FREE_BYTES = 64 << 20
"""With less than this a database of a file is called full: a page of slots and its log need some of it."""
log = structlog.get_logger(__name__)

_FACTOR_LABELS = ("provider", "zone", "basis", "scope", "system", "quality")
_PASS = ("pass",)

BUILD = MetricSpec("kwhere_build_info", Kind.INFO, "Version of this server.", ("version",))
FACTOR = MetricSpec(
    "kwhere_emission_factor_grams_per_kwh",
    Kind.GAUGE,
    "Emission factor in force, grams of CO2e per kWh.",
    _FACTOR_LABELS,
)
FACTOR_TIME = MetricSpec(
    "kwhere_emission_factor_timestamp_seconds",
    Kind.GAUGE,
    "When the factor in force was published, Unix seconds.",
    _FACTOR_LABELS,
)
FACTOR_SINCE = MetricSpec(
    "kwhere_emission_factor_since_timestamp_seconds",
    Kind.GAUGE,
    "From when on the factor is in force, Unix seconds.",
    _FACTOR_LABELS,
)
FACTOR_ERRORS = MetricSpec(
    "kwhere_emission_factor_refresh_errors_total",
    Kind.COUNTER,
    "Questions to a provider of emission factors that failed.",
    ("provider",),
)
FACTOR_REFRESHED = MetricSpec(
    "kwhere_emission_factor_refresh_timestamp_seconds",
    Kind.GAUGE,
    "When a provider of emission factors last answered well, Unix seconds.",
    ("provider",),
)
PUE = MetricSpec("kwhere_site_pue_ratio", Kind.GAUGE, "Power usage effectiveness in force, a ratio.")
LEADS = MetricSpec("kwhere_server_leads", Kind.GAUGE, "1 where this server does the passes of its database, else 0.")
PASS_UP = MetricSpec("kwhere_server_pass_up", Kind.GAUGE, "0 where the newest run of a pass failed, else 1.", _PASS)
PASS_RUNS = MetricSpec("kwhere_server_pass_runs_total", Kind.COUNTER, "Runs of a pass.", _PASS)
PASS_ERRORS = MetricSpec("kwhere_server_pass_errors_total", Kind.COUNTER, "Runs of a pass that failed.", _PASS)
PASS_SECONDS = MetricSpec(
    "kwhere_server_pass_duration_seconds", Kind.GAUGE, "How long the newest run of a pass took, seconds.", _PASS
)
PASS_TIME = MetricSpec(
    "kwhere_server_pass_success_timestamp_seconds", Kind.GAUGE, "When a pass last went well, Unix seconds.", _PASS
)
PULLS = MetricSpec("kwhere_server_pulls_total", Kind.COUNTER, "Pulls of agents' ledgers that went well.")
PULL_ERRORS = MetricSpec("kwhere_server_pull_errors_total", Kind.COUNTER, "Pulls of agents' ledgers that failed.")
SLOTS = MetricSpec("kwhere_server_slots_total", Kind.COUNTER, "Slots that were pulled and booked.")
HELD_BACK = MetricSpec("kwhere_server_quarantined_slots_total", Kind.COUNTER, "Slots that were pulled and held back.")
FAILING = MetricSpec("kwhere_server_targets_failing", Kind.GAUGE, "Targets whose newest pull failed.")
NODES = MetricSpec("kwhere_nodes", Kind.GAUGE, "Nodes by the state of their account.", ("state",))
TOUCHED_AGE = MetricSpec(
    "kwhere_server_rollup_lag_seconds", Kind.GAUGE, "Age of the oldest hour that waits to be summed up; 0: none waits."
)
FREE = MetricSpec("kwhere_server_database_free_bytes", Kind.GAUGE, "Room left where the database's file is, bytes.")
SPECS: Sequence[MetricSpec] = (
    *(BUILD, FACTOR, FACTOR_TIME, FACTOR_SINCE, FACTOR_ERRORS, FACTOR_REFRESHED, PUE, LEADS, PASS_UP, PASS_RUNS),
    *(PASS_ERRORS, PASS_SECONDS, PASS_TIME, PULLS, PULL_ERRORS, SLOTS, HELD_BACK, FAILING, NODES, TOUCHED_AGE, FREE),
)


@dataclass(frozen=True, slots=True)
class ServerWork:
    """What is looked at: the account's read side as functions, and the parts that work."""

    factors: Callable[[], Sequence[FactorRecord]]
    """Those in force now."""
    health: Callable[[], DatabaseHealth]
    pue_now: Callable[[], float]
    passes: PassRunner
    intake: Intake
    providers: Sequence[EmissionFactorProvider]
    clock: Clock
    version: str
    database_file: Path | None = None
    """None: a database server, whose room is its own affair."""
    managers: Sequence[BuiltManager] = ()


class ServerMetrics:
    """Pages of metrics. Thread-safe."""

    def __init__(self, work: ServerWork) -> None:
        self._work = work
        self._renderer = Renderer()
        self._lock = threading.Lock()
        self._created_s = work.clock.utc_ns() / NANOSECONDS_PER_SECOND

    def page(self, text_format: Format) -> bytes:
        """Return the page. What the database cannot tell now is left out: its own faults are what it is read for."""
        samples = [*self._own(), *self._of_account(), *self._of_managers(), *self._work.passes.samples()]
        with self._lock:
            return self._renderer.render(samples, text_format)

    def _own(self) -> Iterator[Sample]:
        work = self._work
        yield Sample(BUILD, (work.version,), 1)
        yield Sample(LEADS, (), int(work.passes.leads))
        faults = work.passes.faults
        for name, counts in work.passes.counts.items():
            yield Sample(PASS_UP, (name,), int(name not in faults))
            yield Sample(PASS_RUNS, (name,), counts.runs, self._created_s)
            yield Sample(PASS_ERRORS, (name,), counts.errors, self._created_s)
            yield Sample(PASS_SECONDS, (name,), counts.seconds)
            if counts.succeeded_ns is not None:
                yield Sample(PASS_TIME, (name,), counts.succeeded_ns / NANOSECONDS_PER_SECOND)
        taken = work.intake.counts
        for spec, count in (
            (PULLS, taken.pulls),
            (PULL_ERRORS, taken.failures),
            (SLOTS, taken.slots),
            (HELD_BACK, taken.held_back),
        ):
            yield Sample(spec, (), count, self._created_s)
        yield Sample(FAILING, (), len(work.intake.faults))
        for provider in work.providers:
            if isinstance(provider, CachedProvider):
                yield Sample(FACTOR_ERRORS, (provider.name,), provider.refresh_errors, self._created_s)
                if provider.refreshed_at is not None:
                    yield Sample(FACTOR_REFRESHED, (provider.name,), provider.refreshed_at.timestamp())
        free = free_bytes(work.database_file)
        if free is not None:
            yield Sample(FREE, (), free)

    def _of_account(self) -> Sequence[Sample]:
        try:
            return [*self._factors(), *self._nodes()]
        except (KwhereError, SQLAlchemyError) as error:
            log.warning("metrics without the account", fault=str(error).splitlines()[0])
            return []

    def _factors(self) -> Iterator[Sample]:
        for factor in self._work.factors():
            labels = (factor.provider, factor.zone, factor.basis, factor.scope, factor.system, factor.quality)
            yield Sample(FACTOR, labels, factor.grams_per_kwh)
            yield Sample(FACTOR_TIME, labels, factor.published_at.timestamp())
            yield Sample(FACTOR_SINCE, labels, factor.span.start.timestamp())
        yield Sample(PUE, (), self._work.pue_now())

    def _nodes(self) -> Iterator[Sample]:
        health = self._work.health()
        for state, count in sorted(health.nodes_by_state.items()):
            yield Sample(NODES, (str(state),), count)
        oldest = health.oldest_touched_hour_at
        now_s = self._work.clock.utc_ns() / NANOSECONDS_PER_SECOND
        yield Sample(TOUCHED_AGE, (), 0.0 if oldest is None else max(0.0, now_s - oldest.timestamp()))

    def _of_managers(self) -> Iterator[Sample]:
        observing = [one.source for one in self._work.managers if isinstance(one.source, ObservingManager)]
        alike = Counter(source.name for source in observing)
        for source in observing:
            yield from source.samples(source.cluster if alike[source.name] > 1 else "")


def metrics_endpoint(metrics: ServerMetrics) -> Callable[[Request], Response]:
    """Return the route of `/metrics`; the door before it is that of API and pages."""

    def answer(request: Request) -> Response:
        principal_of(request.scope).demand("metrics of the server", Role.OPERATOR, Role.AUDITOR)
        text_format = choose_format(request.headers.get("accept", ""))
        return Response(metrics.page(text_format), media_type=text_format.value, headers={"vary": "accept"})

    return answer


def free_bytes(file: Path | None) -> int | None:
    """Return the room left beside a file; None where that cannot be told."""
    if file is None:
        return None
    try:
        return shutil.disk_usage(file.parent).free
    except OSError:
        return None


def server_faults(passes: PassRunner, intake: Intake, database_file: Path | None) -> list[str]:
    """Return what of the server's own work fails, one sentence each, for /health."""
    found = [f"pass {name} fails: {fault}" for name, fault in sorted(passes.faults.items())]
    pulls = intake.faults
    if pulls:
        target, fault = min(pulls.items())
        found.append(f"{len(pulls)} targets cannot be pulled, such as {target}: {fault}")
    free = free_bytes(database_file)
    if free is not None and free < LEAST_FREE_BYTES:
        found.append(f"the disk of the database is full: {free >> 20} MiB are left")
    return found
