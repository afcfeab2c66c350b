"""How far back a Prometheus-compatible store goes: by what it says of itself, else by its oldest sample.

Prometheus tells its limits in /api/v1/status/runtimeinfo (older ones in /api/v1/status/flags), Thanos the reach of its
stores in /api/v1/stores. Mimir and VictoriaMetrics tell nothing, and where the size is limited nobody knows what is
left: then the agents' own series are looked for, a point here and there, never whole spans of them.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kwhere.core.errors import SourceError, TooMuch
from kwhere.series.prometheus_api import PrometheusApi
from kwhere.series.retention import Kept, KeptBy, Limits, parse_duration, parse_limits

_REACH = timedelta(days=3650)
"""How far back the oldest sample is looked for."""
_LOOKS_DAYS = (3650, 730, 180, 30, 7, 1)
"""How long a span is looked at with one question: servers may refuse long ones."""
_POINTS = 240
"""Points of one look."""
_FINE_LOOKS = 8
"""So many looks go on before the oldest coarse point: one or two find the end, unless samples come in bursts."""
_FINE_SECONDS = 60
_RETENTION_FLAGS = ("storage.tsdb.retention.time", "storage.tsdb.retention")


def kept_by(api: PrometheusApi, expression: str, now: datetime) -> Kept | None:
    """Return how far back the store goes; None where it has no sample of `expression`, which all agents have.

    Raises Unavailable, SourceError.
    """
    limits = told_limits(api)
    if limits is not None and limits.time is not None and not limits.has_size:
        return Kept(now - limits.time, KeptBy.TIME, limits.text)
    oldest = _told_oldest(api) or _oldest_sample(api, expression, now)
    if oldest is None:
        return None
    if limits is None:
        return Kept(oldest, KeptBy.OLDEST, "")
    if limits.time is not None and now - limits.time >= oldest:
        return Kept(now - limits.time, KeptBy.TIME, limits.text)
    return Kept(oldest, KeptBy.SIZE, limits.text)


def told_limits(api: PrometheusApi) -> Limits | None:
    """Return the limits that the store tells; None where it tells none. Raises Unavailable."""
    text = api.told("/api/v1/status/runtimeinfo").get("storageRetention")
    if not isinstance(text, str) or not text:
        text = _flag_text(api.told("/api/v1/status/flags"))
    try:
        return parse_limits(text)
    except SourceError:
        return None


def _flag_text(flags: Mapping[str, Any]) -> str:
    """Return flags as runtimeinfo would tell them: `0s` is a flag that was not given."""
    times = [str(flags[name]) for name in _RETENTION_FLAGS if flags.get(name)]
    size = str(flags.get("storage.tsdb.retention.size") or "")
    return " or ".join([*[time for time in times if _lasts(time)][:1], *([size] if size else [])])


def _lasts(text: str) -> bool:
    try:
        return bool(parse_duration(text))
    except SourceError:
        return False


def _told_oldest(api: PrometheusApi) -> datetime | None:
    """Return the oldest moment of Thanos' stores; None where there is no such page."""
    kinds = api.told("/api/v1/stores").values()
    stores = [store for kind in kinds if isinstance(kind, list) for store in kind if isinstance(store, dict)]
    times_ms = [time for store in stores if isinstance(time := store.get("minTime"), int) and 0 < time < 2**53]
    if not times_ms or len(times_ms) < len(stores):
        return None
    try:
        return datetime.fromtimestamp(min(times_ms) / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _oldest_sample(api: PrometheusApi, expression: str, now: datetime) -> datetime | None:
    """Return about when the oldest sample is; None where there is none.

    A coarse search finds the oldest point with a sample; finer looks go on before it, until a whole coarse step is
    empty. That is minutes too late at most where no outage lasted a coarse step: from 6 minutes, for a store that takes
    no question over more than a day, to 15 days for one that takes them all. Longer ones may end the search, and so
    may samples that came in bursts shorter than a step: it is then too late, never too early.
    """
    oldest, step = _coarse(api, expression, math.floor(now.timestamp()))
    if oldest is None:
        return None
    fine = math.ceil(step / _POINTS)
    edge = oldest
    for _ in range(_FINE_LOOKS):
        found = _first(api, expression, edge - step, edge - fine, fine)
        if found is None:
            break
        oldest, edge = found, edge - step
    exact = _first(api, expression, oldest - fine, oldest, max(_FINE_SECONDS, math.ceil(fine / _POINTS)))
    return datetime.fromtimestamp(oldest if exact is None else min(exact, oldest), UTC)


def _coarse(api: PrometheusApi, expression: str, now_s: int) -> tuple[int | None, int]:
    """Return the oldest of points that lie a step apart, and the step, in seconds; spans as long as the store takes."""
    *longer, shortest = (math.ceil(days * 86400 / _POINTS) for days in _LOOKS_DAYS)
    for step in longer:
        try:
            return _oldest_of_looks(api, expression, now_s, step), step
        except TooMuch:
            continue
    return _oldest_of_looks(api, expression, now_s, shortest), shortest


def _oldest_of_looks(api: PrometheusApi, expression: str, now_s: int, step: int) -> int | None:
    """Return the oldest point with a sample, found with at most twice as many looks as their number has binary digits.

    Looks lie end to end. Those 0, 1, 2, 4, … back are tried, the oldest first; between the first that has samples and
    the empty one before it the search halves. It ends at a whole look without any, or at the reach.
    """
    length = _POINTS * step
    count = math.ceil(_REACH.total_seconds() / length)

    def first_of(look: int) -> int | None:
        end = now_s - look * length
        return _first(api, expression, end - length, end, step)

    held, empty, oldest = 0, count, None
    for held in (*(2**power for power in reversed(range((count - 1).bit_length()))), 0):
        oldest = first_of(held)
        if oldest is not None:
            break
        empty = held
    while oldest is not None and empty - held > 1:
        middle = (held + empty) // 2
        found = first_of(middle)
        if found is None:
            empty = middle
        else:
            held, oldest = middle, found
    return oldest


def _first(api: PrometheusApi, expression: str, start: int, end: int, step: int) -> int | None:
    """Return the first of the points at which `expression` has a sample, UTC seconds."""
    if start < 0:
        start = end - end // step * step
    asked: Iterator[tuple[Mapping[str, str], Mapping[float, float]]] = api.series(
        "/api/v1/query_range", query=f"count({expression})", start=str(start), end=str(end), step=str(step)
    )
    times = (time for _, samples in asked for time in samples if start <= time <= end)
    return min((math.floor(time) for time in times), default=None)
