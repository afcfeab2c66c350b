"""Values of a parsed JSON document, checked one by one; WireError says place, expectation and finding."""

from kwhere.core.errors import WireError
from kwhere.ledger.wire import LARGEST_INTEGER


def excerpt(value: object, length: int = 60) -> str:
    """Return at most `length` characters that show `value` in an error."""
    shown = value if isinstance(value, str) and value.isprintable() and value else repr(value)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def integer(value: object, place: str) -> int:
    """Return `value` if it is an integer from 0 to 2^63 - 1; true and false are none."""
    if type(value) is int and 0 <= value <= LARGEST_INTEGER:
        return value
    raise WireError(f"{place}: expected an integer from 0 to 2^63 - 1, found {_shown(value)}")


def optional_integer(value: object, place: str) -> int | None:
    """Return `value` if it is null or such an integer."""
    return None if value is None else integer(value, place)


def text(value: object, place: str) -> str:
    """Return `value` if it is a string that every store can hold: no NUL, no lone surrogate."""
    if isinstance(value, str) and (value.isascii() or _is_encodable(value)) and "\0" not in value:
        return value
    raise WireError(f"{place}: expected a string of Unicode text without NUL, found {_shown(value)}")


def optional_text(value: object, place: str) -> str | None:
    """Return `value` if it is null or such a string."""
    return None if value is None else text(value, place)


def text_list(value: object, place: str) -> tuple[str, ...]:
    """Return the strings of a list of such strings."""
    if not isinstance(value, list):
        raise WireError(f"{place}: expected a list, found {_shown(value)}")
    return tuple(text(item, place) for item in value)


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """An integer of thousands of digits cannot be turned into text."""
    if type(value) is int and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    return excerpt(repr(value))
