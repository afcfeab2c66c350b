"""What the API tells of nodes and their balance."""

from dataclasses import dataclass, field
from datetime import datetime

from kwhere.api.inventory_models import NO_FACTS, NodeFactsView
from kwhere.api.models import AgreementView, MethodView
from kwhere.api.place_models import NodeSaidView


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's account."""

    cluster: str
    node: str
    state: str
    power_watts: float | None
    completeness: float | None
    measured_share: float | None
    lag_seconds: float | None
    newest_slot_at: datetime | None
    last_pull_at: datetime | None
    last_error: str | None
    stopped: str | None
    clock_offset_seconds: float | None
    cpus: int | None
    version: str | None
    idle_policy: str | None
    parent: str | None
    units_running: int
    methods: list[MethodView]
    lost_records: int
    quarantined_slots: int
    meters_agreement: AgreementView | None = None
    """Of the last half hour, by the server's round; null where it has not looked yet."""
    managers: list[NodeSaidView] = field(default_factory=list)
    """What resource managers say of it."""
    inventory: NodeFactsView = NO_FACTS
    """What the site's inventory says of it."""
    retired_at: datetime | None = None
    """Since when it is expected no longer."""


@dataclass(frozen=True, slots=True)
class ComponentBalanceView:
    """One component of a slot's balance, integer microjoules."""

    node_microjoules: int
    units_dynamic_microjoules: int
    units_idle_microjoules: int
    system_microjoules: int
    unallocated_microjoules: int
    residual_microjoules: int
    span_nanoseconds: int
    method: str
    source: str


@dataclass(frozen=True, slots=True)
class BalanceSlotView:
    """A slot: node = units + system + unallocated + residual, and the residual is 0."""

    start: datetime
    end: datetime
    node_microjoules: int
    units_microjoules: int
    system_microjoules: int
    unallocated_microjoules: int
    residual_microjoules: int
    components: dict[str, ComponentBalanceView]
    flags: list[str]


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of one node, slot by slot, in time order."""

    slots: list[BalanceSlotView]
