"""What `--format` may name of a unit: each field with its unit, its meaning, and the name sacct has for it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import click

from kwhere.cli.client import Json
from kwhere.cli.table import Column, render
from kwhere.cli.unit_values import cpu_seconds, elapsed_seconds, gpus_allocated, local_time, shown_id
from kwhere.reports.figures import NO_DATA, clock

_STYLES = frozenset({"json", "yaml", "csv"})
_CHOICE = re.compile(r"([A-Za-z_0-9]+)(?:%(-?)(\d{1,3}))?")


class Kind(Enum):
    """How a value is shown to a person; machines get base units."""

    TEXT = "text"
    NUMBER = "number"
    MOMENT = "moment"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class UnitField:
    """One thing of a unit. `value` is in base units; None is not known."""

    name: str
    unit: str
    meaning: str
    value: Callable[[Json], Any]
    kind: Kind = Kind.TEXT
    sacct: tuple[str, ...] = ()
    """What sacct calls it."""

    def text(self, item: Json) -> str:
        """Return what a person reads."""
        value = self.value(item)
        if value is None or value == "":
            return NO_DATA
        if self.kind is Kind.MOMENT:
            return local_time(value)
        if self.kind is Kind.LENGTH:
            return clock(value)
        return f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """A field that was asked for, as wide as was asked; None: as wide as it takes."""

    field: UnitField
    width: int | None = None
    is_left: bool = False


def _plain(name: str) -> Callable[[Json], Any]:
    return lambda item: item.get(name)


def _whole(name: str) -> Callable[[Json], Any]:
    """Return it without a fraction where it has none: all digits are shown then."""

    def value(item: Json) -> Any:
        found = item.get(name)
        return int(found) if isinstance(found, float) and found.is_integer() else found

    return value


def _inner(outer: str, name: str) -> Callable[[Json], Any]:
    return lambda item: (item.get(outer) or {}).get(name)


def _text(name: str, meaning: str, *sacct: str) -> UnitField:
    return UnitField(name, "", meaning, _plain(name), sacct=sacct)


def _moment(name: str, meaning: str, *sacct: str) -> UnitField:
    return UnitField(name, "", meaning, _plain(name), Kind.MOMENT, sacct)


def _figure(
    name: str,
    unit: str,
    meaning: str,
    *sacct: str,
    value: Callable[[Json], Any] | None = None,
    kind: Kind = Kind.NUMBER,
) -> UnitField:
    return UnitField(name, unit, meaning, value or _plain(name), kind, sacct)


_given, _spent, _made = (partial(_inner, outer) for outer in ("allocation", "cpu_seconds", "embodied_grams"))

FIELDS: tuple[UnitField, ...] = (
    _text("cluster", "cluster"),
    _text("manager", "resource manager: slurm, kubernetes, docker, …"),
    _text("unit", "its native id", "jobidraw"),
    UnitField("id", "", "its id as its manager shows it: 123_4", shown_id, sacct=("jobid",)),
    _text("run", "run of that id, which may come again"),
    _text("name", "name", "jobname"),
    _text("user", "who owns it"),
    _text("project", "what it is charged to", "account"),
    _text("group", "group of its user"),
    _text("queue", "partition, queue or namespace", "partition"),
    _text("state", "state, in its manager's word"),
    UnitField("nodes", "", "where it ran", lambda u: " ".join(u.get("nodes") or []), sacct=("nodelist",)),
    _figure("node_count", "", "how many nodes", "nnodes", value=lambda u: len(u.get("nodes") or []) or None),
    _moment("submitted_at", "when it was submitted", "submit"),
    _moment("started_at", "when it began", "start"),
    _moment("ended_at", "when it ended", "end"),
    _figure(
        "elapsed_seconds",
        "s",
        "how long it ran, suspension left out",
        "elapsed",
        value=elapsed_seconds,
        kind=Kind.LENGTH,
    ),
    _figure("cpus_allocated", "CPUs", "CPUs it was given", "alloccpus", "ncpus", value=_given("cpus")),
    _figure("memory_allocated_bytes", "B", "memory it was given, on all nodes", "reqmem", value=_given("memory_bytes")),
    _figure("power_watts", "W", "mean power over the newest slot"),
    _figure("energy_joules", "J", "energy of its whole life", "consumedenergyraw", value=_plain("energy_joules_total")),
    _figure("cpu_seconds", "s", "CPU time, user and system", "totalcpu", value=cpu_seconds),
    _figure("cpu_user_seconds", "s", "CPU time in user mode", "usercpu", value=_spent("user")),
    _figure("cpu_system_seconds", "s", "CPU time in the kernel", "systemcpu", value=_spent("system")),
    _figure("cpu_efficiency_ratio", "ratio", "CPU time used of that allocated"),
    _figure("memory_peak_bytes", "B", "most memory at one moment on a node", "maxrss"),
    _figure("memory_efficiency_ratio", "ratio", "peaks of its nodes of the memory allocated"),
    _figure("emissions_grams", "g", "CO2e by the site's factor"),
    _text("method", "how its energy came about: counter, integrated, modelled, …"),
    _figure("gpus_allocated", "GPUs", "GPUs it was given, shares as fractions", value=gpus_allocated),
    _figure("gpu_busy_seconds", "s", "GPU time busy"),
    _figure("gpu_utilization_ratio", "ratio", "GPU time busy of that held"),
    _figure("gpu_held_idle_seconds", "s", "GPU time held idle"),
    _figure("gpu_held_idle_joules", "J", "energy of GPUs held idle"),
    _figure("emissions_marginal_grams", "g", "CO2e by a marginal factor: what it changed"),
    _figure("cost", "", "cost of its energy, in `cost_currency`"),
    _text("cost_currency", "currency of the cost"),
    _figure("water_litres", "l", "water of its energy"),
    _figure("embodied_grams", "g", "its share in the making of nodes", value=_made("value")),
    _figure("embodied_grams_min", "g", "lower bound of that", value=_made("min")),
    _figure("embodied_grams_max", "g", "upper bound of that", value=_made("max")),
    UnitField("quality", "", "what is to be known of its figures", lambda u: " ".join(u.get("quality") or [])),
    _text("reason", "why it waits"),
    _moment("expected_start_at", "when its manager expects it to begin, of what waits"),
    _figure("priority", "", "its place in the queue as its manager counts it, of what waits", value=_whole("priority")),
)
_BY_NAME = {name: field for field in FIELDS for name in (field.name, *field.sacct)}
_USUAL = (
    *("cluster", "manager", "unit", "run", "name", "user", "project", "state", "started_at", "ended_at"),
    *("power_watts", "energy_joules", "cpu_seconds", "emissions_grams", "method", "gpus_allocated"),
    *("gpu_busy_seconds", "gpu_utilization_ratio", "gpu_held_idle_seconds", "gpu_held_idle_joules"),
)
USUAL: tuple[Choice, ...] = tuple(Choice(_BY_NAME[name]) for name in _USUAL)
"""Columns of `--csv`, and what `+field` adds to."""
READ: tuple[Choice, ...] = tuple(
    Choice(_BY_NAME[name])
    for name in ("manager", "id", "user", "state", "elapsed_seconds", "energy_joules", "cpu_seconds", "name")
)
"""What `+field` adds to where a person reads."""


def parse_format(text: str, usual: Sequence[Choice] = USUAL) -> list[Choice]:
    """Return the fields of `name%20,cpu_seconds,+queue`. Raises UsageError for one that there is not.

    `%20` is a column of that width, `%-20` one that goes left. `+` adds to `usual`, once at the front for all of them.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    chosen = list(usual) if words and all(word.startswith("+") for word in [words[0]]) else []
    chosen += [_choice(word.removeprefix("+")) for word in words]
    if not chosen:
        raise click.UsageError("-o, --format: expected fields such as id,name%20,energy_joules; see --helpformat")
    return chosen


def _choice(word: str) -> Choice:
    found = _CHOICE.fullmatch(word)
    field = _BY_NAME.get(found[1].lower()) if found else None
    if found is None or field is None:
        style = word.lower()
        hint = f"; for {style.upper()} say --{style}" if style in _STYLES else ""
        raise click.UsageError(f"-o, --format: expected a field that --helpformat lists, found {word[:60]!r}{hint}")
    return Choice(field, int(found[3]) if found[3] else None, found[2] == "-")


def help_lines() -> Iterator[str]:
    """Yield the table of all fields."""
    columns = [Column("FIELD"), Column("UNIT"), Column("SACCT"), Column("MEANING")]
    rows = [(field.name, field.unit or NO_DATA, ", ".join(field.sacct) or NO_DATA, field.meaning) for field in FIELDS]
    yield from render(columns, rows, 10_000)
