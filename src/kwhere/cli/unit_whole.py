"""Jobs of several parts: the sum as one report with a line per part, and the spread of an array's tasks."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from statistics import median

from kwhere.cli.client import Json
from kwhere.cli.table import Column, render
from kwhere.cli.unit_page import WIDTH
from kwhere.cli.unit_values import cpu_seconds, elapsed_seconds, shown_id
from kwhere.reports.figures import CPU_TIME, ENERGY, MASS, NO_DATA, choose_scale, duration, share

RUNS = "runs"
MOST_LINES = 32
"""Of more parts the others are counted."""
Figure = Callable[[Json], float | None]
_TITLES = {RUNS: "RUN", "heterogeneous": "COMPONENT"}
_WORDS = {RUNS: "Runs", "heterogeneous": "Components"}


def summed_item(whole: Json) -> Json:
    """Return the sum in the shape of a unit: what it was on each node and GPU is told part by part."""
    return {**whole["unit"], "node_runs": [], "gpus": []}


def part_header(whole: Json) -> tuple[str, str]:
    """Return the line of the report's head that says what was added up."""
    count = len(whole["parts"])
    ways = "--run shows one" if whole["kind"] == RUNS else f"`kwhere unit {shown_id(whole['parts'][-1])}` shows one"
    unknown = f", {whole['unknown']} without figures" if whole["unknown"] else ""
    return _WORDS[whole["kind"]], f"{count}, added up{unknown}: {ways}"


def part_lines(whole: Json) -> list[str]:
    """Return a line per part: what it was, for how long, and what it used."""
    parts: Sequence[Json] = whole["parts"]
    energy = choose_scale([part["energy_joules_total"] for part in parts], ENERGY)
    cpu = choose_scale([cpu_seconds(part) for part in parts], CPU_TIME)
    columns = [
        Column(_TITLES[whole["kind"]]),
        Column("STATE", shrinks=True, min_width=7),
        Column("STARTED", rank=1),
        Column("RUN TIME", is_number=True),
        Column("CPU", is_number=True),
        Column(cpu.unit, is_number=True),
        Column(energy.unit, is_number=True),
    ]
    rows = [
        (
            part["run"] if whole["kind"] == RUNS else shown_id(part),
            part["state"] or NO_DATA,
            datetime.fromisoformat(part["started_at"]).astimezone().strftime("%m-%d %H:%M:%S"),
            duration(elapsed_seconds(part)),
            share(part["cpu_efficiency_ratio"]),
            cpu.text(cpu_seconds(part)),
            energy.text(part["energy_joules_total"]),
        )
        for part in parts[:MOST_LINES]
    ]
    more = [f"and {len(parts) - MOST_LINES} more: --json has them all"] if len(parts) > MOST_LINES else []
    return [*render(columns, rows, WIDTH), *more]


def spread_lines(items: Sequence[Json], whole: Json | None) -> Iterator[str]:
    """Yield smallest, median and largest of what matters of an array's tasks, and the sum of all."""
    total = None if whole is None else whole["unit"]
    rows = [row for row in (_spread(items, total, *figure) for figure in _figures(items, total)) if row is not None]
    columns = [
        Column(f"{_count(items, whole)} TASKS"),
        *(Column(name, is_number=True) for name in ("MIN", "MEDIAN", "MAX", "OF")),
        *([Column("SUM", is_number=True)] if whole is not None else []),
    ]
    if rows:
        yield ""
        yield from render(columns, rows, WIDTH)
    if whole is not None:
        yield ", ".join(f"{count} {state}" for state, count in whole["states"].items())
        if whole["unknown"]:
            yield f"of {whole['unknown']} nobody knows the energy: the sum lacks it"


def _count(items: Sequence[Json], whole: Json | None) -> int:
    return len(items) if whole is None else len({part["unit"] for part in whole["parts"]})


def _figures(items: Sequence[Json], total: Json | None) -> Iterator[tuple[str, Figure, Callable[[float | None], str]]]:
    for name, value, scales in (
        ("energy", _of("energy_joules_total"), ENERGY),
        ("CO2e", _of("emissions_grams"), MASS),
        ("CPU time", cpu_seconds, CPU_TIME),
    ):
        scale = choose_scale([value(item) for item in (*items, *([total] if total else []))], scales)
        yield f"{name} {scale.unit}", value, scale.text
    yield "CPU", _of("cpu_efficiency_ratio"), share
    yield "memory", _of("memory_efficiency_ratio"), share
    yield "run time", elapsed_seconds, duration


def _of(name: str) -> Figure:
    return lambda item: item.get(name)


def _spread(
    items: Sequence[Json], total: Json | None, label: str, value: Figure, text: Callable[[float | None], str]
) -> tuple[str, ...] | None:
    known = [figure for item in items if (figure := value(item)) is not None]
    if not known:
        return None
    # Ratios are of all tasks together, a run time is that of all one after the other.
    of_all = () if total is None else (text(_total(total, label, value)),)
    return (label, *(text(figure) for figure in (min(known), median(known), max(known))), str(len(known)), *of_all)


def _total(total: Json, label: str, value: Figure) -> float | None:
    # From the first start to the last end is no time that was held.
    return total.get("elapsed_seconds") if label == "run time" else value(total)
