"""From what is generated to grams per kWh: our own table of types, with its sources; pure but for the table.

    factor(t) = Σ power of a type(t) · factor of the type ÷ Σ power(t)

Storage is left out on both sides: it gives back what was counted when it was generated.
"""

import csv
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Quality, Scope
from kwhere.emission_factors.rows import Row

_FILE = "generation_types.csv"
UNKNOWN = "B20"
"""A type that is not in the table is taken as `other`."""
LEAST_SHARE = 0.95
"""Below this share of the usual generation a moment has too little of its mix to be told."""
WHOLE_SHARE = 0.999


@dataclass(frozen=True, slots=True)
class GenerationType:
    """One type of generation; storage has no factor."""

    code: str
    name: str
    lifecycle: float | None
    direct: float | None
    source: str

    def grams_per_kwh(self, scope: Scope) -> float | None:
        """Return its factor; None for storage."""
        return self.lifecycle if scope is Scope.LIFECYCLE else self.direct


@dataclass(frozen=True, slots=True)
class Generation:
    """Mean power of one type over one span, in megawatts."""

    code: str
    span: Span
    megawatts: float


@cache
def generation_types() -> Mapping[str, GenerationType]:
    """Return the table of the package by code."""
    text = (files("kwhere.emission_factors") / "data" / _FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        row["code"]: GenerationType(
            row["code"], row["name"], _number(row["lifecycle"]), _number(row["direct"]), row["source"]
        )
        for row in rows
    }


def _number(text: str) -> float | None:
    return float(text) if text else None


def type_of(code: str) -> GenerationType:
    """Return the type of a code; `other` for one that is not in the table."""
    types = generation_types()
    return types.get(code) or types[UNKNOWN]


def mix_rows(generation: Sequence[Generation], scope: Scope) -> list[Row]:
    """Return the factor of every span between two edges of `generation`, in time order.

    A moment that lacks types which usually matter gets none: half a mix is another mix. One that lacks little is
    estimated. Negative power (a plant's own needs) counts as none.
    """
    series = _by_type(generation)
    usual = {code: _mean_megawatts(spans) for code, spans in series.items()}
    total = sum(usual.values())
    edges = sorted({edge for spans in series.values() for one in spans for edge in (one.span.start, one.span.end)})
    starts = {code: [one.span.start for one in spans] for code, spans in series.items()}
    rows: list[Row] = []
    for start, end in pairwise(edges):
        power: dict[str, float] = {}
        for code, spans in series.items():
            place = bisect_right(starts[code], start) - 1
            if place >= 0 and spans[place].span.end >= end:
                power[code] = max(0.0, spans[place].megawatts)
        row = _row(Span(start, end), power, scope, sum(usual[code] for code in power) / total if total else 0.0)
        if row is not None:
            rows.append(row)
    return rows


def _row(span: Span, power: Mapping[str, float], scope: Scope, share: float) -> Row | None:
    total = sum(power.values())
    if total <= 0 or share < LEAST_SHARE:
        return None
    grams = sum(megawatts * (type_of(code).grams_per_kwh(scope) or 0.0) for code, megawatts in power.items()) / total
    return Row(span, grams, Quality.MEASURED if share >= WHOLE_SHARE else Quality.ESTIMATED)


def _by_type(generation: Sequence[Generation]) -> dict[str, list[Generation]]:
    """Return generation by type in time order, storage left out; of two for one start the later one counts."""
    found: dict[str, dict[object, Generation]] = {}
    for one in generation:
        if type_of(one.code).lifecycle is not None:
            found.setdefault(one.code, {})[one.span.start] = one
    return {code: sorted(spans.values(), key=lambda one: one.span) for code, spans in found.items()}


def _mean_megawatts(spans: Sequence[Generation]) -> float:
    return sum(max(0.0, one.megawatts) for one in spans) / len(spans)
