"""Sums within a span as a person or a program reads them: what `kwhere report` prints and what is written each week.

All of it follows from the API's answer alone, so the same answer gives the same bytes.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from kwhere.reports.figures import (
    CPU_TIME,
    ENERGY,
    GPU_TIME,
    MASS,
    NO_DATA,
    choose_scale,
    money_text,
    share,
    significant,
)
from kwhere.reports.plain_text import spreadsheet_cell
from kwhere.reports.table import Column, render

Json = Mapping[str, Any]
CSV_FIELDS = (
    *("key", "cluster", "kind", "units", "energy_joules_total", "cpu_seconds", "cpu_allocated_seconds"),
    *("gpu_busy_seconds", "emissions_grams"),
)
OPTIONAL_FIELDS = (
    *("emissions_marginal_grams", "cost", "cost_currency", "water_litres"),
    *("gpu_allocated_seconds", "gpu_utilization_ratio", "gpu_held_idle_seconds", "gpu_held_idle_joules"),
)
"""Columns behind the others, where any row has a figure."""
WEEK_FIELDS = ("week", "week_hours", "completeness_ratio", "measured_ratio")
"""Columns behind those, where a week was asked for: the same in each row."""
NOTHING = "nothing was booked within this span"


class UsageStyle(StrEnum):
    """What sums are written as."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    PARSABLE = "parsable"
    """The columns of CSV separated by |."""

    @property
    def suffix(self) -> str:
        """Return the ending of a file's name."""
        return {UsageStyle.TEXT: ".txt", UsageStyle.JSON: ".json"}.get(self, ".csv")


def usage_text(found: Json, style: UsageStyle, width: int, *, has_header: bool = True) -> str:
    """Return an answer of `/usage` as it is printed, with the line end behind it; tables up to `width` columns."""
    if style is UsageStyle.JSON:
        return json.dumps({"schema_version": 1, **found}, indent=1) + "\n"
    if style is not UsageStyle.TEXT:
        return _csv(found, "," if style is UsageStyle.CSV else "|", has_header=has_header)
    head = _head(found) if has_header else []
    body = usage_lines(found["by"], found["items"], width, has_header=has_header) if found["items"] else [NOTHING]
    return "\n".join([*head, *body]) + "\n"


def _head(found: Json) -> list[str]:
    span, week = found["span"], found.get("week")
    if week is None:
        return [f"{span['from']} to {span['to']}"]
    zone = ZoneInfo(week["time_zone"])
    start, end = (_local(span[name], zone) for name in ("from", "to"))
    figures = [f"{_floored(found['completeness'])} complete", f"{_floored(found['measured_share'])} measured"]
    lines = [
        f"Week {week['key']}: {start} to {end}, {significant(week['hours'], 4)} h ({zone.key})",
        f"{span['from']} to {span['to']}: {', '.join(figures)}",
    ]
    if not week["is_over"]:
        lines.append("The week is not over.")
    elif found["completeness"] is not None and found["completeness"] < 1:
        lines.append(
            "What is missing may still come: it is in a report that is printed anew, not in a file from before."
        )
    return lines


def _local(moment: str, zone: ZoneInfo) -> str:
    return datetime.fromisoformat(moment).astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")


def _floored(ratio: float | None) -> str:
    """Return a ratio in percent, rounded down: only the whole is 100 %."""
    return NO_DATA if ratio is None else share(math.floor(ratio * 1000) / 1000)


def _csv(found: Json, delimiter: str, *, has_header: bool) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    items, week = found["items"], found.get("week")
    fields = [*CSV_FIELDS, *(name for name in OPTIONAL_FIELDS if any(item.get(name) is not None for item in items))]
    of_week = [] if week is None else [week["key"], week["hours"], found["completeness"], found["measured_share"]]
    if has_header:
        writer.writerow([*fields, *(WEEK_FIELDS if of_week else ())])
    writer.writerows([[*(_cell(item.get(name), delimiter) for name in fields), *of_week] for item in items])
    return stream.getvalue()


def _cell(value: Any, delimiter: str) -> Any:
    return spreadsheet_cell(value) if isinstance(value, str) and delimiter == "," else value


def usage_lines(by: str, items: Sequence[Json], width: int, *, has_header: bool = True) -> list[str]:
    """Return the lines of the table."""
    energy = choose_scale([item["energy_joules_total"] for item in items], ENERGY)
    mass = choose_scale([item["emissions_grams"] for item in items], MASS)
    cpu = choose_scale([item["cpu_seconds"] for item in items], CPU_TIME)
    gpu = choose_scale([item.get("gpu_allocated_seconds") for item in items], GPU_TIME)
    has_gpus = any(item.get("gpu_allocated_seconds") for item in items)
    currency = currency_of(items)
    all_of_it = sum(item["energy_joules_total"] or 0.0 for item in items)
    # A name may be there once for each of several clusters: then these are told before anything that can be left out.
    has_clusters = len({item["cluster"] for item in items}) > 1
    columns = [
        Column(by.upper(), shrinks=True, min_width=10),
        Column("CLUSTER", shrinks=True, min_width=7, rank=0 if has_clusters else 5),
        Column("KIND", shrinks=True, min_width=4),
        Column("UNITS", is_number=True, rank=2),
        Column(energy.unit, is_number=True),
        Column("SHARE", is_number=True, rank=4),
        Column(f"{mass.unit} CO2e", is_number=True),
        Column(cpu.unit, is_number=True, rank=3),
        *([Column(gpu.unit, is_number=True), Column(f"idle {gpu.unit}", is_number=True)] if has_gpus else []),
        *([Column(currency, is_number=True)] if currency else []),
    ]
    rows = [
        (
            item["key"] or NO_DATA,
            item["cluster"] or NO_DATA,
            item["kind"],
            str(item["units"]),
            energy.text(item["energy_joules_total"]),
            share(item["energy_joules_total"] / all_of_it if all_of_it and item["energy_joules_total"] else None),
            mass.text(item["emissions_grams"]),
            cpu.text(item["cpu_seconds"]),
            *(
                (gpu.text(item.get("gpu_allocated_seconds")), gpu.text(item.get("gpu_held_idle_seconds")))
                if has_gpus
                else ()
            ),
            *([money(item.get("cost"))] if currency else []),
        )
        for item in items
    ]
    return render(columns, rows, width, has_header=has_header)


def currency_of(items: Sequence[Json]) -> str | None:
    """Return the one currency of all costs; None: no cost is known, or several currencies are."""
    found = {item.get("cost_currency") for item in items} - {None}
    return found.pop() if len(found) == 1 else None


def money(amount: float | None) -> str:
    """Return an amount of money; a dash where it is not known."""
    return NO_DATA if amount is None else money_text(amount)
