"""DCMI power readings as programs print them: FreeIPMI, ipmitool, ipmiutil, and Cray's capmc.

A label is looked for wherever it stands: ipmitool 1.8.19 writes its time stamp and the sampling period on one line.
"""

import json
import re
from collections.abc import Iterator

from kwhere.core.errors import SourceError
from kwhere.devices.dcmi import UW_PER_WATT, PowerReading

LONGEST_TEXT = 1 << 16
_LONGEST_VALUE = 80
_LABELS = {
    "current": ("current power", "instantaneous power reading"),
    "minimum": (
        "minimum power over sampling duration",
        "minimum during sampling period",
        "min power over sample duration",
    ),
    "maximum": (
        "maximum power over sampling duration",
        "maximum during sampling period",
        "max power over sample duration",
    ),
    "average": (
        "average power over sampling duration",
        "average power reading over sample period",
        "avg power over sample duration",
    ),
    "state": ("power measurement", "power reading state is"),
    "stamp": ("time stamp", "ipmi timestamp", "timestamp"),
    "period": ("statistics reporting time period", "sampling period"),
}
_ALTERNATIVES = "|".join(f"(?P<{name}>{'|'.join(labels)})" for name, labels in _LABELS.items())
_LABEL = re.compile(rf"(?<!\w)(?:{_ALTERNATIVES.replace(' ', '[ _]+')})\s*[:=]", re.IGNORECASE | re.ASCII)
_ACTIVE = re.compile(r"activ(?:e|ated)\b", re.IGNORECASE)
_NOT_AVAILABLE = re.compile(
    r"(?:n\.?/?a\.?|nan|none|null|ns|-+|unknown|disabled|no *reading|(?:not *|un)(?:available|supported|readable))"
    r"(?: *watts?)?",
    re.IGNORECASE,
)
_POWER = re.compile(r"(?P<number>\d[\d.,'’\u00a0\u202f]*?)[\s\u00a0\u202f]*(?P<unit>[A-Za-z]*)\.?", re.ASCII)
_PLAIN = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)
_GROUPED = re.compile(r"\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d{1,6})?", re.ASCII)
_COMMA = re.compile(r"\d{1,12},\d{1,2}", re.ASCII)
_UNITS = {"": 6, "w": 6, "watt": 6, "watts": 6, "kw": 9, "kilowatt": 9, "kilowatts": 9}
"""Power of ten of a unit in microwatts. `mw` is left out: in other case it is a million times more."""
_PERIOD = re.compile(r"(\d{1,12})\s*(milliseconds?|ms|seconds?|sec|s|minutes?|min|hours?|days?)\b", re.IGNORECASE)
_PERIOD_MS = {"ms": 1, "mil": 1, "s": 1000, "sec": 1000, "min": 60_000, "hou": 3_600_000, "day": 86_400_000}


def parse_program_text(text: str, place: str) -> PowerReading:
    """Return the reading that FreeIPMI, ipmitool or ipmiutil printed. Raises SourceError, also for a cut-off text.

    The exit status says nothing: some versions fail after they printed what was asked, others succeed with nothing.
    """
    found: dict[str, list[str]] = {}
    for name, value in _labelled(text[:LONGEST_TEXT]):
        found.setdefault(name, []).append(value)
    currents = sorted(set(found.get("current", ())))
    if not currents or "state" not in found:
        raise SourceError(f"{place}: expected a power reading with its state, found {_excerpt(text)}")
    if len(currents) > 1:
        raise SourceError(f"{place}: expected the reading of one machine, found {' and '.join(currents[:3])}")
    active = all(_ACTIVE.match(value) for value in found["state"])
    return PowerReading(
        current_uw=_power_uw(currents[0], place) if active else _statistic_uw(currents),
        active=active,
        minimum_uw=_statistic_uw(found.get("minimum")),
        maximum_uw=_statistic_uw(found.get("maximum")),
        average_uw=_statistic_uw(found.get("average")),
        stamp=found.get("stamp", [""])[0] or None,
        period_ms=_period_ms(found.get("period", [""])[0]),
    )


def parse_capmc(text: str, place: str) -> PowerReading:
    """Return the average over capmc's window as the current power. Raises SourceError."""
    try:
        answer = json.loads(text[:LONGEST_TEXT])
    except (ValueError, RecursionError):
        raise SourceError(f"{place}: expected a JSON object, found {_excerpt(text)}") from None
    if not isinstance(answer, dict):
        raise SourceError(f"{place}: expected a JSON object, found {_excerpt(text)}")
    code = answer.get("e")
    if isinstance(code, bool) or code != 0:
        raise SourceError(f"{place}: expected error code 0, found {_excerpt(repr(code))}: {_excerpt(answer)}")
    window_s = answer.get("window_len")
    started = answer.get("start_time")
    return PowerReading(
        current_uw=_json_uw(answer.get("avg"), place),
        active=True,
        minimum_uw=None,
        maximum_uw=None,
        stamp=started if isinstance(started, str) else None,
        period_ms=window_s * 1000 if type(window_s) is int and 0 <= window_s < 10**9 else None,
    )


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield what each label is followed by, up to the end of its line or the next label."""
    for line in text.replace("\t", " ").splitlines():
        marks = list(_LABEL.finditer(line))
        ends = [*(mark.start() for mark in marks[1:]), len(line)]
        for mark, end in zip(marks, ends, strict=False):  # a line without a label has an end, too
            yield mark.lastgroup or "", line[mark.end() : end].strip()


def _power_uw(value: str, place: str) -> int | None:
    """Return microwatts; None for "not available". Raises SourceError for what is neither."""
    if not value or _NOT_AVAILABLE.fullmatch(value):
        return None
    parts = _POWER.fullmatch(value) if len(value) <= _LONGEST_VALUE else None
    exponent = _UNITS.get(parts["unit"].lower()) if parts else None
    digits = _plain_number(parts["number"]) if parts else None
    if digits is None or exponent is None:
        raise SourceError(f"{place}: expected a power in watts, found {_excerpt(value)}")
    whole, fraction = digits
    unit_uw: int = 10**exponent
    return int(whole) * unit_uw + int(fraction.ljust(6, "0")) * unit_uw // UW_PER_WATT


def _plain_number(text: str) -> tuple[str, str] | None:
    """Return whole and fraction of a number, thousands grouped or not; None for anything else."""
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[^\d.]", "", text)
    elif _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    plain = _PLAIN.fullmatch(text)
    return None if plain is None else (plain[1], plain[2] or "")


def _statistic_uw(values: list[str] | None) -> int | None:
    """Return the figure in microwatts; one that cannot be read spoils nothing."""
    try:
        return _power_uw(values[0], "") if values else None
    except SourceError:
        return None


def _period_ms(value: str) -> int | None:
    found = _PERIOD.match(value)
    if found is None:
        return None
    unit = found[2].lower()
    return int(found[1]) * _PERIOD_MS[unit if unit in _PERIOD_MS else unit[:3]]


def _json_uw(value: object, place: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**9:
        raise SourceError(f"{place}: expected a power in watts, found {_excerpt(repr(value))}")
    return round(value * UW_PER_WATT)


def _excerpt(found: object) -> str:
    text = " ".join(str(found)[:200].split())
    return repr(text if len(text) <= 80 else text[:77] + "...") if text else "nothing"
