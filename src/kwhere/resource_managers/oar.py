"""OAR 2 and 3: jobs with their owners, projects, resources and nodes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol
from zoneinfo import ZoneInfo

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import Unavailable
from kwhere.core.managed import NO_ALLOCATION, Accounts, ManagerAllocation, ManagerNode, ManagerUnit, Queue, run_name
from kwhere.core.timespan import Span
from kwhere.discovery.oar import MANAGER
from kwhere.resource_managers.oar_commands import CommandSource
from kwhere.resource_managers.oar_fields import Faults
from kwhere.resource_managers.oar_jobs import LIVING, OVER, OarJob, read_jobs
from kwhere.resource_managers.oar_queue import InHand, read_in_hand
from kwhere.resource_managers.oar_resources import Resource, allocation_of, nodes_of, read_resources
from kwhere.resource_managers.oar_rest import RestSource
from kwhere.resource_managers.oar_settings import OarSettings
from kwhere.resource_managers.plugin import ManagerPlugin

log = structlog.get_logger(__name__)

_ELSEWHERE = ("deploy", "cosystem", "desktop_computing")
"""Types of jobs whose processes run on a frontend or nowhere, not on the nodes they hold."""
_MOST_STATES_TOLD = 50
_FOR_GOOD = ("absent", "permission")


class OarSource(Protocol):
    """A way to ask OAR: each answer with the place it comes from."""

    def jobs(self, span: Span) -> Iterator[tuple[object, str]]:
        """Yield documents with the jobs that lived within `span`."""
        ...

    tells_all_in_hand: bool
    """Whether a job that `in_hand` left out, when it was last read to its end, is over."""

    def in_hand(self) -> Iterator[tuple[object, str]]:
        """Yield documents with the jobs that wait or live now."""
        ...

    def resources(self) -> Iterator[tuple[object, str]]:
        """Yield documents with all resources."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class OarManager:
    """One OAR; the same whichever dialect it speaks. OAR 3's commands name neither nodes nor resources."""

    name = MANAGER

    def __init__(self, settings: OarSettings, source: OarSource, clock: Clock) -> None:
        self.cluster = settings.cluster
        self._source = source
        self._clock = clock
        self._zone = ZoneInfo(settings.time_zone) if settings.time_zone else None
        self._kept_for_ns = int(settings.resources_seconds * 1e9)
        self._resources: Mapping[str, Resource] = {}
        self._asked_ns: int | None = None
        self._told: set[str] = set()
        self._told_closed = False

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        """Yield the jobs that lived within `span`, each once."""
        faults = Faults()
        seen: set[str] = set()
        resources = self._resources_if_allowed()
        for document, place in self._source.jobs(span):
            for job in read_jobs(document, place, self._zone, faults):
                unit = unit_of(self.cluster, job, resources)
                if unit.unit not in seen and unit.lived_within(span):
                    seen.add(unit.unit)
                    self._tell_strange(job)
                    yield unit
        self._tell(faults, "jobs left out")

    def fetch_queue(self) -> Queue:
        """Return what waits and, where the dialect tells, what lives."""
        faults, found = Faults(), InHand()
        for document, place in self._source.in_hand():
            read_in_hand(document, place, self.cluster, self._zone, faults, found)
        self._tell(faults, "jobs left out of the queue")
        tells_all = self._source.tells_all_in_hand and not faults.count
        return Queue(tuple(found.waiting.values()), frozenset(found.living) if tells_all else None)

    def fetch_accounts(self) -> Accounts:
        """Return none: OAR's projects are words that come with a job."""
        return Accounts()

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the nodes that have resources of the type `default`."""
        self._asked_ns = None
        return nodes_of(self._known_resources().values())

    def close(self) -> None:
        """Give back what the source holds."""
        self._source.close()

    def _resources_if_allowed(self) -> Mapping[str, Resource]:
        """Return the resources, none where they are closed to us for good: jobs are told without CPUs then."""
        try:
            return self._known_resources()
        except Unavailable as error:
            if error.reason not in _FOR_GOOD:
                raise
            if not self._told_closed:
                self._told_closed = True
                log.warning("jobs are told without CPUs", manager=MANAGER, cluster=self.cluster, error=str(error))
            return {}

    def _known_resources(self) -> Mapping[str, Resource]:
        now_ns = self._clock.monotonic_ns()
        if self._asked_ns is not None and now_ns - self._asked_ns < self._kept_for_ns:
            return self._resources
        faults = Faults()
        now = datetime.fromtimestamp(self._clock.utc_ns() / 1e9, UTC)
        found: dict[str, Resource] = {}
        for document, place in self._source.resources():
            found |= read_resources(document, place, now, faults)
        self._tell(faults, "resources left out")
        self._resources, self._asked_ns = found, now_ns
        return found

    def _tell(self, faults: Faults, event: str) -> None:
        if faults.count:
            log.warning(event, manager=MANAGER, cluster=self.cluster, count=faults.count, first=faults.first)

    def _tell_strange(self, job: OarJob) -> None:
        if job.state in LIVING or job.state in OVER or job.state in self._told or len(self._told) >= _MOST_STATES_TOLD:
            return
        self._told.add(job.state)
        log.warning("job state is none that is known", manager=MANAGER, cluster=self.cluster, state=job.state)


def unit_of(cluster: str, job: OarJob, resources: Mapping[str, Resource]) -> ManagerUnit:
    """Return a job as a unit; `resources` by id."""
    held = [resources[each] for each in job.resources or () if each in resources]
    nodes = job.nodes
    if nodes is None and held and len(held) == len(job.resources or ()):
        nodes = tuple(dict.fromkeys(each.node for each in held if each.type == "default"))
    return ManagerUnit(
        cluster=cluster,
        manager=MANAGER,
        unit=job.job_id,
        run=run_name(job.job_id, job.started_at),
        state=job.state,
        started_at=job.started_at,
        ended_at=job.ended_at,
        submitted_at=job.submitted_at,
        name=job.name,
        user=job.user,
        project=job.project,
        nodes=None if _runs_elsewhere(job) or not nodes else nodes,
        allocation=_allocation(job, held),
        queue=job.queue,
        tags=_tags(job),
    )


def _allocation(job: OarJob, held: Sequence[Resource]) -> ManagerAllocation:
    if job.resources is None or len(held) < len(job.resources):  # a sum without some of them would be a wrong one
        return NO_ALLOCATION if job.nodes is None else ManagerAllocation(nodes=len(job.nodes) or None)
    return allocation_of(held, len(job.nodes) if job.nodes else None)


def _runs_elsewhere(job: OarJob) -> bool:
    return any(word.partition("=")[0] in _ELSEWHERE for word in job.types)


def _tags(job: OarJob) -> dict[str, str]:
    said: dict[str, str | None] = {
        "types": ",".join(job.types) or None,
        "resubmit_of": job.resubmit_of,
        "walltime_seconds": f"{job.walltime_seconds:.0f}" if job.walltime_seconds is not None else None,
        "container": next((word.partition("=")[2] for word in job.types if word.startswith("inner=")), None),
    }
    if job.array_id is not None and (job.array_id != job.job_id or (job.array_index or "1") != "1"):
        said["array_id"], said["array_index"] = job.array_id, job.array_index
    if job.wait_status is not None:
        said["exit_code"] = str(job.wait_status >> 8)
        said["exit_signal"] = str(job.wait_status & 127) if job.wait_status & 127 else None
    return {name: value for name, value in said.items() if value}


def build(settings: OarSettings, clock: Clock) -> OarManager:
    """Return the manager that the settings describe. Raises ConfigError."""
    source = CommandSource(settings) if settings.url is None else RestSource(settings.url, settings)
    return OarManager(settings, source, clock)


plugin = ManagerPlugin(
    name=MANAGER,
    summary="Jobs of OAR 2.5 and OAR 3, by oarstat and oarnodes or by REST.",
    settings_class=OarSettings,
    build=build,
)
