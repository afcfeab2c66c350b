"""The account as API and pages ask it: the read side of the database behind one protocol, so that tests bring fakes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from kwhere.core.timespan import Span
from kwhere.database.account_records import ALL_ACCOUNTS, AccountPage, AccountQuery, ClusterRecord
from kwhere.database.audit import AuditPage, AuditQuery
from kwhere.database.gpu_records import GpuHold
from kwhere.database.health_records import DatabaseHealth
from kwhere.database.inventory_records import PersonRecord, RackRecord
from kwhere.database.place_records import (
    CapacityRow,
    ManagerNodePage,
    ManagerNodeQuery,
    ManagerRecord,
    MembershipPage,
    Occupancy,
    WaitingPage,
    WaitingQuery,
)
from kwhere.database.power_records import BalanceSlot, BucketPower, PowerPoint
from kwhere.database.records import (
    FactorRecord,
    NodePage,
    NodeRecord,
    NodeState,
    Overview,
    SiteChoice,
    UnitPage,
    UnitQuery,
    UnitRecord,
    UsageBy,
    UsageReport,
)
from kwhere.database.visibility import Visibility
from kwhere.database.witness import Witness


class Account(Protocol):
    """Reads; each call is one short transaction, made from a worker thread."""

    def seen_by(self, visibility: Visibility, witness: Witness | None = None) -> "Account":
        """Return the same account as far as `visibility` goes, before the eyes of `witness`."""
        ...

    def overview(self, top: int = 8, cluster: str | None = None) -> Overview:
        """Return the first screen in figures, with the `top` units by power now."""
        ...

    def units(self, query: UnitQuery) -> UnitPage:
        """Return one page of units. Raises BadCursor for a cursor that is not ours."""
        ...

    def iterate_units(self, query: UnitQuery) -> Iterator[UnitRecord]:
        """Yield every unit of `query`, pages inside."""
        ...

    def unit(
        self, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
    ) -> UnitRecord:
        """Return a unit's run, the newest where none is named. Raises NotFound."""
        ...

    def unit_runs(self, cluster: str, manager: str, unit: str, limit: int = 20) -> Sequence[UnitRecord]:
        """Return the newest runs of a unit, newest first."""
        ...

    def earlier_of_name(self, record: UnitRecord, limit: int = 6) -> Sequence[UnitRecord]:
        """Return units of the same user, manager and name that started before `record`, newest first."""
        ...

    def unit_power(
        self, cluster: str, manager: str, unit: str, run: str, span: Span, node: str | None = None
    ) -> Sequence[BucketPower]:
        """Return a run's energy in buckets, in time order."""
        ...

    def usage(
        self,
        by: UsageBy,
        span: Span,
        cluster: str | None = None,
        user: str | None = None,
        project: str | None = None,
        manager: str | None = None,
        node: str | None = None,
    ) -> UsageReport:
        """Return sums within `span`."""
        ...

    def clusters(self) -> Sequence[ClusterRecord]:
        """Return every cluster."""
        ...

    def users(self, query: AccountQuery = ALL_ACCOUNTS) -> AccountPage:
        """Return users with their lifetime totals."""
        ...

    def projects(self, query: AccountQuery = ALL_ACCOUNTS) -> AccountPage:
        """Return projects with their lifetime totals."""
        ...

    def managers(self, cluster: str | None = None) -> Sequence[ManagerRecord]:
        """Return how far each resource manager was read."""
        ...

    def manager_nodes(self, query: ManagerNodeQuery) -> ManagerNodePage:
        """Return one page of nodes as their managers see them. Raises BadCursor, NotPermitted."""
        ...

    def capacity(self, cluster: str | None = None) -> Sequence[CapacityRow]:
        """Return what nodes have by cluster, manager and type. Raises NotPermitted."""
        ...

    def occupancy(self, cluster: str, span: Span) -> Sequence[Occupancy]:
        """Return how much of a cluster's CPU time was allocated, by day. Raises NotPermitted."""
        ...

    def memberships(
        self,
        cluster: str | None = None,
        user: str | None = None,
        project: str | None = None,
        after: str | None = None,
        limit: int = 200,
    ) -> MembershipPage:
        """Return one page of who may charge which project. Raises BadCursor."""
        ...

    def waiting(self, query: WaitingQuery) -> WaitingPage:
        """Return one page of units that wait in a queue. Raises BadCursor."""
        ...

    def nodes(
        self,
        cluster: str | None = None,
        state: NodeState | None = None,
        after: str | None = None,
        limit: int = 500,
    ) -> NodePage:
        """Return one page of nodes."""
        ...

    def node(self, node: str, cluster: str | None = None) -> NodeRecord:
        """Return a node. Raises NotFound, AmbiguousNode where several clusters have one of that name."""
        ...

    def racks(self, cluster: str | None = None) -> Sequence[RackRecord]:
        """Return the racks that have nodes here, with their power now and their limits."""
        ...

    def people(self, user: str, cluster: str | None = None) -> Mapping[str, PersonRecord]:
        """Return what the directory says of a user, by cluster; of others than oneself to who sees everything only."""
        ...

    def gpu_holds(self, cluster: str, node: str) -> Sequence[GpuHold]:
        """Return who holds GPUs of a node as of its newest slot, by device and instance."""
        ...

    def balance(self, cluster: str, node: str, span: Span, limit: int = 1000) -> Sequence[BalanceSlot]:
        """Return the newest slots' balance within `span`, in time order."""
        ...

    def power(
        self, span: Span, step_seconds: float, cluster: str | None = None, node: str | None = None
    ) -> Sequence[PowerPoint]:
        """Return energy by component and part in buckets, of one node or all."""
        ...

    def emission_factors(self, span: Span | None = None) -> Sequence[FactorRecord]:
        """Return the factors within `span`; None: those in force now."""
        ...

    def audit(self, query: AuditQuery) -> AuditPage:
        """Return one page of the audit log, newest first. Raises BadCursor, NotPermitted."""
        ...

    def health(self) -> DatabaseHealth:
        """Return whether the account is in order."""
        ...

    def site_choice(self) -> SiteChoice:
        """Return the zone chosen on the page, or proposed."""
        ...
