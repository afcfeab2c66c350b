"""A unit's figures in one short line that stands in its manager's own records, and whose line is whose.

`kwhere1:kwh=0.0123;co2e_g=1.9;cpu_eff=0.931;method=counter`: the marker and its version, then `key=value` with `;`
between, no blanks and no quotes. A figure that is not known is left out.
"""

import re
from decimal import Decimal

from kwhere.core.quantities import JOULES_PER_KWH, joules
from kwhere.core.terms import Flag
from kwhere.database.records import UnitRecord

MARKER = "kwhere1:"
_OURS = re.compile(r"(?:^|(?<= ))kwhere[0-9]{1,4}:[^ ]*")
_PAIR = re.compile(r"([a-z][a-z0-9_]*)=([A-Za-z0-9_.+-]*)")
_DIGITS = 6


def unit_note(record: UnitRecord) -> str | None:
    """Return the line of a unit; None where no energy of it is known."""
    if not record.energy_uj:
        return None
    figures = {
        "kwh": _number(joules(record.energy_total_uj) / JOULES_PER_KWH),
        "co2e_g": None if record.emissions_grams is None else _number(record.emissions_grams),
        "cpu_eff": None if record.cpu_efficiency_ratio is None else f"{record.cpu_efficiency_ratio:.3f}",
        "method": None if record.method is None else str(record.method),
        "lost": "1" if Flag.LOST in record.quality else None,
    }
    return MARKER + ";".join(f"{key}={value}" for key, value in figures.items() if value is not None)


def parse_note(text: str) -> dict[str, str]:
    """Return the figures of our line, wherever it stands in a text; {} where there is none."""
    found = _OURS.search(text)
    if found is None:
        return {}
    pairs = (_PAIR.fullmatch(part) for part in found[0].partition(":")[2].split(";"))
    return {pair[1]: pair[2] for pair in pairs if pair is not None}


def merge_note(standing: str, ours: str, *, appends: bool) -> str | None:
    """Return what is to stand there: our line takes the place of an older one of ours, and of nothing else.

    Another's text is kept, ours behind it where `appends`; without that None: it is to be left as it is.
    """
    words = standing.strip()
    before = _OURS.search(words)
    if before is not None and (appends or before[0] == words):
        return words[: before.start()] + ours + words[before.end() :]
    if not words:
        return ours
    return f"{standing.rstrip()} {ours}" if appends else None


def _number(value: float) -> str:
    """Return six digits that count, never with an exponent."""
    return format(Decimal(f"{value:.{_DIGITS}g}"), "f")
