"""NVML's calls made safe: codes and words for "not known" become an `Absence`, a lost GPU or driver is raised."""

from collections.abc import Callable
from typing import Any

import pynvml

from kwhere.devices.gpu_fields import Absence
from kwhere.devices.gpu_library import DeviceDown, Reopen

Handle = Any
"""An NVML handle, opaque."""
NO_INSTANCE = 0xFFFFFFFF

_ABSENCE_OF = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: Absence.UNSUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Absence.OLD_DRIVER,
    pynvml.NVML_ERROR_NO_PERMISSION: Absence.PERMISSION,
    pynvml.NVML_ERROR_NOT_FOUND: Absence.NO_DATA,
    pynvml.NVML_ERROR_NO_DATA: Absence.NO_DATA,
    pynvml.NVML_ERROR_TIMEOUT: Absence.TIMEOUT,
}
_DOWN = {pynvml.NVML_ERROR_GPU_IS_LOST: "lost", pynvml.NVML_ERROR_RESET_REQUIRED: "reset_required"}
_REOPEN = (pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
LASTING = frozenset({Absence.UNSUPPORTED, Absence.OLD_DRIVER})
"""Absences that stay until the library is opened anew: not asked again."""


def absence_of(code: int) -> Absence:
    """Return what a return code means for one quantity. Raises DeviceDown, Reopen."""
    if code in _DOWN:
        raise DeviceDown(_DOWN[code])
    if code in _REOPEN:
        raise Reopen(f"NVML: code {code}: the driver was unloaded or replaced")
    return _ABSENCE_OF.get(code, Absence.ERROR)


def attempt(call: Callable[..., Any], *arguments: object) -> Any | Absence:
    """Return what a call gives, else why it gives nothing. Raises DeviceDown, Reopen."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        return absence_of(error.value)


def text(call: Callable[..., Any], *arguments: object) -> str | None:
    """Return a text of the driver: cut at the first NUL, bytes that are no UTF-8 replaced; None where there is none."""
    raw = attempt(getattr(call, "__wrapped__", call), *arguments)  # the binding's own decoding raises on bad bytes
    if isinstance(raw, Absence):
        return None
    return clean_text(raw)


def clean_text(raw: bytes | str) -> str | None:
    """Return printable text of what a driver wrote; None for nothing and for its words for "none"."""
    found = raw.split(b"\0", 1)[0].decode("utf-8", "replace") if isinstance(raw, bytes) else raw.split("\0", 1)[0]
    found = "".join(letter if letter.isprintable() else "\ufffd" for letter in found).strip()
    return None if found in ("", "N/A", "[N/A]", "[Not Supported]", "ERR!") else found


def is_blank(value: int | float, bits: int) -> bool:
    """Return whether a number is NVML's "not available": all bits set, or no number at all."""
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    return value == (1 << bits) - 1
