"""What belongs together: the runs of a requeued job, the tasks of an array, the components of a heterogeneous job."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from kwhere.core.errors import NotFound
from kwhere.core.managed import GROUP_TAGS
from kwhere.database.records import JobWords, UnitQuery, UnitRecord, UnitSort
from kwhere.reports.account import Account
from kwhere.reports.unit_findings import Finding, unit_findings
from kwhere.reports.unit_sums import add_records, memory_efficiency_of

MOST_PARTS = 5000
"""So many parts are added up; of more the sum is not told."""
_PAGE = 1000
MOST_RUNS = 100
REQUEUED = timedelta(hours=1)
"""A run that was submitted so long after the one before is another job that got its id."""
_AGAIN = frozenset(
    {
        *("requeued", "requeue_hold", "preempted", "node_fail", "boot_fail", "resizing", "special_exit", "vanished"),
        *("revoked", "relaunched", "torelaunch", "resubmitted"),
    }
)
"""States of runs that their manager begins anew."""


class Kind(StrEnum):
    """Why units belong together."""

    RUNS = "runs"
    ARRAY = "array"
    HETEROGENEOUS = "heterogeneous"


@dataclass(frozen=True, slots=True)
class WholeUnit:
    """Several units, or runs of one, and their sum."""

    kind: Kind
    record: UnitRecord
    """All of them in the shape of one unit."""
    parts: Sequence[UnitRecord]
    """In the order of their ids, of runs in that of time."""
    cpu_allocated_seconds: float | None
    memory_efficiency_ratio: float | None

    @property
    def states(self) -> Mapping[str, int]:
        """Return how many parts are in which state."""
        return Counter(part.state for part in self.parts)

    @property
    def unknown(self) -> int:
        """Return of how many parts nobody knows the energy."""
        return sum(not part.energy_uj for part in self.parts)


def whole_of_runs(account: Account, newest: UnitRecord) -> WholeUnit:
    """Return the runs of one job up to `newest`: a reused id is another job (users 22, 23)."""
    runs = account.unit_runs(newest.cluster, newest.manager, newest.unit, MOST_RUNS)
    older = [run for run in runs if run.started_at < newest.started_at]
    return _whole(Kind.RUNS, chain_of([newest, *older])[::-1], newest)


def chain_of(runs: Sequence[UnitRecord]) -> Sequence[UnitRecord]:
    """Return those of the runs of an id, newest first, that are of the newest one's job."""
    count = next((at for at in range(1, len(runs)) if not _goes_on(runs[at], runs[at - 1])), len(runs))
    return runs[:count]


def _goes_on(before: UnitRecord, after: UnitRecord) -> bool:
    if (before.user, before.project, before.name) != (after.user, after.project, after.name):
        return False
    if before.state in _AGAIN:
        return True
    if before.ended_at is None or after.submitted_at is None:
        return False
    return after.submitted_at - before.ended_at < REQUEUED and before.submitted_at != after.submitted_at


def group_of(record: UnitRecord) -> str | None:
    """Return the number of the array or heterogeneous job that a unit is a part of."""
    return next((record.labels[name] for name in GROUP_TAGS if name in record.labels), None)


def whole_of_parts(account: Account, cluster: str, manager: str, number: str, most: int | None = None) -> WholeUnit:
    """Return the array or heterogeneous job of that number, all runs of each part.

    Raises NotFound where there is none, or it has more than `most` parts.
    """
    most = MOST_PARTS if most is None else most
    query = UnitQuery(
        cluster=cluster,
        manager=manager,
        jobs=JobWords(units=frozenset({number})),
        sort=UnitSort.STARTED_AT,
        limit=min(_PAGE, most + 1),
    )
    found = list(islice(_newest_of(account, query, number), most + 1))
    if not found:
        raise NotFound(f"{manager} job {number}: no array or heterogeneous job in cluster {cluster}")
    if len(found) > most:
        raise NotFound(f"{manager} job {number}: expected at most {most} parts to add up, found more")
    parts = sorted(found, key=_place)
    kind = Kind.HETEROGENEOUS if "het_job" in parts[0].labels else Kind.ARRAY
    whole = _whole(kind, parts, parts[0])
    labels = {key: value for key, value in whole.record.labels.items() if key != "job"}
    return replace(whole, record=replace(whole.record, unit=number, labels=labels))


def _newest_of(account: Account, query: UnitQuery, number: str) -> Iterator[UnitRecord]:
    """Yield the parts of the newest job of that number, newest first, read page by page: a number may come again."""
    newest: UnitRecord | None = None
    while True:
        page = account.units(query)
        for record in page.items:
            if group_of(record) == number:
                newest = newest or record
                if record.user == newest.user:
                    yield record
        if page.next is None:
            return
        query = replace(query, after=page.next)


def whole_findings(whole: WholeUnit, now: datetime) -> list[Finding]:
    """Return what stands out: of the newest run; of a heterogeneous job's components, each thing once; of no array."""
    if whole.kind is Kind.ARRAY:
        return []
    judged = whole.parts[-1:] if whole.kind is Kind.RUNS else whole.parts
    return list({finding.kind: finding for part in judged for finding in unit_findings(part, now)}.values())


def _place(record: UnitRecord) -> tuple[int, float]:
    """Return where a part stands: `40_2` behind `40_1`, `50+1` behind `50+0`, runs of one by time."""
    ending = record.labels.get("job", "").replace("+", "_").rpartition("_")[2]
    return int(ending) if ending.isascii() and ending.isdigit() else 0, record.started_at.timestamp()


def _whole(kind: Kind, parts: Sequence[UnitRecord], newest: UnitRecord) -> WholeUnit:
    record = add_records(parts, newest)
    if kind is Kind.RUNS:
        record = replace(record, state=newest.state, submitted_at=parts[0].submitted_at)
    if kind is Kind.HETEROGENEOUS:
        record = _together(record, parts)
    held = [part.cpu_allocated_seconds for part in parts]
    known = [seconds for seconds in held if seconds is not None]
    return WholeUnit(kind, record, parts, sum(known) if known else None, memory_efficiency_of(parts))


def _together(record: UnitRecord, parts: Sequence[UnitRecord]) -> UnitRecord:
    """Return it with what components that run side by side hold together: of each the newest run counts."""
    newest = list({part.unit: part for part in sorted(parts, key=lambda part: part.started_at)}.values())
    gpus: Counter[str] = Counter()
    for part in newest:
        gpus.update(part.gpus_allocated)
    cpus = [part.cpus_allocated for part in newest]
    memory = [part.memory_allocated_bytes for part in newest]
    lengths = [part.elapsed_ns for part in newest if part.elapsed_ns is not None]
    return replace(
        record,
        cpus_allocated=None if None in cpus else sum(each for each in cpus if each is not None),
        memory_allocated_bytes=None if None in memory else sum(each for each in memory if each is not None),
        gpus_allocated=gpus,
        elapsed_ns=max(lengths, default=None),
    )
