"""Units in a table for a person: one scale per column, columns of GPUs and money only where there are some."""

from collections.abc import Sequence

import click

from kwhere.cli.client import Json
from kwhere.cli.table import WIDE, Column, render
from kwhere.cli.unit_values import cpu_seconds, gpus_allocated, short_id, shown_id
from kwhere.reports.figures import CPU_TIME, ENERGY, MASS, NO_DATA, POWER, choose_scale
from kwhere.reports.usage_text import currency_of, money

ESTIMATED = "modelled"
_COLOURS = {
    **dict.fromkeys(("failed", "timeout", "out_of_memory", "node_fail", "boot_fail", "error", "evicted"), "red"),
    **dict.fromkeys(("cancelled", "preempted", "deadline", "vanished"), "yellow"),
    **dict.fromkeys(("completed", "succeeded", "terminated"), "green"),
    **dict.fromkeys(("pending", "waiting", "hold"), "blue"),
    "running": "cyan",
}


def percent(ratio: float | None) -> str:
    """Return a ratio for a column of percent."""
    return NO_DATA if ratio is None else f"{100 * ratio:.0f}"


def count(value: float | None) -> str:
    """Return a number of GPUs: whole where it is, else two digits."""
    return NO_DATA if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def paint_state(text: str) -> str:
    """Return a state in its colour; the word alone says the same."""
    return click.style(text, fg=_COLOURS.get(text.strip().lower()))


def name_beside(item: Json) -> str:
    """Return the unit's name where its id does not say it already."""
    name = item["name"] or ""
    return "" if name == item["unit"] or item["unit"].endswith(f":{name}") else name


def unit_lines(items: Sequence[Json], width: int, *, has_header: bool = True) -> list[str]:
    """Return the lines of the table."""
    energy = choose_scale([i["energy_joules_total"] for i in items], ENERGY)
    power = choose_scale([i["power_watts"] for i in items], POWER)
    mass = choose_scale([i["emissions_grams"] for i in items], MASS)
    cpu = choose_scale([cpu_seconds(i) for i in items], CPU_TIME)
    currency = currency_of(items)
    has_power = any(i["power_watts"] is not None for i in items)
    has_gpus = any(gpus_allocated(i) is not None for i in items)
    columns = [
        Column("MANAGER", rank=4),
        Column("UNIT", shrinks=True, min_width=10),
        Column("USER", shrinks=True, min_width=7),
        Column("STATE", shrinks=True, min_width=9, paint=paint_state),
        *([Column(power.unit, is_number=True, rank=3)] if has_power else []),
        Column(energy.unit, is_number=True),
        Column(f"{mass.unit} CO2e", is_number=True, rank=1),
        Column(cpu.unit, is_number=True, rank=5),
        *([Column("GPUS", is_number=True, rank=2), Column("GPU %", is_number=True)] if has_gpus else []),
        *([Column(currency, is_number=True)] if currency else []),
        Column("NAME", shrinks=True, min_width=16, gives_last=True),
    ]
    is_mixed = needs_mark(items)
    ident = shown_id if width >= WIDE else short_id
    rows = []
    for item in items:
        mark = "~" if is_mixed and item["method"] == ESTIMATED else ""
        row = [
            *(item["manager"], ident(item), item["user"] or NO_DATA, item["state"] or NO_DATA),
            *([_marked(power.text(item["power_watts"]), mark)] if has_power else []),
            _marked(energy.text(item["energy_joules_total"]), mark),
            mass.text(item["emissions_grams"]),
            cpu.text(cpu_seconds(item)),
            *((count(gpus_allocated(item)), percent(item.get("gpu_utilization_ratio"))) if has_gpus else ()),
            *([money(item.get("cost"))] if currency else []),
            name_beside(item),
        ]
        rows.append(row)
    return render(columns, rows, width, has_header=has_header)


def needs_mark(items: Sequence[Json]) -> bool:
    """Return whether some figures are estimated and others are not."""
    kinds = {item["method"] == ESTIMATED for item in items if item["method"] is not None}
    return len(kinds) > 1


def what_is_estimated(items: Sequence[Json]) -> str | None:
    """Return the sentence about estimated figures; None where none is."""
    if needs_mark(items):
        return "~ energy is estimated (method modelled): no meter was readable there"
    if any(item["method"] == ESTIMATED for item in items):
        return "energy is estimated: no meter is readable (method modelled)"
    return None


def _marked(text: str, mark: str) -> str:
    return text if text == NO_DATA else mark + text
