"""AMD's GPUs by `amdsmi` behind the `Library` seam; what it does not know, or only remembers, the driver's files say.

The package is part of ROCm and is imported in the child process alone.
"""

import importlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kwhere.devices.gpu import GpuProcess, ProcessKind
from kwhere.devices.gpu_bounds import LARGEST_PID, possible_bytes
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import (
    DeviceDown,
    DeviceReport,
    FieldReport,
    LibraryError,
    Opened,
    Reopen,
    XidEvent,
)
from kwhere.graphics.amd import AmdLibrary
from kwhere.graphics.amd_energy import Accumulator, DeviceClock
from kwhere.graphics.amd_inventory import find_amd
from kwhere.graphics.amdsmi_calls import Handle, Module, call, code_of, entry, first_number, item, number, text
from kwhere.graphics.amdsmi_inventory import POWERS, SmiGpu, compute_mode, find_by_amdsmi
from kwhere.graphics.amdsmi_slow import put_limits, put_state
from kwhere.graphics.field_sink import FieldSink
from kwhere.kernel.hostfs import HostFS

_MICROWATTS = 1_000_000
_MEBI = 1 << 20
_FAST_CALLS = ("amdsmi_get_energy_count", "amdsmi_get_power_info", "amdsmi_get_gpu_activity")
_LATER_THAN_MI200 = 4
"""Stands for a table's revision: a board that tells its power of now, not a mean, counts 2^-16 J."""


@dataclass(slots=True)
class _Device:
    """One package and what is remembered of it between readings."""

    gpu: SmiGpu
    accumulator: Accumulator
    clock: DeviceClock = field(default_factory=DeviceClock)


