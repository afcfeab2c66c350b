"""Quantities as Kubernetes writes them: `100m` CPUs, `1Gi` bytes, `129e6`.

Source: Kubernetes documentation, API conventions, "Quantity".
"""

import re
from decimal import Decimal

from kwhere.devices.json_answer import JsonValue

_SCALES: dict[str, Decimal] = {
    "": Decimal(1),
    **{letter: Decimal(10) ** (3 * power) for power, letter in zip(range(-3, 0), "num", strict=True)},
    **{letter: Decimal(10) ** (3 * power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
_FORM = re.compile(
    r"\+?(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?P<suffix>[eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})"
)
_LARGEST = Decimal(2**63 - 1)


def parse_quantity(value: JsonValue) -> Decimal | None:
    """Return a quantity in base units (CPUs, bytes, devices); None for what is none, is negative or has no bounds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):  # clients may leave the quotes off
        value = repr(value)
    if not isinstance(value, str):
        return None
    found = _FORM.fullmatch(value)
    if found is None:
        return None
    suffix = found["suffix"]
    if len(suffix) > 1 and suffix[0] in "eE" and suffix != "Ei":
        scale = Decimal(10) ** int(suffix[1:])
    elif suffix in _SCALES:
        scale = _SCALES[suffix]
    else:
        return None
    amount = Decimal(found["number"]) * scale
    return amount if amount <= _LARGEST else None
