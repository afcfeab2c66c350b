"""What `kwhere units` asks the API: filters in sacct's manner, several values each, merged in one order."""

import heapq
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from kwhere.cli.client import Api, Json
from kwhere.cli.unit_values import cpu_seconds
from kwhere.core.errors import ConfigError, SourceError
from kwhere.discovery.node_expressions import expand_nodes

SORTS: Mapping[str, Callable[[Json], Any]] = {
    "energy_joules": lambda u: u["energy_joules_total"],
    "power_watts": lambda u: u["power_watts"],
    "cpu_seconds": cpu_seconds,
    "gpu_busy_seconds": lambda u: u.get("gpu_busy_seconds"),
    "started_at": lambda u: _seconds(u["started_at"]),
    "ended_at": lambda u: _seconds(u["ended_at"]),
}
SORT_WORDS: Mapping[str, str] = {
    "energy": "energy_joules",
    "power": "power_watts",
    "cpu": "cpu_seconds",
    "gpu": "gpu_busy_seconds",
    "start": "started_at",
    "end": "ended_at",
}
"""What a list can be sorted by, as people type it; the API's own words do as well."""
MOST_NODES = 256
"""Each is a question of its own."""
MOST_WAITING = 10_000
"""So many that wait are looked through for an id or words."""
WAITING = frozenset({"pending", "pd", "waiting"})
"""What asks for all that waits in a queue: it has no run yet, and a list of its own."""
_SLURM_OUT = re.compile(r"(?:.*/)?slurm-(\d+(?:_\d+)?)\.out")


@dataclass(frozen=True, slots=True)
class Sort:
    """By what a list is sorted."""

    key: str = "energy_joules"
    is_ascending: bool = False

    @property
    def parameter(self) -> str:
        """Return it as the API takes it."""
        return self.key if self.is_ascending else f"-{self.key}"

    def place(self, item: Json) -> tuple[bool, float]:
        """Return where a unit stands: those without the figure at the end, either way."""
        value = SORTS[self.key](item)
        return (value is None, 0.0 if value is None else float(value) if self.is_ascending else -float(value))


def parse_sort(text: str, *, is_ascending: bool = False) -> Sort:
    """Return `energy`, `-power_watts` (largest first, as without a sign) or `+start`. Raises UsageError."""
    name = SORT_WORDS.get(text.lstrip("+-"), text.lstrip("+-"))
    if name not in SORTS:
        raise click.UsageError(f"--sort: expected one of {', '.join(SORT_WORDS)}, found {text!r}")
    return Sort(name, is_ascending or text.startswith("+"))


def job_text(words: Sequence[str]) -> str | None:
    """Return ids as the API takes them; `-` is a list on stdin, `slurm-123_4.out` the job that wrote it."""
    if not words:
        return None
    text = ",".join(written_ids(words))
    if not text.strip(", "):
        raise click.UsageError("--jobs: expected ids such as 123,123_4, found none")
    return text


def written_ids(words: Sequence[str]) -> list[str]:
    """Return ids of a command line: `-` is a list on stdin, `slurm-123_4.out` the job that wrote it."""
    found: list[str] = []
    for word in words:
        found += sys.stdin.read().split() if word == "-" else [word]
    return [out[1] if (out := _SLURM_OUT.fullmatch(word)) else word for word in found]


def several(text: str | None) -> list[str | None]:
    """Return the parts of a comma-separated filter; one None where it is not given."""
    parts: list[str | None] = [part.strip() for part in (text or "").split(",") if part.strip()]
    return parts or [None]


def ask_units(
    api: Api, filters: Mapping[str, str | None], fixed: Mapping[str, str | None], sort: Sort, limit: int
) -> Iterator[Json]:
    """Yield units in the order of the sort, each once; `filters` may hold several values each, `fixed` hold one."""
    names = list(filters)
    questions = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(several(filters[name]) for name in names))
    ]
    asked = {**fixed, "sort": sort.parameter}
    answers = [api.pages("/units", {**question, **asked}, limit) for question in questions]
    units: Iterator[Json] = heapq.merge(*answers, key=sort.place)
    if len(several(filters.get("node"))) > 1:
        units = _each_once(units)
    yield from itertools.islice(units, limit)


def _each_once(units: Iterable[Json]) -> Iterator[Json]:
    """A unit that ran on several nodes is in the answers about each."""
    seen: set[tuple[str, ...]] = set()
    for unit in units:
        key = (unit["cluster"], unit["manager"], unit["unit"], unit["run"])
        if key not in seen:
            seen.add(key)
            yield unit


def node_text(text: str | None) -> str | None:
    """Return nodes as `several` takes them: `n[1-3,5],m1` is written out. Raises UsageError."""
    if text is None or "[" not in text:
        return text
    try:
        names = expand_nodes(text)
    except SourceError as error:
        raise click.UsageError(f"--nodelist: {error}") from error
    if len(names) > MOST_NODES:
        raise click.UsageError(f"--nodelist: expected at most {MOST_NODES} nodes, found {len(names)}")
    return ",".join(names)


def ask_waiting(
    api: Api, filters: Mapping[str, str | None], limit: int, jobs: str | None = None, words: str | None = None
) -> Iterator[Json]:
    """Yield what waits in queues as units without a start, the longest waiting first.

    Ids (`jobs`, as `job_text` returns them) and `words` in id, name or user are looked for here. Raises ConfigError.
    """
    names = [name for name in ("cluster", "manager", "user", "project", "queue") if name in filters]
    wanted = None if jobs is None else _ids(jobs)
    most = limit if wanted is None and not words else MOST_WAITING
    for values in itertools.product(*(several(filters[name]) for name in names)):
        for waiting in api.pages("/queue", dict(zip(names, values, strict=True)), most):
            if (wanted is None or wanted & _names(waiting)) and (not words or _holds(waiting, words)):
                yield _as_unit(waiting)


def not_begun(ident: str, waiting: Json) -> str:
    """Return that a unit waits, where, and why."""
    why = f": {waiting['reason']}" if waiting.get("reason") else ""
    return f"unit {ident}: it has not begun; it waits in {waiting.get('queue') or waiting['manager']}{why}"


def _ids(text: str) -> frozenset[str]:
    from kwhere.reports.job_words import parse_jobs

    try:
        found = parse_jobs([text])
    except SourceError as error:
        raise ConfigError(f"job: {error}") from error
    return found.units | found.shown | found.runs


def _names(waiting: Json) -> frozenset[str]:
    labels = waiting.get("labels") or {}
    known = (waiting["unit"], *(labels.get(name) for name in ("job", "array_job", "het_job", "array_id")))
    return frozenset(str(name) for name in known if name)


def _holds(waiting: Json, words: str) -> bool:
    known = (waiting["unit"], waiting.get("name"), waiting.get("user"), (waiting.get("labels") or {}).get("job"))
    return any(words.lower() in str(name).lower() for name in known if name)


def _as_unit(waiting: Json) -> Json:
    asked = waiting.get("asked") or {}
    unknown = dict.fromkeys(
        ("run", "started_at", "ended_at", "power_watts", "cpu_seconds", "energy_joules_total", "emissions_grams")
    )
    return {**unknown, "method": None, "nodes": [], "quality": [], **waiting, "allocation": asked}


def _seconds(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()
