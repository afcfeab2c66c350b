"""AMD's Python package `amdsmi`, called so that a failure is a reason and never an exception of its own kinds."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kwhere.devices.gpu_fields import Absence
from kwhere.devices.gpu_library import Reopen

Module = Any
"""The package has no types of its own."""
Handle = Any

_NOT_SUPPORTED, _NOT_YET, _NO_SYMBOL, _TIMEOUT, _NO_PERMISSION = 2, 3, 5, 8, 10
_NOT_FOUND, _NOT_INITIALISED, _DRIVER_NOT_LOADED, _NO_DATA = 31, 32, 34, 40
_ABSENCES: Mapping[int, Absence] = {
    _NOT_SUPPORTED: Absence.UNSUPPORTED,
    _NOT_YET: Absence.UNSUPPORTED,
    _NO_SYMBOL: Absence.OLD_DRIVER,
    _TIMEOUT: Absence.TIMEOUT,
    _NO_PERMISSION: Absence.PERMISSION,
    _NOT_FOUND: Absence.UNSUPPORTED,
    _NO_DATA: Absence.NO_DATA,
}
_LONGEST = 20
_UNKNOWN = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})


def call(module: Module, name: str, *arguments: object) -> Any | Absence:
    """Return what a function of the package answers, or why it does not. Raises Reopen where the driver went away."""
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None:
        return Absence.OLD_DRIVER
    try:
        return function(*arguments)
    except module.AmdSmiException as error:
        code = code_of(error)
        if code in (_NOT_INITIALISED, _DRIVER_NOT_LOADED):
            raise Reopen(f"amdsmi: {name}: {error}") from error
        return _ABSENCES.get(code, Absence.ERROR)
    except (AttributeError, KeyError, TypeError, ValueError):  # versions of the package differ from their library's
        return Absence.ERROR


def code_of(error: Exception) -> int:
    """Return the library's number of an error; -1 where the exception has none."""
    getter = getattr(error, "get_error_code", None)
    code = getter() if callable(getter) else getattr(error, "err_code", None)
    return code if isinstance(code, int) else -1


def number(answer: object) -> int | None:
    """Return an answer as a whole number; None for `N/A`, for text that begins so, and where all bits are set."""
    if isinstance(answer, str):
        word = answer.strip()
        return (
            int(word) if word.isascii() and word.isdigit() and len(word) <= 20 and int(word) not in _UNKNOWN else None
        )
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        return None
    if isinstance(answer, float) and not math.isfinite(answer):
        return None
    value = round(answer)
    return None if value in _UNKNOWN or value < 0 else value


def item(answer: object, *keys: str) -> object:
    """Return what lies under the keys of nested dictionaries; None where one is missing."""
    for key in keys:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(key)
    return answer


def entry(answer: object, *keys: str) -> int | None:
    """Return the number under the keys; None where there is none."""
    return number(item(answer, *keys))


def text(answer: object, *keys: str) -> str | None:
    """Return printable text under the keys; None for `N/A`, for nothing, and for anything else."""
    found = item(answer, *keys)
    if not isinstance(found, str) or not found.strip() or not found.isprintable():
        return None
    return None if found.strip().upper().startswith("N/A") else found.strip()


def first_number(answer: object, names: Sequence[str]) -> int | None:
    """Return the first number among several keys: boards answer under different ones, and `N/A` under the others."""
    return next((value for name in names if (value := entry(answer, name)) is not None), None)


def hexadecimal(word: str | None) -> int | None:
    """Return a number written as `0x74a1`, with or without the prefix."""
    try:
        return None if word is None else int(word, 16)
    except ValueError:
        return None
