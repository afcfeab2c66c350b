"""The table of units: its columns, how each is shown, how a list is sorted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from kwhere.core.quantities import joules, seconds
from kwhere.core.terms import Component, Flag, Part
from kwhere.database.records import UnitRecord, UnitSort
from kwhere.reports.figures import duration
from kwhere.web.formatting import BarPiece, bar_pieces, column_of, fill_of, length, no_data, percent

TimeTag = Callable[[datetime | None], Markup]
Value = Callable[[UnitRecord], float | None]


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """A column: what a person calls it, how it is sorted, what its cells hold."""

    key: str
    title: str
    is_number: bool = False
    quantity: str | None = None
    value: Value | None = None
    sort: UnitSort | None = None
    is_default: bool = True
    reason: Callable[[UnitRecord], str] = lambda record: why_missing(record)


def why_missing(record: UnitRecord) -> str:
    """Return why a figure of a unit is not there."""
    return "not measured on this node" if record.is_reported else "no agent reported it"


def _power(record: UnitRecord) -> float | None:
    return None if record.power_uw is None else joules(record.power_uw)


def _energy(record: UnitRecord) -> float | None:
    return joules(record.energy_total_uj) if record.energy_uj else None


def _component(component: Component) -> Value:
    def energy(record: UnitRecord) -> float | None:
        parts = record.energy_uj.get(component)
        return None if parts is None else joules((parts.dynamic_uj or 0) + (parts.idle_uj or 0))

    return energy


def _cpu_seconds(record: UnitRecord) -> float | None:
    if record.cpu_user_ns is None and record.cpu_system_ns is None:
        return None
    return seconds((record.cpu_user_ns or 0) + (record.cpu_system_ns or 0))


def _power_reason(record: UnitRecord) -> str:
    return "ended" if record.ended_at else "no slot closed within the last three"


def _allocation_reason(record: UnitRecord) -> str:
    return "no allocation known: its manager does not say how many CPUs it may use"


def _grams_reason(record: UnitRecord) -> str:
    return "no zone set: choose a country on the page Emissions"


COLUMNS: tuple[UnitColumn, ...] = (
    UnitColumn("unit", "Unit"),
    UnitColumn("user", "User"),
    UnitColumn("project", "Project", is_default=False),
    UnitColumn("manager", "Manager"),
    UnitColumn("state", "State", is_default=False),
    UnitColumn("nodes", "Nodes", is_default=False),
    UnitColumn("power", "Power", True, "power", _power, UnitSort.POWER_WATTS, reason=_power_reason),
    UnitColumn("energy", "Energy", True, "energy", _energy, UnitSort.ENERGY_JOULES),
    UnitColumn("split", "Split"),
    UnitColumn("emissions", "Emissions", True, "mass", lambda r: r.emissions_grams, reason=_grams_reason),
    UnitColumn("cpu_energy", "CPU energy", True, "energy", _component(Component.CPU), is_default=False),
    UnitColumn("dram_energy", "DRAM energy", True, "energy", _component(Component.DRAM), is_default=False),
    UnitColumn("gpu_energy", "GPU energy", True, "energy", _component(Component.GPU), is_default=False),
    UnitColumn("cpu_time", "CPU time", True, "cpu_time", _cpu_seconds, UnitSort.CPU_SECONDS),
    UnitColumn("efficiency", "CPU eff.", True, reason=_allocation_reason),
    UnitColumn("gpus", "GPUs", True, is_default=False),
    UnitColumn("gpu_busy", "GPU busy", True, sort=UnitSort.GPU_BUSY_SECONDS, is_default=False),
    UnitColumn("gpu_idle", "GPU held idle", True, is_default=False),
    UnitColumn("memory", "Peak memory", True, "bytes", lambda r: r.memory_peak_bytes, is_default=False),
    UnitColumn("started", "Started", True, sort=UnitSort.STARTED_AT),
    UnitColumn("duration", "Duration", True),
    UnitColumn("ended", "Ended", True, sort=UnitSort.ENDED_AT, is_default=False),
    UnitColumn("method", "Method", is_default=False),
    UnitColumn("quality", "Quality", is_default=False),
)
QUALITY: dict[Flag, tuple[str, str]] = {
    Flag.GAP: (
        "gap",
        "part of its energy was booked from a counter's difference across a gap (agent restart, meter failure)",
    ),
    Flag.ENDED: (
        "end by rate",
        "its counters were gone before their last reading: the last moments are shared out by rate",
    ),
    Flag.CLOCK: ("clock", "the node's clock stepped while it ran; energy is right, times may be off"),
    Flag.OVERCOMMITTED: (
        "overcommitted",
        "allocations on its node added up to more than the node has; idle shares were scaled",
    ),
    Flag.IDLE_TABLE: (
        "table idle",
        "its idle share rests on a table's idle power, because the node's own is not learned yet",
    ),
    Flag.UNVERIFIED: ("unverified", "its manager did not place it on this node at this time; charged to nobody"),
    Flag.LOST: ("lost", "slots of its node were lost before they were pulled; its totals are too low"),
    Flag.UNREPORTED: ("not reported", "only its manager told of it: no agent reported it, so its figures are missing"),
    Flag.SLICES: (
        "by slices",
        "nobody tells how busy each instance of its divided GPU was: energy was shared by the slices of those in use",
    ),
}
"""What a person reads for a flag: a short mark, and what it means."""
LOUD = frozenset({Flag.GAP, Flag.OVERCOMMITTED, Flag.UNVERIFIED, Flag.LOST, Flag.UNREPORTED})
"""Flags that a list shows beside a name; the others stand in the column Quality and on the unit's page."""


