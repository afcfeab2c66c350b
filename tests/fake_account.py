"""A made-up site that answers like the database: two nodes, a dozen units, a day; every figure plain arithmetic."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tests.fake_places import SAID, FakePlaces
from tests.fake_units import FACTOR_G_PER_KWH, METHODS, NOW, UNITS, energy_of, sum_of

from kwhere.core.errors import NotFound
from kwhere.core.terms import Component, EntryKind
from kwhere.core.timespan import Span
from kwhere.database.account_records import (
    ALL_ACCOUNTS,
    AccountPage,
    AccountQuery,
    AccountRecord,
    ClusterRecord,
)
from kwhere.database.audit import AuditPage, AuditQuery
from kwhere.database.gpu_records import GpuHold
from kwhere.database.health_records import DatabaseHealth
from kwhere.database.inventory_records import PersonRecord, RackRecord
from kwhere.database.periods import PERIODS
from kwhere.database.power_records import (
    BalanceSlot,
    BucketPower,
    ComponentBalance,
    ComponentShares,
    PartEnergy,
    PowerPoint,
)
from kwhere.database.reader import AmbiguousNode, BadCursor
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
    UnitSort,
    UsageBy,
    UsageReport,
    UsageRow,
)
from kwhere.database.visibility import Visibility
from kwhere.database.witness import Witness


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that stands."""

    now: datetime = NOW

    def monotonic_ns(self) -> int:
        return 0

    def boottime_ns(self) -> int:
        return 0

    def utc_ns(self) -> int:
        return int(self.now.timestamp()) * 1_000_000_000


