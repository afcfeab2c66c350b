"""A stand-in for AMD's package amdsmi 7: the shapes of its answers, out of a JSON file that a test writes.

`$FAKE_AMDSMI` names the file: {"gpus": [{call: answer, …}, …], "library": {call: answer}, "init": code}. An answer may
be {"error": code}, {"hang": seconds}, or {"ramp": [start, per_second]} for a number that grows.
"""

import json
import os
import time
from enum import IntEnum
from typing import Any


class AmdSmiException(Exception):  # noqa: N818 - the package's own name
    """The package's own base."""


class AmdSmiLibraryException(AmdSmiException):
    """An error of the library; the real one knows its number too."""

    def __init__(self, err_code: int) -> None:
        super().__init__(f"Error code:\n\t{err_code}")
        self.err_code = err_code

    def get_error_code(self) -> int:
        """Return AMDSMI_STATUS_…"""
        return self.err_code


class AmdSmiTemperatureType(IntEnum):
    """Sensors."""

    EDGE = 0
    HOTSPOT = 1
    JUNCTION = 1
    VRAM = 2


class AmdSmiTemperatureMetric(IntEnum):
    """What of a sensor."""

    CURRENT = 0
    MAX = 1
    CRITICAL = 5


class AmdSmiClkType(IntEnum):
    """Clocks."""

    GFX = 0
    SYS = 0
    MEM = 4


class Handle:
    """A processor handle: opaque, as the real one is."""

    def __init__(self, place: int) -> None:
        self.place = place


def _scenario() -> Any:
    with open(os.environ["FAKE_AMDSMI"], encoding="utf-8") as file:
        return json.load(file)


def _play(answer: Any) -> Any:
    if isinstance(answer, dict):
        if "error" in answer:
            raise AmdSmiLibraryException(answer["error"])
        if "hang" in answer:
            time.sleep(answer["hang"])
            return None
        if "ramp" in answer:
            start, per_second = answer["ramp"]
            return round(start + per_second * time.monotonic())
        return {name: _play(value) for name, value in answer.items()}
    return [_play(value) for value in answer] if isinstance(answer, list) else answer


def _of_gpu(name: str, handle: Handle) -> Any:
    if not isinstance(handle, Handle):
        raise AmdSmiException("parameter")
    return _play(_scenario()["gpus"][handle.place].get(name, {"error": 2}))


def amdsmi_init(flag: int = 2) -> None:
    """Open the library."""
    code = _scenario().get("init", 0)
    if code:
        raise AmdSmiLibraryException(code)


def amdsmi_shut_down() -> None:
    """Close the library."""


def amdsmi_get_processor_handles() -> list[Handle]:
    """Return a handle per GPU or partition."""
    return [Handle(place) for place in range(len(_scenario()["gpus"]))]


def amdsmi_get_lib_version() -> Any:
    """Return the version in parts."""
    return {"year": 25, "major": 7, "minor": 0, "release": 2, "build": "none"}


def amdsmi_get_temp_metric(handle: Handle, kind: AmdSmiTemperatureType, metric: AmdSmiTemperatureMetric) -> Any:
    """Return degrees Celsius."""
    return _of_gpu(f"amdsmi_get_temp_metric.{AmdSmiTemperatureType(kind).name}.{metric.name}", handle)


def amdsmi_get_clock_info(handle: Handle, kind: AmdSmiClkType) -> Any:
    """Return MHz."""
    return _of_gpu(f"amdsmi_get_clock_info.{AmdSmiClkType(kind).name}", handle)


def __getattr__(name: str) -> Any:
    """Return any other call of a GPU that the package has."""
    if not name.startswith("amdsmi_get_"):
        raise AttributeError(name)
    return lambda handle: _of_gpu(name, handle)
