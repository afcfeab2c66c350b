"""What the read side returns of managers, their nodes, capacity, members and queues: frozen records, times in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ManagerRecord:
    """How far a resource manager was read."""

    cluster: str
    manager: str
    good_until: datetime | None
    """All before was read and written; None: nothing yet."""
    facts_at: datetime | None
    """When accounts and nodes were read last."""
    error: str | None
    error_since: datetime | None
    queue_at: datetime | None
    """When its queue was read last; None: never, or it has none."""
    nodes: int | None
    """None, as those closed: not for the asker to know."""
    nodes_closed: int | None
    """Those on which nothing new may start."""
    units_running: int
    units_waiting: int


class ManagerNodeSort(StrEnum):
    """What a list of managers' nodes can be sorted by."""

    NAME = "name"
    STATE = "state"
    TYPE = "type"
    CPUS = "cpus"
    MEMORY_BYTES = "memory_bytes"
    ALLOCATED_CPUS = "allocated_cpus"


@dataclass(frozen=True, slots=True)
class ManagerNodeQuery:
    """A page of managers' nodes."""

    cluster: str | None = None
    manager: str | None = None
    node: str | None = None
    type: str | None = None
    state: str | None = None
    is_schedulable: bool | None = None
    sort: ManagerNodeSort = ManagerNodeSort.NAME
    descending: bool = False
    limit: int = 200
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a resource there is; allocated + free + closed = total where the allocation is known."""

    total: float
    allocated: float | None
    """None: the manager does not say, which is not 0."""
    free: float | None
    closed: float | None
    """Neither allocated nor to be had: of nodes on which nothing new may start."""


@dataclass(frozen=True, slots=True)
class ManagerNodeRecord:
    """A node as its manager sees it."""

    cluster: str
    manager: str
    name: str
    state: str
    is_schedulable: bool
    reason: str | None
    type: str | None
    cpus: Amount | None
    """None: the manager does not say how many."""
    memory: Amount | None
    """In bytes."""
    gpus: Mapping[str, Amount]
    """By model."""
    queues: tuple[str, ...]
    seen_at: datetime
    is_reporting: bool = True
    """Whether an agent there was ever read: else nothing that runs on it is measured."""
    reported_as: str | None = None
    """What that agent calls it; None: there is none, or it could be one of several."""


@dataclass(frozen=True, slots=True)
class NodeSaid:
    """What one manager says of a node's state."""

    manager: str
    state: str
    is_schedulable: bool
    reason: str | None
    type: str | None
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class ManagerNodePage:
    """One page of managers' nodes; `next` is None on the last."""

    items: tuple[ManagerNodeRecord, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """What nodes of one type of a manager have together."""

    cluster: str
    manager: str
    type: str | None
    nodes: int
    nodes_closed: int
    nodes_by_state: Mapping[str, int]
    cpus: Amount | None
    memory: Amount | None
    gpus: Mapping[str, Amount] = field(default_factory=dict)
    nodes_unreported: int = 0
    """Nodes of which no agent was ever read."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How much of a cluster's CPU time was allocated within a bucket, as agents booked it."""

    start: datetime
    end: datetime
    cpu_allocated_ns: int | None
    """None: no unit there has a known allocation."""
    cpu_used_ns: int | None
    cpu_capacity_ns: int | None
    """CPUs of the nodes that reported × the time they accounted for."""


@dataclass(frozen=True, slots=True)
class MembershipRecord:
    """A user may charge a project, as managers say now."""

    cluster: str
    user: str
    project: str
    managers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MembershipPage:
    """One page of memberships; `next` is None on the last."""

    items: tuple[MembershipRecord, ...]
    next: str | None


class WaitingSort(StrEnum):
    """What a queue can be sorted by."""

    SUBMITTED_AT = "submitted_at"
    EXPECTED_START_AT = "expected_start_at"
    PRIORITY = "priority"
    ASKED_CPUS = "asked_cpus"


@dataclass(frozen=True, slots=True)
class WaitingQuery:
    """A page of units that wait in a manager's queue."""

    cluster: str | None = None
    manager: str | None = None
    user: str | None = None
    project: str | None = None
    queue: str | None = None
    state: str | None = None
    sort: WaitingSort = WaitingSort.SUBMITTED_AT
    descending: bool = False
    limit: int = 100
    after: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """A unit that waits; what it asked for is not yet an allocation."""

    cluster: str
    manager: str
    unit: str
    name: str | None
    user: str | None
    project: str | None
    group: str | None
    queue: str | None
    state: str
    reason: str | None
    submitted_at: datetime | None
    expected_start_at: datetime | None
    priority: float | None
    asked_cpus: float | None
    asked_memory_bytes: int | None
    asked_gpus: Mapping[str, float]
    asked_nodes: int | None
    tasks: int
    """How many units it stands for: the tasks of an array that have not started."""
    tags: Mapping[str, str]
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """One page of a queue; `next` is None on the last."""

    items: tuple[WaitingRecord, ...]
    next: str | None
