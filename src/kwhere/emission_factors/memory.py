"""What live providers said, on disk: one small JSON file per provider, so that a restart asks nobody again.

A file that cannot be read or is not ours is as if there were none: everything in it can be asked for again.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System

FORMAT = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KIND = ("provider", "zone", "basis", "scope", "system", "quality", "source")


@dataclass(slots=True)
class ZoneMemory:
    """What is known of one zone."""

    factors: list[Factor] = field(default_factory=list)
    """In time order, without overlap."""
    since: datetime | None = None
    """Everything from here on has been asked for at least once, …"""
    until: datetime | None = None
    """… up to here."""


@dataclass(slots=True)
class ProviderMemory:
    """What is known from one provider, and when it may be asked again."""

    zones: dict[str, ZoneMemory] = field(default_factory=dict)
    not_before: datetime | None = None
    """It asked to be left alone until then."""


class MemoryFile:
    """The file of one provider; without a directory it forgets."""

    def __init__(self, directory: Path | None, provider: str) -> None:
        name = re.sub(r"[^a-z0-9_-]", "_", provider.lower())
        self._path = None if directory is None else directory / f"{name}.json"

    def load(self) -> ProviderMemory:
        """Return what was saved; an empty memory where that cannot be read."""
        if self._path is None:
            return ProviderMemory()
        try:
            return _parse(json.loads(self._path.read_bytes()))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            return ProviderMemory()

    def save(self, memory: ProviderMemory) -> None:
        """Replace the file in one step. A disk that is full or closed costs the memory, not the figures."""
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_text(json.dumps(_document(memory)), encoding="utf-8")
            os.replace(fresh, self._path)


def _document(memory: ProviderMemory) -> Mapping[str, object]:
    return {
        "format": FORMAT,
        "not_before": _text(memory.not_before),
        "zones": {zone: _zone_document(known) for zone, known in memory.zones.items()},
    }


def _zone_document(known: ZoneMemory) -> Mapping[str, object]:
    """Return a zone; what thousands of factors share is written once, times are microseconds since 1970."""
    kinds: dict[tuple[str, ...], int] = {}
    rows = []
    for factor in known.factors:
        kind = kinds.setdefault(tuple(str(getattr(factor, name)) for name in _KIND), len(kinds))
        times = (factor.span.start, factor.span.end, factor.published_at)
        rows.append([kind, *(_microseconds(moment) for moment in times), factor.grams_per_kwh])
    return {
        "since": _text(known.since),
        "until": _text(known.until),
        "kinds": [dict(zip(_KIND, kind, strict=True)) for kind in kinds],
        "factors": rows,
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _parse(document: Mapping[str, object]) -> ProviderMemory:
    if document["format"] != FORMAT:
        raise ValueError("another format")
    memory = ProviderMemory(not_before=_moment(document["not_before"]))
    zones = document["zones"]
    if not isinstance(zones, dict):
        raise ValueError("zones: expected an object")
    for zone, known in zones.items():
        factors = [_factor(row, known["kinds"]) for row in known["factors"]]
        memory.zones[str(zone)] = ZoneMemory(factors, _moment(known["since"]), _moment(known["until"]))
    return memory


def _moment(text: object) -> datetime | None:
    if text is None:
        return None
    found = datetime.fromisoformat(str(text))
    if found.utcoffset() is None:
        raise ValueError(f"expected an offset in {text!r}")
    return found.astimezone(UTC)


def _factor(row: Sequence[Any], kinds: Sequence[Mapping[str, str]]) -> Factor:
    number, start, end, published, grams = row
    kind = kinds[number]
    if not isinstance(grams, int | float) or isinstance(grams, bool):
        raise ValueError(f"expected grams, found {grams!r}")
    start, end, published = (_EPOCH + timedelta(microseconds=each) for each in (start, end, published))
    return Factor(
        provider=str(kind["provider"]),
        zone=str(kind["zone"]),
        span=Span(start, end),
        grams_per_kwh=float(grams),
        published_at=published,
        basis=Basis(kind["basis"]),
        scope=Scope(kind["scope"]),
        system=System(kind["system"]),
        quality=Quality(kind["quality"]),
        source=str(kind["source"]),
    )