@dataclass
class FakeAccount(FakePlaces):
    """Answers like the database's reader, from `UNITS`."""

    records: tuple[UnitRecord, ...] = UNITS
    empty: bool = False
    zone: str | None = "FR"
    proposed: bool = True
    residual_uj: int = 0
    calls: list[str] = field(default_factory=list)
    holds: tuple[GpuHold, ...] = ()
    known_racks: tuple[RackRecord, ...] = ()
    known_people: tuple[PersonRecord, ...] = ()

    def racks(self, cluster: str | None = None) -> tuple[RackRecord, ...]:
        return self.known_racks

    def people(self, user: str, cluster: str | None = None) -> dict[str, PersonRecord]:
        return {person.cluster: person for person in self.known_people if person.user == user}

    def seen_by(self, visibility: Visibility, witness: Witness | None = None) -> "FakeAccount":
        return self

    def gpu_holds(self, cluster: str, node: str) -> tuple[GpuHold, ...]:
        return tuple(hold for hold in self.holds if hold.gpu.node == node)

    def overview(self, top: int = 8, cluster: str | None = None) -> Overview:
        self.calls.append("overview")
        if self.empty:
            return Overview(NOW, None, {}, Span(NOW - timedelta(hours=18), NOW), 0, None, None, None, {}, 0, (), (), 0)
        live = sorted((r for r in self.records if r.power_uw), key=lambda r: -(r.power_uw or 0))
        point = _power_points(Span(NOW - timedelta(seconds=10), NOW), 10)[0]
        energy = sum(p.energy_uj for p in _power_points(Span(NOW - timedelta(hours=18), NOW), 300))
        now = {c: ComponentShares(*(v // 10 for v in _fields(s))) for c, s in point.components.items()}
        return Overview(
            at=NOW - timedelta(seconds=4),
            power_uw=sum(s.total_uj for s in now.values()),
            power_now=now,
            today=Span(NOW - timedelta(hours=18), NOW),
            energy_today_uj=energy,
            emissions_today_grams=None if self.zone is None else energy / 3.6e12 * FACTOR_G_PER_KWH,
            measured_ratio=0.941,
            completeness_ratio=0.9987,
            nodes_by_state={NodeState.UP: 2},
            units_running=len(live),
            top_units=tuple(live[:top]),
            methods=METHODS,
            residual_uj=self.residual_uj,
        )

    def units(self, query: UnitQuery) -> UnitPage:
        self.calls.append("units")
        found = [] if self.empty else [r for r in self.records if _matches(r, query)]
        if query.sort is UnitSort.POWER_WATTS:
            found = [r for r in found if r.power_uw is not None]
        found.sort(key=lambda r: _sort_key(r, query.sort), reverse=query.descending)
        try:
            first = int(query.after or 0)
        except ValueError:
            raise BadCursor("after: this cursor is not one of ours") from None
        items = tuple(found[first : first + query.limit])
        following = first + query.limit
        return UnitPage(
            items,
            str(following) if following < len(found) else None,
            query.span or Span(NOW - timedelta(days=1), NOW),
            0.9987,
        )

    def iterate_units(self, query: UnitQuery) -> Iterator[UnitRecord]:
        yield from self.units(replace(query, limit=10**9, after=None)).items

    def unit(
        self, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
    ) -> UnitRecord:
        for record in self.records:
            if (record.cluster, record.manager, record.unit) == (cluster, manager, unit) and run in (None, record.run):
                return record
        raise NotFound(f"unit {manager}/{unit} of cluster {cluster}: no such unit")

    def unit_runs(self, cluster: str, manager: str, unit: str, limit: int = 20) -> Sequence[UnitRecord]:
        return [self.unit(cluster, manager, unit)]

    def earlier_of_name(self, record: UnitRecord, limit: int = 6) -> Sequence[UnitRecord]:
        found = (r for r in self.records if (r.user, r.name) == (record.user, record.name))
        return [r for r in found if r.started_at < record.started_at][:limit]

    def unit_power(
        self, cluster: str, manager: str, unit: str, run: str, span: Span, node: str | None = None
    ) -> Sequence[BucketPower]:
        record = self.unit(cluster, manager, unit, run)
        watts = (record.power_uw or 1e7) / 1e6
        buckets = []
        for bucket in span.buckets(timedelta(minutes=5)):
            swing = 1 + 0.3 * math.sin(bucket.start.timestamp() / 1800)
            energy = energy_of(watts * swing, 1 / 12)
            buckets.append(BucketPower(bucket, energy, sum_of(energy), 300 * 10**9, 600 * 10**9))
        return buckets

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
        found = [r for r in self.records if user in (None, r.user) and project in (None, r.project)]
        rows = [] if self.empty else [_usage_row(by, key, group) for key, group in _groups(by, found).items()]
        rows.sort(key=lambda row: row.key or "" if by in PERIODS else -row.energy_total_uj)
        if not self.empty and by not in PERIODS and user is None and project is None:
            for kind, watts in ((EntryKind.SYSTEM, 14.0), (EntryKind.UNALLOCATED, 61.0)):
                energy = energy_of(watts, 24)
                rows.append(
                    UsageRow(
                        None, None, kind, 0, energy, sum_of(energy), None, None, None, sum_of(energy) / 3.6e12 * 56
                    )
                )
        return UsageReport(by, span, tuple(rows), 0.9987, 0.941)

    def clusters(self) -> Sequence[ClusterRecord]:
        return () if self.empty else (ClusterRecord("local", 2, {NodeState.UP: 2}, 9, 318_000_000, self.zone),)

    def users(self, query: AccountQuery = ALL_ACCOUNTS) -> AccountPage:
        return AccountPage(_accounts([r.user for r in self.records], query), None)

    def projects(self, query: AccountQuery = ALL_ACCOUNTS) -> AccountPage:
        found = _accounts([r.project for r in self.records], query)
        return AccountPage(
            tuple(replace(each, description="Flow around wings", parent="engineering") for each in found), None
        )

    def nodes(
        self,
        cluster: str | None = None,
        state: NodeState | None = None,
        after: str | None = None,
        limit: int = 500,
    ) -> NodePage:
        self.calls.append("nodes")
        return NodePage(() if self.empty else (_node("node-a", 201.0, 1.0), _node("node-b", 117.0, 0.9974)), None)

    def node(self, node: str, cluster: str | None = None) -> NodeRecord:
        if node == "twin" and cluster is None:
            raise AmbiguousNode(node, ["c1", "c2"])
        if node not in ("node-a", "node-b", "twin") or self.empty:
            raise NotFound(f"node {node!r}: no such node")
        return _node(node, 201.0, 1.0)

    def balance(self, cluster: str, node: str, span: Span, limit: int = 1000) -> Sequence[BalanceSlot]:
        points = self.power(span, 10, cluster, node)[-limit:]
        return [_balance(point, self.residual_uj) for point in points]

    def power(
        self, span: Span, step_seconds: float, cluster: str | None = None, node: str | None = None
    ) -> Sequence[PowerPoint]:
        self.calls.append("power")
        if self.empty:
            return ()
        return _power_points(span, step_seconds)

    def emission_factors(self, span: Span | None = None) -> Sequence[FactorRecord]:
        if self.zone is None:
            return ()
        year = Span(datetime(2025, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
        source = "Ember, Yearly Electricity Data, 2025, CC BY 4.0"
        published = datetime(2026, 4, 2, tzinfo=UTC)
        return (
            FactorRecord(
                *("static", self.zone, "average", "lifecycle", "production", "static"),
                *(year, FACTOR_G_PER_KWH, published, source, True),
            ),
        )

    def audit(self, query: AuditQuery) -> AuditPage:
        return AuditPage((), None)

    def health(self) -> DatabaseHealth:
        return DatabaseHealth("0001", "sqlite", {NodeState.UP: 2}, 0, 0, 0, None)

    def site_choice(self) -> SiteChoice:
        return SiteChoice(self.zone, self.proposed and self.zone is not None)


def _fields(shares: ComponentShares) -> tuple[int, int, int, int]:
    return shares.units_dynamic_uj, shares.units_idle_uj, shares.system_uj, shares.unallocated_uj


def _matches(record: UnitRecord, query: UnitQuery) -> bool:
    wanted = (
        (query.cluster, record.cluster),
        (query.manager, record.manager),
        (query.user, record.user),
        (query.project, record.project),
        (query.queue, record.queue),
    )
    if any(asked is not None and asked != found for asked, found in wanted):
        return False
    if query.states and record.state not in query.states:
        return False
    if query.jobs is not None and record.unit not in query.jobs.units:
        return False
    if query.node is not None and query.node not in record.nodes:
        return False
    text = " ".join(filter(None, (record.unit, record.name, record.user, record.project))).lower()
    return query.q is None or query.q.lower() in text


def _sort_key(record: UnitRecord, sort: UnitSort) -> float:
    if sort is UnitSort.POWER_WATTS:
        return record.power_uw or 0
    if sort is UnitSort.CPU_SECONDS:
        return (record.cpu_user_ns or 0) + (record.cpu_system_ns or 0)
    if sort is UnitSort.STARTED_AT:
        return record.started_at.timestamp()
    if sort is UnitSort.ENDED_AT:
        return (record.ended_at or NOW).timestamp()
    return record.energy_total_uj


def _groups(by: UsageBy, records: Sequence[UnitRecord]) -> dict[str | None, list[UnitRecord]]:
    keys: dict[UsageBy, Callable[[UnitRecord], str | None]] = {
        UsageBy.USER: lambda r: r.user,
        UsageBy.PROJECT: lambda r: r.project,
        UsageBy.MANAGER: lambda r: r.manager,
        UsageBy.CLUSTER: lambda r: r.cluster,
        UsageBy.NODE: lambda r: r.nodes[0],
        UsageBy.DAY: lambda r: r.started_at.date().isoformat(),
        UsageBy.WEEK: lambda r: f"{r.started_at:%G-W%V}",
        UsageBy.MONTH: lambda r: f"{r.started_at:%Y-%m}",
    }
    groups: dict[str | None, list[UnitRecord]] = {}
    for record in records:
        groups.setdefault(keys[by](record), []).append(record)
    return groups


def _usage_row(by: UsageBy, key: str | None, group: Sequence[UnitRecord]) -> UsageRow:
    energy = {
        component: PartEnergy(
            sum(r.energy_uj[component].dynamic_uj or 0 for r in group),
            sum(r.energy_uj[component].idle_uj or 0 for r in group),
        )
        for component in (Component.CPU, Component.DRAM, Component.OTHER)
    }
    cpu_ns = sum((r.cpu_user_ns or 0) + (r.cpu_system_ns or 0) for r in group)
    grams = sum(r.emissions_grams or 0 for r in group)
    return UsageRow(
        key, "local", EntryKind.UNIT, len(group), energy, sum_of(energy), cpu_ns, cpu_ns * 14 // 10, None, grams
    )


def _accounts(names: Sequence[str | None], query: AccountQuery) -> tuple[AccountRecord, ...]:
    return tuple(
        AccountRecord("local", name, names.count(name), 1, 3_600_000_000_000, 56.0, NOW)
        for name in sorted({n for n in names if n is not None})
        if query.name in (None, name) and query.parent is None
    )


def _node(name: str, watts: float, completeness: float) -> NodeRecord:
    return NodeRecord(
        cluster="local",
        node=name,
        state=NodeState.UP,
        power_uw=int(watts * 1e6),
        completeness_ratio=completeness,
        lag_seconds=4.2,
        newest_slot_at=NOW - timedelta(seconds=4),
        first_slot_at=NOW - timedelta(days=12),
        last_pull_at=NOW - timedelta(seconds=1),
        last_error=None,
        stopped=None,
        clock_offset_seconds=0.012,
        cpus=64,
        version="0.1.0",
        idle_policy="allocation",
        parent=None,
        units_running=6,
        methods=METHODS,
        measured_ratio=0.941,
        lost_records=0,
        quarantined_slots=0,
        said=SAID if name == "node-a" else (),
    )


def _power_points(span: Span, step_seconds: float) -> list[PowerPoint]:
    return [_power_point(bucket) for bucket in span.buckets(timedelta(seconds=step_seconds)) if bucket.end <= NOW]


def _power_point(bucket: Span) -> PowerPoint:
    at = bucket.start.timestamp()
    wave = 1 + 0.22 * math.sin(at / 420) + 0.09 * math.sin(at / 67)
    busy = 150.0 if math.sin(at / 1900) > -0.2 else 70.0
    dynamic = busy * wave
    scale = bucket.seconds * 1e6
    cpu = ComponentShares(int(dynamic * scale), int(54 * scale), int(6.1 * scale * wave), int(38 * scale))
    dram = ComponentShares(int(dynamic * 0.11 * scale), int(8 * scale), int(0.8 * scale), int(6 * scale))
    other = ComponentShares(int(dynamic * 0.16 * scale), int(11 * scale), int(1.1 * scale), int(9 * scale))
    return PowerPoint(bucket, {Component.CPU: cpu, Component.DRAM: dram, Component.OTHER: other}, 2 * bucket.seconds, 2)


def _balance(point: PowerPoint, residual_uj: int) -> BalanceSlot:
    parts = []
    for component, shares in point.components.items():
        method = next(m for m in METHODS if m.component is component)
        parts.append(
            ComponentBalance(
                component,
                shares.total_uj + residual_uj,
                *_fields(shares),
                residual_uj,
                int(point.span.seconds * 1e9),
                method.method,
                method.source,
            )
        )
    units = sum(s.units_dynamic_uj + s.units_idle_uj for s in point.components.values())
    return BalanceSlot(
        point.span,
        sum(part.node_uj for part in parts),
        units,
        sum(s.system_uj for s in point.components.values()),
        sum(s.unallocated_uj for s in point.components.values()),
        sum(part.residual_uj for part in parts),
        tuple(parts),
        frozenset(),
    )
