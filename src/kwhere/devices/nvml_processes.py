"""Processes on a GPU, with what each used of it, by NVML."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pynvml

from kwhere.devices.gpu import GpuProcess, ProcessKind
from kwhere.devices.gpu_bounds import LARGEST_PID, possible_bytes
from kwhere.devices.gpu_fields import Absence
from kwhere.devices.nvml_calls import NO_INSTANCE, Handle, attempt

_KINDS = (
    (ProcessKind.COMPUTE, "Compute"),
    (ProcessKind.GRAPHICS, "Graphics"),
    (ProcessKind.MPS, "MPSCompute"),
)
_AHEAD_US = 60_000_000
"""A sample's time further ahead of the clock than this is no time."""


def prefers_version_2(driver: str) -> bool:
    """Return whether the third version of the process list has one field more than its readers know.

    So it was in drivers 535.43 to 535.86: read as version 2's layout, pid and memory swap places from the second on.
    """
    found = re.match(r"535\.(\d+)", driver)
    return found is not None and 43 <= int(found[1]) <= 86


def running(handle: Handle, *, version_2: bool) -> list[GpuProcess] | Absence:
    """Return processes of all kinds, one per pid and instance; why not where no list can be had."""
    found: dict[tuple[int, int | None, int | None], GpuProcess] = {}
    failures: list[Absence] = []
    for kind, name in _KINDS:
        listed = attempt(_list, name, version_2, handle)
        if isinstance(listed, Absence):
            failures.append(listed)
            continue
        for entry in listed:
            process = _process(entry, kind)
            if process is not None:
                found.setdefault((process.pid, process.gpu_instance, process.compute_instance), process)
    if len(failures) == len(_KINDS):
        return failures[0]
    return list(found.values())


def _list(name: str, version_2: bool, handle: Handle) -> list[Any]:
    """Return one kind's list, an empty one where the driver does not know the kind at all."""
    second, third = f"nvmlDeviceGet{name}RunningProcesses_v2", f"nvmlDeviceGet{name}RunningProcesses_v3"
    order = (second, third) if version_2 else (third, second)
    calls = [getattr(pynvml, call) for call in order if hasattr(pynvml, call)]
    for call in calls:
        try:
            return list(call(handle))
        except pynvml.NVMLError_FunctionNotFound:
            continue
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _process(entry: Any, kind: ProcessKind) -> GpuProcess | None:
    if not 0 < entry.pid <= LARGEST_PID:
        return None
    return GpuProcess(
        pid=entry.pid,
        kind=kind,
        memory_bytes=possible_bytes(_known(entry.usedGpuMemory, 64)),
        gpu_instance=_known(entry.gpuInstanceId, 32),
        compute_instance=_known(entry.computeInstanceId, 32),
    )


def _known(value: int | None, bits: int) -> int | None:
    return None if value is None or value in (NO_INSTANCE if bits == 32 else -1, (1 << bits) - 1) else value


class UtilisationSamples:
    """Each process's utilisation since the last question: the driver keeps samples, newest ones are asked for."""

    def __init__(self) -> None:
        self._since_us: int | None = None
        self.missing: Absence | None = None

    def apply(self, handle: Handle, processes: Iterable[GpuProcess], now_us: int) -> list[GpuProcess]:
        """Return `processes` with utilisation; those without a sample did nothing. `now_us`: wall clock."""
        listed = list(processes)
        since_us = now_us - 1_000_000 if self._since_us is None else min(self._since_us, now_us)
        answer = attempt(pynvml.nvmlDeviceGetProcessUtilization, handle, since_us)
        self.missing = None
        if answer is Absence.NO_DATA:
            samples: list[Any] = []
        elif isinstance(answer, Absence):
            self.missing = answer
            return listed
        else:
            samples = [
                sample
                for sample in answer
                if 0 < sample.pid <= LARGEST_PID
                and sample.smUtil <= 100
                and since_us < sample.timeStamp <= now_us + _AHEAD_US
            ]
        self._since_us = max((sample.timeStamp for sample in samples), default=since_us)
        return [_with_use(process, [one for one in samples if one.pid == process.pid]) for process in listed] + [
            _with_use(GpuProcess(pid), [one for one in samples if one.pid == pid])
            for pid in sorted({sample.pid for sample in samples} - {process.pid for process in listed})
        ]


def _with_use(process: GpuProcess, samples: list[Any]) -> GpuProcess:
    """Return the process with the mean of its samples."""

    def mean(name: str) -> int:
        values = [min(100, getattr(sample, name)) for sample in samples]
        return round(sum(values) / len(values)) if values else 0

    return replace(
        process,
        sm_percent=mean("smUtil"),
        memory_percent=mean("memUtil"),
        encoder_percent=mean("encUtil"),
        decoder_percent=mean("decUtil"),
    )
