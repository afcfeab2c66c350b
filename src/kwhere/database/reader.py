"""The door to the read side: one short transaction per question. Synchronous; asked from worker threads."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.timespan import Span
from kwhere.database.account_records import ALL_ACCOUNTS, AccountPage, AccountQuery, ClusterRecord
from kwhere.database.audit import AuditPage, AuditQuery
from kwhere.database.choices import read_site_choice
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
from kwhere.database.reading import (
    accounts,
    capacity,
    inventory,
    node_list,
    one_unit,
    power,
    unit_gpus,
    unit_list,
    usage,
)
from kwhere.database.reading.audit_list import list_audit
from kwhere.database.reading.factor_list import list_factors
from kwhere.database.reading.health import health
from kwhere.database.reading.kin import earlier_of_name
from kwhere.database.reading.manager_list import list_managers
from kwhere.database.reading.membership_list import list_memberships
from kwhere.database.reading.node_list import AmbiguousNode
from kwhere.database.reading.overview import overview
from kwhere.database.reading.paging import BadCursor
from kwhere.database.reading.site import Moment, zone_of_site
from kwhere.database.reading.waiting_list import list_waiting
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
from kwhere.database.settings import SiteSettings
from kwhere.database.visibility import EVERYTHING, Visibility
from kwhere.database.witness import Owners, Witness, words_of

__all__ = ["AmbiguousNode", "BadCursor", "Reader"]

T = TypeVar("T")
_WHOLE = 1000


class Reader:
    """Reads of one account by one who sees `visibility`. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        site: SiteSettings,
        visibility: Visibility = EVERYTHING,
        witness: Witness | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._site = site
        self._visibility = visibility
        self._witness = witness

    def seen_by(self, visibility: Visibility, witness: Witness | None = None) -> "Reader":
        """Return a reader of the same account that sees `visibility`, and no more, before the eyes of `witness`."""
        return Reader(self._engine, self._clock, self._site, visibility, witness)

    def _tell(self, action: str, subject: str, owners: Owners) -> None:
        if self._witness is not None and owners:
            self._witness.saw(action, subject, owners)

    def _ask(self, question: Callable[[Moment], T]) -> T:
        with self._engine.connect() as connection:
            sight = self._visibility.resolve(connection)
            return question(Moment(connection, self._clock.utc_ns(), self._site, sight))

    def overview(self, top: int = 8, cluster: str | None = None) -> Overview:
        """Return the first screen in figures, with the `top` units by power now."""
        found = self._ask(lambda moment: overview(moment, top, cluster))
        self._tell("list units", "overview", _owners(found.top_units))
        return found

    def units(self, query: UnitQuery) -> UnitPage:
        """Return one page of units. Raises BadCursor for a cursor that is not ours."""
        page = self._ask(lambda moment: unit_list.list_units(moment, query))
        self._tell("list units", words_of(query), _owners(page.items))
        return page

    def iterate_units(self, query: UnitQuery) -> Iterator[UnitRecord]:
        """Yield every unit of `query`, pages inside."""
        query = replace(query, limit=_WHOLE)
        while True:
            page = self.units(query)
            yield from page.items
            if page.next is None:
                return
            query = replace(query, after=page.next)

    def unit(
        self, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
    ) -> UnitRecord:
        """Return a unit's run, the newest where none is named. Raises NotFound."""
        record = self._ask(lambda moment: one_unit.find_unit(moment, cluster, manager, unit, run, node))
        self._tell("read unit", f"{record.cluster}/{record.manager}/{record.run}", _owners([record]))
        return record

    def unit_runs(self, cluster: str, manager: str, unit: str, limit: int = 20) -> tuple[UnitRecord, ...]:
        """Return the newest runs of a unit, newest first."""
        runs = self._ask(lambda moment: one_unit.earlier_runs(moment, cluster, manager, unit, limit))
        if len(runs) == 1:  # as `unit` tells of it
            self._tell("read unit", f"{cluster}/{manager}/{runs[0].run}", _owners(runs))
        else:  # an id that came again was another's before
            self._tell("list units", f"runs of {cluster}/{manager}/{unit}", _owners(runs))
        return runs

    def earlier_of_name(self, record: UnitRecord, limit: int = 6) -> tuple[UnitRecord, ...]:
        """Return units of the same user, manager and name that started before `record`, newest first."""
        found = self._ask(lambda moment: earlier_of_name(moment, record, limit))
        words = {"cluster": record.cluster, "manager": record.manager, "user": record.user, "name": record.name}
        self._tell("list units", words_of(words), _owners(found))
        return found

    def unit_power(
        self, cluster: str, manager: str, unit: str, run: str, span: Span, node: str | None = None
    ) -> tuple[BucketPower, ...]:
        """Return a run's energy in buckets, in time order. Raises NotFound."""
        return self._ask(lambda moment: one_unit.unit_power(moment, cluster, manager, unit, run, span, node))

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
        narrowed = usage.UsageFilter(cluster, user, project, manager, node)
        report = self._ask(lambda moment: usage.usage_report(moment, by, span, narrowed))
        if by in (UsageBy.USER, UsageBy.PROJECT) or user is not None or project is not None:
            words = {"by": by, "cluster": cluster, "user": user, "project": project, "manager": manager, "node": node}
            self._tell("read usage", words_of(words), [("", user)])
        return report

    def clusters(self) -> tuple[ClusterRecord, ...]:
        """Return every cluster."""
        return self._ask(accounts.list_clusters)

    def users(self, query: AccountQuery = ALL_ACCOUNTS) -> AccountPage:
        """Return users with their lifetime totals. Raises BadCursor."""
        page = self._ask(lambda moment: accounts.list_users(moment, query))
        self._tell("list users", words_of(query), [(item.cluster, item.name) for item in page.items])
        return page

    def projects(self, query: AccountQuery = ALL_ACCOUNTS) -> AccountPage:
        """Return projects with their lifetime totals. Raises BadCursor."""
        return self._ask(lambda moment: accounts.list_projects(moment, query))

    def managers(self, cluster: str | None = None) -> tuple[ManagerRecord, ...]:
        """Return how far each resource manager was read."""
        return self._ask(lambda moment: list_managers(moment, cluster))

    def manager_nodes(self, query: ManagerNodeQuery) -> ManagerNodePage:
        """Return one page of nodes as their managers see them. Raises BadCursor, NotPermitted."""
        return self._ask(lambda moment: capacity.list_manager_nodes(moment, query))

    def capacity(self, cluster: str | None = None) -> tuple[CapacityRow, ...]:
        """Return what nodes have by cluster, manager and type. Raises NotPermitted."""
        return self._ask(lambda moment: capacity.capacity(moment, cluster))

    def occupancy(self, cluster: str, span: Span) -> tuple[Occupancy, ...]:
        """Return how much of a cluster's CPU time was allocated, by day. Raises NotPermitted."""
        return self._ask(lambda moment: capacity.occupancy(moment, cluster, span))

    def memberships(
        self,
        cluster: str | None = None,
        user: str | None = None,
        project: str | None = None,
        after: str | None = None,
        limit: int = 200,
    ) -> MembershipPage:
        """Return one page of who may charge which project. Raises BadCursor."""
        page = self._ask(lambda moment: list_memberships(moment, cluster, user, project, after, limit))
        words = words_of({"cluster": cluster, "user": user, "project": project})
        self._tell("list members", words, [(item.cluster, item.user) for item in page.items])
        return page

    def waiting(self, query: WaitingQuery) -> WaitingPage:
        """Return one page of units that wait in a queue. Raises BadCursor."""
        page = self._ask(lambda moment: list_waiting(moment, query))
        self._tell("list waiting units", words_of(query), [(item.cluster, item.user) for item in page.items])
        return page

    def nodes(
        self,
        cluster: str | None = None,
        state: NodeState | None = None,
        after: str | None = None,
        limit: int = 500,
    ) -> NodePage:
        """Return one page of nodes. Raises BadCursor."""
        return self._ask(lambda moment: node_list.list_nodes(moment, cluster, state, after, limit))

    def node(self, node: str, cluster: str | None = None) -> NodeRecord:
        """Return a node. Raises NotFound, AmbiguousNode where several clusters have one of that name."""
        return self._ask(lambda moment: node_list.find_node(moment, node, cluster))

    def racks(self, cluster: str | None = None) -> tuple[RackRecord, ...]:
        """Return the racks that have nodes here, with their power now and their limits."""
        return self._ask(lambda moment: inventory.list_racks(moment, cluster))

    def people(self, user: str, cluster: str | None = None) -> Mapping[str, PersonRecord]:
        """Return what the directory says of a user, by cluster; of others than oneself to who sees everything only."""
        found = self._ask(lambda moment: inventory.find_people(moment, user, cluster))
        self._tell("read person", user, [(each, user) for each in found])
        return found

    def gpu_holds(self, cluster: str, node: str) -> tuple[GpuHold, ...]:
        """Return who holds GPUs of a node as of its newest slot, by device and instance."""
        found = self._ask(lambda moment: unit_gpus.gpu_holds(moment, cluster, node))
        self._tell("list units", f"GPUs of {cluster}/{node}", [(cluster, hold.user) for hold in found])
        return found

    def balance(self, cluster: str, node: str, span: Span, limit: int = 1000) -> tuple[BalanceSlot, ...]:
        """Return the newest slots' balance within `span`, in time order. Raises NotFound."""
        return self._ask(lambda moment: power.balance_slots(moment, cluster, node, span, limit))

    def power(
        self, span: Span, step_seconds: float, cluster: str | None = None, node: str | None = None
    ) -> tuple[PowerPoint, ...]:
        """Return energy by component and part in buckets, of one node or all."""
        return self._ask(lambda moment: power.power_points(moment, span, step_seconds, cluster, node))

    def emission_factors(self, span: Span | None = None) -> tuple[FactorRecord, ...]:
        """Return the factors within `span`; None: those in force now."""
        return self._ask(lambda moment: list_factors(moment, span))

    def audit(self, query: AuditQuery) -> AuditPage:
        """Return one page of the audit log, newest first. Raises BadCursor, NotPermitted."""
        return self._ask(lambda moment: list_audit(moment, query))

    def health(self) -> DatabaseHealth:
        """Return whether the account is in order."""
        return self._ask(health)

    def site_choice(self) -> SiteChoice:
        """Return the zone in force: chosen on the page, else set, else proposed."""
        return self._ask(_site_choice)


def _owners(records: Iterable[UnitRecord]) -> Owners:
    return [(record.cluster, record.user) for record in records]


def _site_choice(moment: Moment) -> SiteChoice:
    held = read_site_choice(moment.connection)
    zone = zone_of_site(moment.connection, moment.site)
    return SiteChoice(zone=zone, zone_proposed=held.zone_proposed and moment.site.zone is None)
