"""Jobs of SLURM as units: what `sacct` and slurmrestd say, in one shape."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerAllocation, ManagerUnit, run_name
from kwhere.discovery.node_expressions import expand_nodes
from kwhere.discovery.slurm import MANAGER
from kwhere.resource_managers.slurm_facts import without_suffix
from kwhere.resource_managers.slurm_words import Tres, parse_state

_IS_OVER = frozenset(
    {
        *("completed", "cancelled", "failed", "timeout", "node_fail", "preempted", "boot_fail", "deadline"),
        *("out_of_memory", "revoked", "launch_failed"),
    }
)
_HAS_BEGUN = frozenset({"running", "suspended", "completing", "stopped", "completed", "timeout", "out_of_memory"})
"""What was cancelled or missed its deadline may not have."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One record of a job's allocation; steps are none."""

    raw_id: int
    shown_id: str
    """As people write it: `123_4`, `123+0`."""
    state: str
    """As SLURM says it."""
    sluid: str | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    group: str | None = None
    account: str | None = None
    partition: str | None = None
    nodes: str = ""
    """As an expression."""
    allocated: Tres = field(default_factory=Tres)
    elapsed_seconds: float | None = None
    """Without times of suspension."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Words to show as they are: qos, comment, exit code, …"""


def with_whole_times(job: SlurmJob, damaged: Callable[[str], None]) -> SlurmJob | None:
    """Return a job whose times fit its state, None where it has begun and nobody knows when; `damaged` is told.

    What is over without an end ended when it had run as long as SLURM counted. Where it did not count, it stays open,
    until slurmctld is seen not to have it.
    """
    state = parse_state(job.state).name
    if job.started_at is None:
        if state in _HAS_BEGUN:
            damaged(f"job {job.shown_id}: expected a start of what is {state}, found none")
            return None
        return job
    if job.ended_at is not None or state not in _IS_OVER:
        return job
    damaged(f"job {job.shown_id}: expected an end of what is {state}, found none")
    if job.elapsed_seconds is None:
        return job
    return replace(job, ended_at=job.started_at + timedelta(seconds=job.elapsed_seconds))


class JobReader:
    """Makes units of jobs; a strange state is told once."""

    def __init__(self, cluster: str, account_suffixes: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._suffixes = tuple(account_suffixes)
        self._told: set[str] = set()

    def unit_of(self, job: SlurmJob) -> ManagerUnit | None:
        """Return the job's run; None for one that has not started, or was cancelled before it did."""
        if job.started_at is None:
            return None
        state = parse_state(job.state)
        if not state.is_known and state.name not in self._told and len(self._told) < 100:
            self._told.add(state.name)
            log.warning("job state is none that is known", cluster=self._cluster, state=state.name)
        nodes = self._nodes(job)
        is_nowhere = nodes == () and job.ended_at is not None
        # A federation's other clusters revoke a job some time after it was submitted to them.
        if is_nowhere and (job.nodes.strip() or job.ended_at == job.started_at):
            return None
        unit = str(job.raw_id)
        return ManagerUnit(
            cluster=self._cluster,
            manager=MANAGER,
            unit=unit,
            run=job.sluid or run_name(unit, job.started_at),
            state=state.name,
            started_at=job.started_at,
            ended_at=job.ended_at,
            submitted_at=job.submitted_at,
            name=job.name,
            user=_user(job),
            project=without_suffix(job.account or "", self._suffixes) or None,
            group=job.group or None,
            nodes=nodes,
            allocation=ManagerAllocation(
                job.allocated.cpus, job.allocated.memory_bytes, job.allocated.gpus, job.allocated.nodes
            ),
            queue=job.partition or None,
            tags=_tags(job, state.by),
            elapsed_seconds=job.elapsed_seconds,
        )

    def _nodes(self, job: SlurmJob) -> tuple[str, ...] | None:
        try:
            return expand_nodes(job.nodes)
        except SourceError as error:
            if "nodes" not in self._told:
                self._told.add("nodes")
                log.warning("nodes of a job cannot be read", cluster=self._cluster, job=job.shown_id, fault=str(error))
            return None


def _user(job: SlurmJob) -> str | None:
    """A user who was deleted is still somebody."""
    if job.user and job.user != str(job.uid):
        return job.user
    return None if job.uid is None else f"unknown (uid {job.uid})"


def _tags(job: SlurmJob, cancelled_by: str | None) -> Mapping[str, str]:
    tags = {key: value for key, value in job.facts.items() if value}
    if job.shown_id != str(job.raw_id):
        tags["job"] = job.shown_id
        parent = job.shown_id.split("_", 1)[0].split("+", 1)[0]
        if "+" in job.shown_id:
            tags["het_job"] = parent
        elif "_" in job.shown_id:
            tags["array_job"] = parent
    if cancelled_by:
        tags["cancelled_by_uid"] = cancelled_by
    return tags
