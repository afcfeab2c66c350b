"""Unit, what its manager says of it: state, queue, allocation, times; its runs, and what it is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kwhere.core.errors import NotFound
from kwhere.core.managed import AT_REST
from kwhere.core.quantities import joules, seconds
from kwhere.database.records import UnitRecord
from kwhere.reports.account import Account
from kwhere.reports.figures import duration
from kwhere.reports.unit_whole import Kind, group_of, whole_of_parts
from kwhere.web.formatting import Column, column_of

RUNS_SHOWN = 20
MOST_ON_PAGE = 200
"""So many parts are added up for a page: it should not wait for more."""
SHOWN_TAGS = frozenset({"job", "array_job", "het_job", "array_id"})
"""Tags that the head of the page tells in words."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a manager says, as people read it; empty: it does not say."""

    shown_id: str
    """As the manager shows it: `123_4`."""
    waited: str
    ran: str
    """`1-02:03:04`; of what has not ended up to now."""
    so_far: str
    """What that time is of what has not ended: `in progress for`, `shut off now, there for`; empty: it has ended."""
    suspended: str
    """How long it held nothing between its start and its end."""
    group: str
    """Of which array or heterogeneous job it is a part."""
    group_kind: str
    restarts: str
    tags: Sequence[tuple[str, str]]


def said_of(record: UnitRecord, now: datetime) -> Said:
    """Return what the manager says of a unit."""
    whole = _seconds_between(record.started_at, record.ended_at or now)
    held = seconds(record.elapsed_ns) if record.elapsed_ns is not None and record.ended_at else whole
    tags = record.labels
    waited = None if record.submitted_at is None else _seconds_between(record.submitted_at, record.started_at)
    return Said(
        shown_id=tags.get("job", record.unit),
        waited="" if waited is None else duration(waited),
        ran=duration(held),
        so_far=_so_far(record),
        suspended=duration(whole - held) if whole - held >= 1 else "",
        group=group_of(record) or "",
        group_kind="heterogeneous job" if "het_job" in tags else "array",
        restarts=tags.get("restarts", ""),
        tags=[(key, value) for key, value in tags.items() if key not in SHOWN_TAGS],
    )


def _so_far(record: UnitRecord) -> str:
    """How much of the time since its start a unit at rest did run, nobody says."""
    if record.ended_at is not None:
        return ""
    return f"{record.state} now, there for" if record.state in AT_REST else "in progress for"


def _seconds_between(start: datetime, end: datetime) -> float:
    """Return whole seconds: managers know no finer ones."""
    return float(max(0, int((end - start) / timedelta(seconds=1))))


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, or an earlier unit, beside others."""

    record: UnitRecord
    is_this: bool
    ran: str
    energy_joules: float | None
    """None: no agent reported it."""
    cpu_seconds: float | None


@dataclass(frozen=True, slots=True)
class RunTable:
    """Runs side by side, newest first; totals are over the rows, None where nothing is known."""

    rows: Sequence[RunRow]
    energy: Column
    grams: Column
    cpu: Column
    total_joules: float | None
    total_grams: float | None
    total_cpu_seconds: float | None
    is_cut: bool
    """More are known than are shown."""


def run_table(records: Sequence[UnitRecord], this: UnitRecord, now: datetime, most: int = RUNS_SHOWN) -> RunTable:
    """Return runs as a table; a requeued job's energy is the sum of its runs (users 22)."""
    rows = [_run_row(record, this, now) for record in records[:most]]
    energies = [row.energy_joules for row in rows]
    grams = [row.record.emissions_grams for row in rows]
    cpus = [row.cpu_seconds for row in rows]
    totals = _sum(energies), _sum(grams), _sum(cpus)
    return RunTable(
        rows,
        column_of([*energies, totals[0]], "energy"),
        column_of([*grams, totals[1]], "mass"),
        column_of([*cpus, totals[2]], "cpu_time"),
        *totals,
        is_cut=len(records) > most,
    )


@dataclass(frozen=True, slots=True)
class WholeTable:
    """The array or heterogeneous job that a unit is a part of; totals are over all parts, shown or not."""

    table: RunTable
    count: int
    word: str
    unknown: int
    efficiency_ratio: float | None


def whole_table(account: Account, this: UnitRecord, now: datetime) -> WholeTable | None:
    """Return what the unit is a part of; None where it stands alone, or there are too many parts for a page."""
    number = group_of(this)
    if number is None:
        return None
    try:
        whole = whole_of_parts(account, this.cluster, this.manager, number, MOST_ON_PAGE)
    except NotFound:
        return None
    total = _run_row(whole.record, this, now)
    shown = run_table(whole.parts, this, now)
    table = replace(
        shown,
        energy=column_of([*(row.energy_joules for row in shown.rows), total.energy_joules], "energy"),
        grams=column_of([*(row.record.emissions_grams for row in shown.rows), whole.record.emissions_grams], "mass"),
        cpu=column_of([*(row.cpu_seconds for row in shown.rows), total.cpu_seconds], "cpu_time"),
        total_joules=total.energy_joules,
        total_grams=whole.record.emissions_grams,
        total_cpu_seconds=total.cpu_seconds,
    )
    count = len({part.unit for part in whole.parts})
    word = "tasks" if whole.kind is Kind.ARRAY else "components"
    return WholeTable(table, count, word, whole.unknown, whole.record.cpu_efficiency_ratio)


def _run_row(record: UnitRecord, this: UnitRecord, now: datetime) -> RunRow:
    is_known = bool(record.energy_uj)
    used = None
    if record.cpu_user_ns is not None or record.cpu_system_ns is not None:
        used = seconds((record.cpu_user_ns or 0) + (record.cpu_system_ns or 0))
    return RunRow(
        record,
        (record.unit, record.run) == (this.unit, this.run),
        said_of(record, now).ran + _in_brackets(record),
        joules(record.energy_total_uj) if is_known else None,
        used,
    )


def _in_brackets(record: UnitRecord) -> str:
    if record.ended_at is not None:
        return ""
    return f" ({record.state} now)" if record.state in AT_REST else " (in progress)"


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
