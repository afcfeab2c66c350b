"""ENTSO-E's XML of actual generation, read: type, span, megawatts; pure.

Two kinds of curve: A01 has every position, A03 leaves out those that repeat the one before. Series that go out of the
zone are consumption (pumping) and are left out.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from xml.etree import ElementTree

from kwhere.core.errors import NoData, SourceError
from kwhere.core.timespan import Span
from kwhere.emission_factors.generation_mix import Generation
from kwhere.emission_factors.rows import parse_time

ACKNOWLEDGEMENT = "Acknowledgement_MarketDocument"
GENERATION = "GL_MarketDocument"
NO_DATA = "999"
CARRIES_FORWARD = "A03"
MOST_MEGAWATTS = 1e6
"""Beyond it, a number is a fault."""
MOST_POSITIONS = 40_000
"""A year of quarter hours: a period that claims more is refused before it fills the memory."""
_RESOLUTION = re.compile(r"PT(\d{1,4})M|PT(\d{1,2})H|P1D")


def read_generation(text: str, place: str) -> list[Generation]:
    """Return generation by type and span. Raises NoData for an answer without, SourceError for anything else."""
    root = _parse(text, place)
    kind = _name(root)
    if kind == ACKNOWLEDGEMENT:
        raise _refusal(root, place)
    if kind != GENERATION:
        raise SourceError(f"{place}: expected {GENERATION}, found {kind[:60]}")
    return [one for series in _children(root, "TimeSeries") for one in _of_series(series)]


def _parse(text: str, place: str) -> ElementTree.Element:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise SourceError(f"{place}: expected plain XML, found a document type")
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities to expand
    except (ElementTree.ParseError, ValueError) as error:
        raise SourceError(f"{place}: expected XML, found what is none: {str(error)[:100]}") from error


def _refusal(root: ElementTree.Element, place: str) -> Exception:
    reason = next(_children(root, "Reason"), None)
    code = _text(reason, "code") if reason is not None else ""
    words = " ".join(_text(reason, "text").split())[:200] if reason is not None else ""
    message = f"{place}: {words or 'refused'} (reason {code or 'none'})"
    return NoData(message) if code == NO_DATA else SourceError(message)


def _of_series(series: ElementTree.Element) -> Iterator[Generation]:
    kind = next(_children(series, "MktPSRType"), None)
    code = _text(kind, "psrType") if kind is not None else ""
    if not code or _has(series, "outBiddingZone_Domain.mRID"):
        return
    carries = _text(series, "curveType") == CARRIES_FORWARD
    for period in _children(series, "Period"):
        for span, megawatts in _of_period(period, carries=carries):
            yield Generation(code, span, megawatts)


def _of_period(period: ElementTree.Element, *, carries: bool) -> Iterator[tuple[Span, float]]:
    interval = next(_children(period, "timeInterval"), None)
    step = _resolution(_text(period, "resolution"))
    if interval is None or step is None:
        return
    start, end = parse_time(_text(interval, "start")), parse_time(_text(interval, "end"))
    if start is None or end is None or end <= start or (end - start) // step > MOST_POSITIONS:
        return
    points = _points(period, (end - start) // step)
    positions = sorted(points)
    for place, position in enumerate(positions):
        following = positions[place + 1] if place + 1 < len(positions) else (end - start) // step + 1
        megawatts = points[position]
        if megawatts is not None:
            last = following if carries else position + 1
            for each in range(position, last):
                yield _span(start, step, each), megawatts


def _span(start: datetime, step: timedelta, position: int) -> Span:
    return Span(start + (position - 1) * step, start + position * step)


def _points(period: ElementTree.Element, count: int) -> dict[int, float | None]:
    """Return megawatts by position, 1 … `count`; None where a position is there and its quantity makes no sense."""
    found: dict[int, float | None] = {}
    for point in _children(period, "Point"):
        position = _text(point, "position")
        if position.isascii() and position.isdigit() and len(position) <= 6 and 1 <= int(position) <= count:
            found[int(position)] = _megawatts(_text(point, "quantity"))
    return found


def _megawatts(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) <= MOST_MEGAWATTS else None


def _resolution(text: str) -> timedelta | None:
    match = _RESOLUTION.fullmatch(text)
    if match is None:
        return None
    step = timedelta(minutes=int(match[1] or 0), hours=int(match[2] or 0)) or timedelta(days=1)
    return step if timedelta(minutes=1) <= step <= timedelta(days=1) else None


def _name(element: ElementTree.Element) -> str:
    """Return the element's name without its namespace: that has a version in it."""
    return element.tag.rpartition("}")[2]


def _children(element: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (child for child in element if _name(child) == name)


def _has(element: ElementTree.Element, name: str) -> bool:
    return any(True for _ in _children(element, name))


def _text(element: ElementTree.Element, name: str) -> str:
    child = next(_children(element, name), None)
    return (child.text or "").strip() if child is not None else ""
