"""The JSON of managers, their nodes, capacity, members and queues: a contract (names and units)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ManagerView:
    """How far a resource manager was read."""

    cluster: str
    manager: str
    good_until: datetime | None
    """All before was read and written."""
    facts_at: datetime | None
    """When accounts and nodes were read last."""
    queue_at: datetime | None
    error: str | None
    error_since: datetime | None
    nodes: int | None
    nodes_closed: int | None
    units_running: int
    units_waiting: int


@dataclass(frozen=True, slots=True)
class NodeSaidView:
    """What one manager says of a node's state; `schedulable` false: nothing new may start there, for `reason`."""

    manager: str
    state: str
    schedulable: bool
    reason: str | None
    type: str | None
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class AmountView:
    """How much of a resource: allocated + free + closed = total; null where the manager does not say."""

    total: float
    allocated: float | None
    free: float | None
    closed: float | None


@dataclass(frozen=True, slots=True)
class ManagerNodeView:
    """A node as its manager sees it; `schedulable` false: nothing new may start there, for `reason`."""

    cluster: str
    manager: str
    name: str
    state: str
    schedulable: bool
    reason: str | None
    type: str | None
    cpus: AmountView | None
    memory_bytes: AmountView | None
    gpus: dict[str, AmountView]
    queues: list[str]
    seen_at: datetime
    reporting: bool
    """Whether an agent there was ever read: else nothing that runs on it is measured."""
    reported_as: str | None
    """What that agent calls it; null: there is none, or it could be one of several."""


@dataclass(frozen=True, slots=True)
class CapacityView:
    """What nodes of one type of a manager have together."""

    cluster: str
    manager: str
    type: str | None
    nodes: int
    nodes_closed: int
    nodes_by_state: dict[str, int]
    cpus: AmountView | None
    memory_bytes: AmountView | None
    gpus: dict[str, AmountView]
    nodes_unreported: int
    """Nodes of which no agent was ever read."""


@dataclass(frozen=True, slots=True)
class OccupancyView:
    """CPU seconds of a cluster on one day of the site, as agents booked them."""

    start: datetime
    end: datetime
    cpu_allocated_seconds: float | None
    cpu_seconds: float | None
    cpu_capacity_seconds: float | None
    """CPUs of the nodes that reported × the time they accounted for."""


@dataclass(frozen=True, slots=True)
class MembershipView:
    """A user may charge a project, as these managers say."""

    cluster: str
    user: str
    project: str
    managers: list[str]


@dataclass(frozen=True, slots=True)
class AskedView:
    """What a waiting unit asked for; it has none of it yet."""

    cpus: float | None
    memory_bytes: int | None
    gpus: dict[str, float]
    nodes: int | None


@dataclass(frozen=True, slots=True)
class WaitingView:
    """A unit that waits in its manager's queue; `tasks` is how many of an array it stands for."""

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
    waiting_seconds: float | None
    priority: float | None
    asked: AskedView
    tasks: int
    labels: dict[str, str]
    seen_at: datetime
