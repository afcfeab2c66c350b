"""Values of a unit that its JSON does not have as they are read."""

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


def shown_id(item: Json) -> str:
    """Return the id as its manager shows it: `123_4` for the task of an array."""
    shown: str = (item.get("labels") or {}).get("job") or item["unit"]
    return shown


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
