"""What live providers said, on disk: one small JSON file per provider, so that a restart asks nobody again.

A file that cannot be read or is not ours is as if there were none: everything in it can be asked for again.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System

FORMAT = 1


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
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
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
        "zones": {
            zone: {
                "since": _text(known.since),
                "until": _text(known.until),
                "factors": [_row(factor) for factor in known.factors],
            }
            for zone, known in memory.zones.items()
        },
    }


def _row(factor: Factor) -> Mapping[str, object]:
    row = asdict(factor)
    row["span"] = [_text(factor.span.start), _text(factor.span.end)]
    row["published_at"] = _text(factor.published_at)
    return row


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _parse(document: Mapping[str, object]) -> ProviderMemory:
    if document["format"] != FORMAT:
        raise ValueError("another format")
    memory = ProviderMemory(not_before=_moment(document["not_before"]))
    zones = document["zones"]
    if not isinstance(zones, dict):
        raise ValueError("zones: expected an object")
    for zone, known in zones.items():
        factors = [_factor(row) for row in known["factors"]]
        memory.zones[str(zone)] = ZoneMemory(factors, _moment(known["since"]), _moment(known["until"]))
    return memory


def _moment(text: object) -> datetime | None:
    if text is None:
        return None
    found = datetime.fromisoformat(str(text))
    if found.utcoffset() is None:
        raise ValueError(f"expected an offset in {text!r}")
    return found.astimezone(UTC)


def _factor(row: Mapping[str, object]) -> Factor:
    span = row["span"]
    grams, published = row["grams_per_kwh"], _moment(row["published_at"])
    if not isinstance(span, list) or not isinstance(grams, int | float) or published is None:
        raise ValueError("expected a factor")
    start, end = (_moment(edge) for edge in span)
    if start is None or end is None:
        raise ValueError("expected a span")
    return Factor(
        provider=str(row["provider"]),
        zone=str(row["zone"]),
        span=Span(start, end),
        grams_per_kwh=float(grams),
        published_at=published,
        basis=Basis(str(row["basis"])),
        scope=Scope(str(row["scope"])),
        system=System(str(row["system"])),
        quality=Quality(str(row["quality"])),
        source=str(row["source"]),
    )