def quality_marks(flags: Iterable[Flag], only: frozenset[Flag] = frozenset(QUALITY)) -> list[tuple[str, str]]:
    """Return mark and meaning of each of `flags` that is among `only`, in their order of the contract."""
    held = set(flags)
    return [QUALITY[flag] for flag in Flag if flag in held and flag in only]


KEYS = frozenset(column.key for column in COLUMNS)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's content; `pieces` for the split bar."""

    key: str
    is_number: bool
    content: Markup | str
    pieces: Sequence[BarPiece] = ()


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column with the scale its values have on this page."""

    column: UnitColumn
    unit: str
    cell: Callable[[UnitRecord], Cell]


def chosen_columns(text: str | None) -> tuple[UnitColumn, ...]:
    """Return the columns that `columns=` of the URL names, the default ones without it; `unit` always."""
    wanted = {key for key in (text or "").split(",") if key in KEYS}
    if not wanted:
        return tuple(column for column in COLUMNS if column.is_default)
    return tuple(column for column in COLUMNS if column.key in wanted or column.key == "unit")


def show_columns(
    columns: Sequence[UnitColumn],
    records: Sequence[UnitRecord],
    now: datetime,
    time_tag: TimeTag,
) -> list[ShownColumn]:
    """Return the columns ready to render `records`, one scale per column."""
    return [_shown(column, records, now, time_tag) for column in columns]


def _shown(
    column: UnitColumn,
    records: Sequence[UnitRecord],
    now: datetime,
    time_tag: TimeTag,
) -> ShownColumn:
    if column.quantity is None or column.value is None:
        unit = "%" if column.key in ("efficiency", "gpu_busy") else ""
        return ShownColumn(column, unit, lambda record: _plain(column, record, now, time_tag))
    value = column.value
    scale = column_of([value(record) for record in records], column.quantity)
    return ShownColumn(
        column,
        scale.unit,
        lambda record: Cell(column.key, True, scale.cell(value(record), column.reason(record))),
    )


def _plain(column: UnitColumn, record: UnitRecord, now: datetime, time_tag: TimeTag) -> Cell:
    if column.key == "split":
        return Cell(column.key, False, "", energy_pieces(record, 1.0))
    return Cell(column.key, column.is_number, _plain_content(column, record, now, time_tag))


def _plain_content(column: UnitColumn, record: UnitRecord, now: datetime, time_tag: TimeTag) -> Markup | str:
    match column.key:
        case "efficiency":
            ratio = record.cpu_efficiency_ratio
            return no_data(column.reason(record)) if ratio is None else percent(ratio).removesuffix(" %")
        case "gpus" | "gpu_busy" | "gpu_idle":
            return _gpu_content(column.key, record)
        case "started":
            return time_tag(record.started_at)
        case "ended":
            return time_tag(record.ended_at) if record.ended_at else no_data("still running")
        case "duration":
            return duration(((record.ended_at or now) - record.started_at) / timedelta(seconds=1))
        case "nodes":
            return nodes_text(record.nodes)
        case "quality":
            return ", ".join(mark for mark, _ in quality_marks(record.quality))
        case _:
            value = getattr(record, column.key)
            return no_data("its manager does not say") if value is None else str(value)


def _gpu_content(key: str, record: UnitRecord) -> Markup | str:
    if not record.gpus_allocated:
        return no_data("it holds no GPU")
    if key == "gpus":
        return f"{sum(record.gpus_allocated.values()):.3g}"
    if key == "gpu_idle":
        idle_ns = record.gpu.held_idle_ns
        return no_data("not told") if idle_ns is None else length(seconds(idle_ns))
    ratio = record.gpu.utilisation_ratio
    return no_data("nobody knows how busy it was") if ratio is None else percent(ratio).removesuffix(" %")


def nodes_text(nodes: Sequence[str]) -> str:
    """Return one node by name, several as the first and how many more."""
    if not nodes:
        return "–"
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} +{len(nodes) - 1}"


def energy_pieces(record: UnitRecord, share: float) -> list[BarPiece]:
    """Return a unit's energy by component and part as a bar that fills `share` of its place."""
    amounts: list[tuple[str, str, float | None]] = []
    total = record.energy_total_uj
    for component in Component:
        parts = record.energy_uj.get(component)
        if parts is None:
            continue
        for part, amount in ((Part.DYNAMIC, parts.dynamic_uj), (Part.IDLE, parts.idle_uj)):
            if amount is not None and total:
                amounts.append((fill_of(component, part), f"{component} {part}: {percent(amount / total)}", amount))
    return bar_pieces(amounts, total / share if share > 0 else 0.0)