class AmdsmiLibrary:
    """Every GPU that amdsmi lists. Each package is read on a thread of its own."""

    def __init__(self, fs: HostFS, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._fs = fs
        self._clock_ns = clock_ns
        self._files = AmdLibrary(fs, clock_ns)
        self._module: Module = None
        self._devices: dict[str, _Device] = {}

    def open(self) -> Opened:
        """Load the library, and return the GPUs. Raises LibraryError where the driver's files show none either."""
        try:
            return self._open_library()
        except LibraryError as error:
            self._devices = {}
            try:
                return self._files.open()
            except LibraryError:
                raise error from None

    def _open_library(self) -> Opened:
        self._module = module = _import()
        try:
            module.amdsmi_init()
        except module.AmdSmiException as error:
            reason = {10: "permission", 34: "driver"}.get(code_of(error), "error")
            raise LibraryError(reason, f"amdsmi: {error}") from error
        handles = call(module, "amdsmi_get_processor_handles")
        if isinstance(handles, Absence):
            raise LibraryError("error", f"amdsmi: the GPUs cannot be listed: {handles}")
        if not handles:
            raise LibraryError("absent", "amdsmi: expected a GPU, found none")
        cards = find_amd(self._fs)
        if cards:
            self._files.open()
        try:
            found = find_by_amdsmi(module, list(handles), cards)
        except Reopen as error:
            raise LibraryError("driver", str(error)) from error
        self._devices = {gpu.device.uuid: _Device(gpu, Accumulator(gpu.device_id)) for gpu in found}
        return Opened(
            driver=text(call(module, "amdsmi_get_gpu_driver_info", handles[0]), "driver_version") or "",
            version=_version(call(module, "amdsmi_get_lib_version")),
            cuda="",
            devices=tuple(gpu.device for gpu in found),
        )

    def read(self, uuid: str, groups: Collection[RateGroup]) -> Sequence[DeviceReport]:
        """Return one report per group. Raises DeviceDown, Reopen."""
        device = self._devices.get(uuid)
        if device is None:  # the library did not open
            return self._files.read(uuid, groups)
        return [self._read_group(device, group) for group in groups]

    def events(self, timeout_seconds: float) -> Sequence[XidEvent]:
        """Raise LibraryError: AMD's events have no number like NVIDIA's XIDs."""
        raise LibraryError("unsupported", f"amdsmi: no events to wait {timeout_seconds:g} s for")

    def close(self) -> None:
        """Give the library back."""
        if self._devices:
            call(self._module, "amdsmi_shut_down")

    def _read_group(self, device: _Device, group: RateGroup) -> DeviceReport:
        sink, handle, uuid = FieldSink(), device.gpu.handle, device.gpu.device.uuid
        time_ns = self._clock_ns()
        by_files = self._by_files(device.gpu, group)
        if group is RateGroup.MEDIUM:
            self._check_layout(device.gpu)
            put_state(self._module, handle, sink)
        elif group is RateGroup.SLOW:
            put_limits(self._module, handle, sink)
        else:
            return self._fast(device, sink, by_files, time_ns)
        return DeviceReport(uuid, group, time_ns, _joined(sink, by_files))

    def _check_layout(self, gpu: SmiGpu) -> None:
        """Raise Reopen where a package is divided otherwise than when the library was opened: handles are old then."""
        mode = compute_mode(self._module, gpu.handle)
        if mode and mode != gpu.device.facts.get("compute_partition"):
            raise Reopen(f"amdsmi: {gpu.device.uuid}: partitions changed to {mode}")

    def _fast(self, device: _Device, sink: FieldSink, by_files: DeviceReport | None, time_ns: int) -> DeviceReport:
        answers = {name: call(self._module, name, device.gpu.handle) for name in _FAST_CALLS}
        failed = [answer for answer in answers.values() if isinstance(answer, Absence)]
        if by_files is None and len(failed) == len(answers) and Absence.ERROR in failed:
            raise DeviceDown("error")
        self._put_energy(device, answers, sink, time_ns)
        activity = answers["amdsmi_get_gpu_activity"]
        sink.put_percent(GpuField.GPU_UTIL_PERCENT, entry(activity, "gfx_activity"))
        sink.put_percent(GpuField.MEMORY_UTIL_PERCENT, entry(activity, "umc_activity"))
        _put_memory(call(self._module, "amdsmi_get_gpu_vram_usage", device.gpu.handle), sink)
        processes, why = (by_files.processes, None) if by_files is not None else (None, None)
        if processes is None:  # the driver's files tell more of each process
            processes, why = self._processes(device.gpu)
        return DeviceReport(
            device.gpu.device.uuid,
            RateGroup.FAST,
            time_ns,
            _joined(sink, by_files),
            instances=self._instances(device.gpu, by_files),
            processes=processes,
            processes_missing=None if processes is not None else why,
        )

    def _put_energy(self, device: _Device, answers: Mapping[str, Any], sink: FieldSink, time_ns: int) -> None:
        """Put energy and power, unless the library only remembers them: then its device time stands still."""
        energy, power = answers["amdsmi_get_energy_count"], answers["amdsmi_get_power_info"]
        current, average = entry(power, POWERS[0]), entry(power, POWERS[1])
        told = entry(energy, "timestamp")
        if not device.clock.advances(told, time_ns):
            dead = device.clock.is_dead(time_ns)
            sink.put(GpuField.ENERGY_UJ, None, Absence.UNSUPPORTED if dead else Absence.NO_DATA)
            for name in (GpuField.POWER_UW, GpuField.POWER_INSTANT_UW, GpuField.POWER_AVERAGE_UW):
                sink.put(name, None, Absence.NO_DATA)
            return
        raw = first_number(energy, ("energy_accumulator", "power"))
        found = device.accumulator.energy_uj(raw, _LATER_THAN_MI200 if current else None)
        why = found if isinstance(found, Absence) else Absence.UNSUPPORTED
        sink.put(GpuField.ENERGY_UJ, None if isinstance(found, Absence) else found, why)
        sink.put(GpuField.POWER_INSTANT_UW, _watts(current))
        sink.put(GpuField.POWER_AVERAGE_UW, _watts(average))
        sink.put(GpuField.POWER_UW, _watts(next((w for name in POWERS if (w := entry(power, name))), None)))

    def _processes(self, gpu: SmiGpu) -> tuple[tuple[GpuProcess, ...] | None, Absence | None]:
        """Return who runs on a package, by partition where it has several."""
        if not gpu.parts:
            return self._of_handle(gpu.handle, None)
        found: list[GpuProcess] = []
        for handle, instance in zip(gpu.parts, gpu.device.instances, strict=True):
            processes, why = self._of_handle(handle, instance.gpu_instance)
            if processes is None:
                return None, why
            found += processes
        return tuple(found), None

    def _of_handle(self, handle: Handle, part: int | None) -> tuple[tuple[GpuProcess, ...] | None, Absence | None]:
        listed = call(self._module, "amdsmi_get_gpu_process_list", handle)
        if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
            return None, listed if isinstance(listed, Absence) else Absence.BLANK
        found: dict[int, GpuProcess] = {}
        for one in listed:
            pid = entry(one, "pid")
            if pid and pid <= LARGEST_PID and pid not in found:
                memory = entry(one, "memory_usage", "vram_mem")
                found[pid] = GpuProcess(
                    pid=pid,
                    kind=ProcessKind.COMPUTE,
                    memory_bytes=possible_bytes(entry(one, "mem") if memory is None else memory),
                    gpu_instance=part,
                    compute_instance=None if part is None else 0,
                )
        return tuple(found[pid] for pid in sorted(found)), None

    def _instances(self, gpu: SmiGpu, by_files: DeviceReport | None) -> dict[str, FieldReport]:
        """Return memory and activity of each partition."""
        found = {}
        for handle, instance in zip(gpu.parts, gpu.device.instances, strict=False):
            sink = FieldSink()
            _put_memory(call(self._module, "amdsmi_get_gpu_vram_usage", handle), sink)
            busy = _busy(call(self._module, "amdsmi_get_gpu_metrics_info", handle), instance.gpu_instance)
            sink.put_ratio(GpuField.PROF_GRAPHICS_RATIO, busy)
            sink.put_percent(GpuField.GPU_UTIL_PERCENT, busy)
            files = by_files.instances.get(instance.uuid) if by_files is not None else None
            found[instance.uuid] = _with(sink, files)
        return found

    def _by_files(self, gpu: SmiGpu, group: RateGroup) -> DeviceReport | None:
        """Return what the driver's files say of a package; None where they are not seen."""
        if gpu.card is None:
            return None
        return self._files.read(gpu.card.device.uuid, (group,))[0]


def _import() -> Module:
    """Return the package. Raises LibraryError (absent); it prints and ends the process where its library is missing."""
    try:
        return importlib.import_module("amdsmi")
    except (ImportError, KeyError, OSError, AttributeError) as error:
        raise LibraryError("absent", f"the Python package amdsmi: {error}") from error
    except SystemExit as error:
        raise LibraryError("absent", "the Python package amdsmi found no libamd_smi.so") from error


def _version(answer: object) -> str:
    parts = [number(item(answer, name)) for name in ("major", "minor", "release")]
    return "amdsmi " + ".".join(str(part) for part in parts if part is not None)


def _watts(power_w: int | None) -> int | None:
    """Return microwatts; a GPU that works never draws 0 W."""
    return power_w * _MICROWATTS if power_w else None


def _put_memory(answer: object, sink: FieldSink) -> None:
    total, used = entry(answer, "vram_total"), entry(answer, "vram_used")
    sink.put(GpuField.MEMORY_TOTAL_BYTES, None if total is None else total * _MEBI)
    sink.put(GpuField.MEMORY_USED_BYTES, None if used is None else used * _MEBI)
    known = total is not None and used is not None
    sink.put(GpuField.MEMORY_FREE_BYTES, max(0, (total or 0) - (used or 0)) * _MEBI if known else None)


def _busy(answer: object, partition: int) -> int | None:
    """Return the mean over a partition's compute dies, out of the table as the package shows it."""
    stats = item(answer, "xcp_stats.gfx_busy_inst")
    if not isinstance(stats, Sequence) or isinstance(stats, str) or not 0 <= partition < len(stats):
        return None
    engines = stats[partition]
    known = [
        percent
        for engine in (engines if isinstance(engines, Sequence) and not isinstance(engines, str) else [engines])
        if (percent := number(engine)) is not None and percent <= 100
    ]
    return sum(known) // len(known) if known else None


def _joined(sink: FieldSink, by_files: DeviceReport | None) -> FieldReport:
    return _with(sink, by_files.fields if by_files is not None else None)


def _with(sink: FieldSink, files: FieldReport | None) -> FieldReport:
    """Return what the library said, its gaps filled by the driver's files."""
    own = sink.report()
    if files is None:
        return own
    values = {**files.values, **own.values}
    missing = {**files.missing, **own.missing}
    return FieldReport(values, {name: why for name, why in missing.items() if name not in values})
