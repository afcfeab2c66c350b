"""What resource managers know: their units, accounts and nodes. Times are aware UTC, memory is in bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kwhere.core.timespan import Span


@dataclass(frozen=True, slots=True)
class ManagerAllocation:
    """What a unit was given over all its nodes. None: the manager does not say, which is not 0."""

    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: Mapping[str, float] = field(default_factory=dict)
    """By model; `gpu` where the manager does not tell the type."""
    nodes: int | None = None


NO_ALLOCATION = ManagerAllocation()


GROUP_TAGS = ("array_job", "het_job", "array_id")
"""Tags by which a job says what it is part of: SLURM's arrays and heterogeneous jobs, OAR's arrays."""
AT_REST = frozenset(
    {
        *("suspended", "paused", "pmsuspended", "stopped", "shut off", "shutoff", "crashed", "no state"),
        *("shelved", "shelved_offloaded", "soft_deleted"),
    }
)
"""States of what has not ended and does not run: of SLURM's jobs, Nova's servers, and machines of libvirt and Proxmox.
A machine that is shut off is still there, and may go on."""


@dataclass(frozen=True, slots=True)
class ManagerUnit:
    """One run of a unit, once it has started. What still waits in a queue is a `WaitingUnit`."""

    cluster: str
    manager: str
    """As agents report it: slurm, oar, kubernetes, libvirt, …"""
    unit: str
    """The native id as agents report it: without `/`, other characters percent-escaped."""
    run: str
    """The manager's run: an id that is unique for ever, else `<unit>@<UTC seconds of the start>`."""
    state: str
    """The manager's word in lower case: running, completed, failed, cancelled, …"""
    started_at: datetime
    ended_at: datetime | None = None
    """None while it runs."""
    is_start_known: bool = True
    """False: it was there already when it was first seen; the earliest start that anybody knows of is kept."""
    submitted_at: datetime | None = None
    name: str | None = None
    user: str | None = None
    project: str | None = None
    """Account, tenant, or who owns the namespace."""
    group: str | None = None
    nodes: tuple[str, ...] | None = None
    """Where it was placed; None: the manager does not say, then any node is right."""
    allocation: ManagerAllocation = NO_ALLOCATION
    queue: str | None = None
    """Partition, queue or namespace."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What else a person may want to see."""
    elapsed_seconds: float | None = None
    """How long it held its allocation, times of suspension left out; None: from its start to its end."""

    def lived_within(self, span: Span) -> bool:
        """Return whether it lived within a span; the moment of its end is no longer part of its life."""
        if self.started_at >= span.end:
            return False
        return self.ended_at is None or self.ended_at > span.start or self.started_at >= span.start


def run_name(unit: str, started_at: datetime) -> str:
    """Return the name of a run whose unit's id may come again."""
    return f"{unit}@{int(started_at.timestamp())}"


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A unit that has not started: it has no run yet, holds nothing and uses nothing."""

    cluster: str
    manager: str
    unit: str
    """The native id as `ManagerUnit` has it; tasks of an array that wait together may share one."""
    state: str
    """The manager's word in lower case: pending, hold, build, …"""
    name: str | None = None
    user: str | None = None
    project: str | None = None
    group: str | None = None
    queue: str | None = None
    reason: str | None = None
    """Why it waits, in the manager's words."""
    submitted_at: datetime | None = None
    expected_start_at: datetime | None = None
    priority: float | None = None
    asked: ManagerAllocation = NO_ALLOCATION
    """Of one task."""
    tasks: int = 1
    """How many tasks of an array it stands for."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """What a manager has in hand now."""

    waiting: tuple[WaitingUnit, ...] = ()
    living: frozenset[str] | None = None
    """Ids of the units that it knows as begun, those too that have just ended; None: it does not say."""


@dataclass(frozen=True, slots=True)
class Account:
    """A project as its manager describes it."""

    name: str
    description: str | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Membership:
    """A user may charge a project."""

    user: str
    project: str


@dataclass(frozen=True, slots=True)
class Accounts:
    """All projects and memberships there are: the list replaces the one before."""

    accounts: tuple[Account, ...] = ()
    memberships: tuple[Membership, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagerNode:
    """A node as its manager sees it."""

    name: str
    state: str
    """The manager's word in lower case: idle, mixed, down, ready, …"""
    is_schedulable: bool = True
    """False: drained, cordoned, down or kept for maintenance."""
    reason: str | None = None
    """Why not."""
    type: str | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: Mapping[str, float] = field(default_factory=dict)
    allocated: ManagerAllocation | None = None
    queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a manager that pushes has said since a cursor."""

    cursor: str
    units: tuple[ManagerUnit, ...]
    is_relisted: bool = False
    """Whether these are all units that it knows, rather than those that changed: others are gone."""
    unread: frozenset[str] = frozenset()
    """Ids of units that are there and could not be read."""
    seen: Mapping[str, datetime] = field(default_factory=dict)
    """When units that are missing here were there last, where the last answer was not of all there is."""
