"""Values of a unit that its JSON does not have as they are read."""

import re
from datetime import UTC, datetime

from kwhere.cli.client import Json


def cpu_seconds(item: Json) -> float | None:
    """Return user + system CPU seconds of a unit; None where not measured."""
    parts = item.get("cpu_seconds") or {}
    known = [value for value in (parts.get("user"), parts.get("system")) if value is not None]
    return sum(known) if known else None


def gpus_allocated(item: Json) -> float | None:
    """Return how many GPUs and instances a unit was given, shares as fractions; None for none."""
    return sum((item.get("allocation") or {}).get("gpus", {}).values()) or None


_LONG_IDS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), 8),
    (re.compile(r"[0-9a-f]{64}"), 12),
)
"""Ids that nobody reads to their end, and how much of them tells them apart."""


def shown_id(item: Json) -> str:
    """Return the id as its manager shows it: `123_4` for the task of an array."""
    shown: str = (item.get("labels") or {}).get("job") or item["unit"]
    return shown


def short_id(item: Json) -> str:
    """Return the id for a terminal: of a UUID and of a container's hash their beginning, which `kwhere unit` takes."""
    shown = shown_id(item)
    return next((shown[:length] for pattern, length in _LONG_IDS if pattern.fullmatch(shown)), shown)


def elapsed_seconds(item: Json) -> float | None:
    """Return how long it held what it was given: as its manager counts, else from start to end or now."""
    if item.get("elapsed_seconds") is not None:
        return float(item["elapsed_seconds"])
    if not item.get("started_at"):
        return None
    end = datetime.fromisoformat(item["ended_at"]) if item.get("ended_at") else datetime.now(UTC)
    return max(0.0, (end - datetime.fromisoformat(item["started_at"])).total_seconds())


def local_time(text: str) -> str:
    """Return an ISO time in this machine's zone, as sacct writes it: `2026-11-29T18:00:00`."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%dT%H:%M:%S")
