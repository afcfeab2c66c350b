"""What resource managers say of a made-up site: two managers, eight nodes, members, and a queue."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tests.fake_units import NOW

from kwhere.core.timespan import Span
from kwhere.database.place_records import (
    Amount,
    CapacityRow,
    ManagerNodePage,
    ManagerNodeQuery,
    ManagerNodeRecord,
    ManagerRecord,
    MembershipPage,
    MembershipRecord,
    NodeSaid,
    Occupancy,
    WaitingPage,
    WaitingQuery,
    WaitingRecord,
)

GIB = 2.0**30
WHY = "memory errors on bank 3, ticket 4711"
SAID = (NodeSaid("slurm", "mixed+drain", False, WHY, "epyc", NOW - timedelta(minutes=2)),)


def _cpus(total: float, allocated: float, *, is_open: bool = True) -> Amount:
    rest = total - allocated
    return Amount(total, allocated, rest if is_open else 0.0, 0.0 if is_open else rest)


def _node(
    name: str, state: str, allocated: float, *, is_open: bool = True, reason: str | None = None
) -> ManagerNodeRecord:
    gpus = {"a100": Amount(4, 4, 0, 0)} if name.startswith("gpu") else {}
    return ManagerNodeRecord(
        cluster="local",
        manager="slurm",
        name=name,
        state=state,
        is_schedulable=is_open,
        reason=reason,
        type="gpu, a100" if gpus else "epyc",
        cpus=_cpus(64, allocated, is_open=is_open),
        memory=_cpus(256 * GIB, allocated * 3 * GIB, is_open=is_open),
        gpus=gpus,
        queues=("gpu",) if gpus else ("main", "long"),
        seen_at=NOW - timedelta(minutes=2),
        is_reporting=name in ("node-a", "node-b"),
        reported_as=name if name in ("node-a", "node-b") else None,
    )


NODES = (
    _node("gpu-1", "allocated", 64),
    _node("node-a", "mixed+drain", 40, is_open=False, reason=WHY),
    _node("node-b", "mixed", 32),
    _node("node-c", "idle", 0),
    _node("node-d", "down*", 0, is_open=False, reason="Not responding [root@2026-11-28T09:12:44]"),
)
CAPACITY = (
    CapacityRow(
        *("local", "slurm", "epyc", 4, 2, {"down*": 1, "idle": 1, "mixed": 1, "mixed+drain": 1}),
        Amount(256, 72, 96, 88),
        Amount(1024 * GIB, 216 * GIB, 416 * GIB, 392 * GIB),
    ),
    CapacityRow(
        *("local", "slurm", "gpu, a100", 1, 0, {"allocated": 1}),
        *(Amount(64, 64, 0, 0), Amount(256 * GIB, 192 * GIB, 64 * GIB, 0), {"a100": Amount(4, 4, 0, 0)}),
    ),
    CapacityRow("local", "kubernetes", None, 2, 0, {"ready": 2}, Amount(16, None, None, 0), None),
)
MEMBERS = (
    MembershipRecord("local", "alice", "aero", ("slurm",)),
    MembershipRecord("local", "grace", "aero", ("slurm",)),
    MembershipRecord("local", "bob", "vision", ("kubernetes", "slurm")),
)


def _waiting(unit: str, user: str, hours: float, **changes: object) -> WaitingRecord:
    record = WaitingRecord(
        *("local", "slurm", unit, f"sweep-{unit}", user, "aero", "phys", "main", "pending", "Priority"),
        NOW - timedelta(hours=hours),
        NOW + timedelta(hours=3),
        *(4321.0, 32.0, int(96 * GIB), {"a100": 2.0}, 1, 1, {"job": unit}, NOW - timedelta(seconds=20)),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


WAITING = (
    _waiting("4300", "alice", 30.2),
    _waiting("4310", "bob", 2.5, project="vision", reason="Resources", tasks=400, expected_start_at=None),
    _waiting("4311", "erin", 0.2, project=None, submitted_at=None, asked_gpus={}, asked_memory_bytes=None),
)


class FakePlaces:
    """Answers of managers, as the database's reader has them."""

    is_managed = True

    def managers(self, cluster: str | None = None) -> Sequence[ManagerRecord]:
        if not self.is_managed:
            return ()
        good = NOW - timedelta(seconds=40)
        return (
            ManagerRecord(
                "local", "kubernetes", NOW - timedelta(hours=2), good, "connection refused", good, None, 2, 0, 1, 0
            ),
            ManagerRecord("local", "slurm", good, NOW - timedelta(minutes=2), None, None, good, 5, 2, 2, 402),
        )

    def manager_nodes(self, query: ManagerNodeQuery) -> ManagerNodePage:
        if not self.is_managed:
            return ManagerNodePage((), None)
        wanted = query.is_schedulable
        return ManagerNodePage(tuple(n for n in NODES if wanted is None or n.is_schedulable is wanted), None)

    def capacity(self, cluster: str | None = None) -> Sequence[CapacityRow]:
        return CAPACITY if self.is_managed else ()

    def occupancy(self, cluster: str, span: Span) -> Sequence[Occupancy]:
        if not self.is_managed:
            return ()
        days = [NOW.replace(hour=0) - timedelta(days=back) for back in range(29, -1, -1)]
        hours = 3600 * 10**9
        return [
            Occupancy(
                day,
                day + timedelta(days=1),
                None if at == 4 else (40 + at % 7 * 8) * 24 * hours,
                (25 + at % 5 * 9) * 24 * hours,
                128 * 24 * hours,
            )
            for at, day in enumerate(days)
        ]

    def memberships(
        self,
        cluster: str | None = None,
        user: str | None = None,
        project: str | None = None,
        after: str | None = None,
        limit: int = 200,
    ) -> MembershipPage:
        if not self.is_managed:
            return MembershipPage((), None)
        found = (m for m in MEMBERS if user in (None, m.user) and project in (None, m.project))
        return MembershipPage(tuple(found), None)

    def waiting(self, query: WaitingQuery) -> WaitingPage:
        if not self.is_managed:
            return WaitingPage((), None)
        found = [w for w in WAITING if query.user in (None, w.user) and query.project in (None, w.project)]
        return WaitingPage(tuple(found), None)
