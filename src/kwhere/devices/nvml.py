"""NVIDIA's library behind the `Library` seam. Lives in its child process alone (see gpu_child.py)."""

import ctypes
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pynvml

from kwhere.devices.gpu import GpuDevice, GpuInstance, GpuProcess, LinkReadings
from kwhere.devices.gpu_bounds import drop_impossible
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import DeviceDown, DeviceReport, FieldReport, LibraryError, Opened, Reopen, XidEvent
from kwhere.devices.nvml_calls import LASTING, NO_INSTANCE, Handle, absence_of, attempt, text
from kwhere.devices.nvml_fields import FIELD_IDS_OF, GETTERS_OF, KIBI, Getter, Quantity, field_value
from kwhere.devices.nvml_gpm import GpmWindow, supports_gpm
from kwhere.devices.nvml_inventory import describe, instances, layout
from kwhere.devices.nvml_processes import UtilisationSamples, prefers_version_2, running

XID = 0x8
"""Event type of critical XIDs."""
_REASONS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "absent",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "permission",
}
_MEMORY = (
    GpuField.MEMORY_TOTAL_BYTES,
    GpuField.MEMORY_USED_BYTES,
    GpuField.MEMORY_FREE_BYTES,
    GpuField.MEMORY_RESERVED_BYTES,
)
_LINK_FIELDS = {138: GpuField.NVLINK_TX_BYTES, 139: GpuField.NVLINK_RX_BYTES}
_MOST_LINKS = 18


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of one group a device is asked for, and why the rest is missing."""

    getters: tuple[Getter, ...]
    places: tuple[tuple[int, int], ...]
    """Field ids with their scopes."""
    quantities: tuple[Quantity, ...]
    """Of the field ids."""
    missing: Mapping[GpuField, Absence]


@dataclass(slots=True)
class _Device:
    """One device: its handle, what it is known not to have, and what is remembered between readings."""

    handle: Handle
    device: GpuDevice
    lacks: dict[object, Absence] = field(default_factory=dict)
    """By getter or field id: not asked again."""
    plans: dict[RateGroup, _Plan] = field(default_factory=dict)
    samples: UtilisationSamples = field(default_factory=UtilisationSamples)
    gpm: GpmWindow | None = None
    instance_gpm: dict[int, GpmWindow] = field(default_factory=dict)
    """By GPU instance: compute instances of one share it."""
    links: int | None = None
    parts: tuple[tuple[Handle, GpuInstance], ...] | None = None
    """MIG devices with their handles, as they were when the layout was last looked at."""


class NvmlLibrary:
    """Every NVIDIA GPU of the node. Each device is read by a thread of its own; NVML allows that."""

    def __init__(self, path: str = "") -> None:
        """`path`: the library's file; empty: where the linker finds it."""
        self._path = path
        self._devices: dict[str, _Device] = {}
        self._driver = ""
        self._version_2 = False
        self._events: object | None = None

    def open(self) -> Opened:
        """Load the library, and return its devices. Raises LibraryError."""
        try:
            if self._path:
                pynvml.nvmlLib = ctypes.CDLL(self._path)
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except OSError as error:
            raise LibraryError("absent", f"{self._path}: {error}") from error
        except pynvml.NVMLError as error:
            raise LibraryError(_REASONS.get(error.value, "error"), f"NVML: {error}") from error
        unreadable = {}
        for index in range(count):
            try:
                self._add(index)
            except DeviceDown as error:
                unreadable[index] = error.reason
            except Reopen as error:
                raise LibraryError("driver", str(error)) from error
        self._driver = text(pynvml.nvmlSystemGetDriverVersion) or ""
        self._version_2 = prefers_version_2(self._driver)
        cuda = attempt(pynvml.nvmlSystemGetCudaDriverVersion)
        return Opened(
            driver=self._driver,
            version=text(pynvml.nvmlSystemGetNVMLVersion) or "",
            cuda="" if isinstance(cuda, Absence) else f"{cuda // 1000}.{cuda % 1000 // 10}",
            devices=tuple(found.device for found in self._devices.values()),
            unreadable=unreadable,
        )

    def read(self, uuid: str, groups: Collection[RateGroup]) -> Sequence[DeviceReport]:
        """Return one report per group. Raises DeviceDown, Reopen."""
        device = self._devices[uuid]
        return [self._read_group(device, uuid, group) for group in groups]

    def events(self, timeout_seconds: float) -> Sequence[XidEvent]:
        """Wait for XIDs. Raises LibraryError where the driver tells none, Reopen."""
        if self._events is None:
            self._events = self._register()
        try:
            data = pynvml.nvmlEventSetWait_v2(self._events, int(timeout_seconds * 1000))
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_TIMEOUT:
                return []
            raise LibraryError("error", f"NVML: {error}") from error
        uuid = text(pynvml.nvmlDeviceGetUUID, data.device)
        if uuid is None or not data.eventType & XID:
            return []
        gpu_instance, compute_instance = (
            None if one == NO_INSTANCE else one for one in (data.gpuInstanceId, data.computeInstanceId)
        )
        return [XidEvent(uuid, int(data.eventData), time.time_ns(), gpu_instance, compute_instance)]

    def close(self) -> None:
        """Give every handle back."""
        attempt(pynvml.nvmlShutdown)

    def _add(self, index: int) -> None:
        handle = attempt(pynvml.nvmlDeviceGetHandleByIndex, index)
        if isinstance(handle, Absence):
            raise DeviceDown("permission" if handle is Absence.PERMISSION else "error")
        device = describe(handle, index)
        if device.uuid in self._devices:  # copied firmware: two boards must not become one
            device = replace(device, uuid=f"{device.uuid}-{device.pci or index}")
        self._devices[device.uuid] = _Device(handle, device, gpm=GpmWindow(handle) if supports_gpm(handle) else None)

    def _register(self) -> object:
        created = attempt(pynvml.nvmlEventSetCreate)
        if isinstance(created, Absence):
            raise LibraryError("unsupported", f"NVML: no event set: {created}")
        registered = 0
        for device in self._devices.values():
            try:
                registered += not isinstance(
                    attempt(pynvml.nvmlDeviceRegisterEvents, device.handle, XID, created), Absence
                )
            except DeviceDown:
                continue
        if not registered:
            raise LibraryError("unsupported", "NVML: no device tells events")
        return created

    def _read_group(self, device: _Device, uuid: str, group: RateGroup) -> DeviceReport:
        changed = group is not RateGroup.FAST and self._layout_changed(device)
        time_ns = time.monotonic_ns()
        values, missing = self._fields(device, group)
        if group is not RateGroup.FAST:
            return DeviceReport(
                uuid,
                group,
                time_ns,
                FieldReport(values, missing),
                links=tuple(self._links(device)) if group is RateGroup.MEDIUM else None,
                device=device.device if changed else None,
            )
        memory = _memory(device.handle)
        values |= memory.values
        missing |= memory.missing
        processes, processes_missing = self._processes(device)
        if device.gpm is not None and not device.device.mig:
            activity = device.gpm.read()
            values |= activity.values
            missing |= activity.missing
        found = self._instances(device)
        if found is None:
            changed, found = True, {}
            self._describe(device)
        return DeviceReport(
            uuid,
            group,
            time_ns,
            FieldReport(values, missing),
            instances=found,
            processes=processes,
            processes_missing=processes_missing,
            device=device.device if changed else None,
        )

    def _fields(self, device: _Device, group: RateGroup) -> tuple[dict[GpuField, int | float], dict[GpuField, Absence]]:
        plan = device.plans.get(group)
        if plan is None:
            plan = device.plans[group] = _plan(device, group)
        values: dict[GpuField, int | float] = {}
        missing = dict(plan.missing)
        learned = False
        for getter in plan.getters:
            answer: Sequence[int] | Absence = attempt(getter.call, device.handle)
            if isinstance(answer, Absence):
                missing.update((quantity.field, answer) for quantity in getter.quantities)
                learned = learned or _learn(device, getter, answer)
                continue
            for quantity, raw in zip(getter.quantities, answer, strict=True):
                found = quantity.of(raw)
                if isinstance(found, Absence):
                    missing[quantity.field] = found
                else:
                    values[quantity.field] = found
        learned = self._field_ids(device, plan, values, missing) or learned
        drop_impossible(values, missing)
        if learned:
            del device.plans[group]
        if group is RateGroup.FAST and not values and Absence.ERROR in missing.values():
            raise DeviceDown("error")
        return values, missing

    def _field_ids(
        self,
        device: _Device,
        plan: _Plan,
        values: dict[GpuField, int | float],
        missing: dict[GpuField, Absence],
    ) -> bool:
        """Read all field ids of a group in one call; one that fails leaves the others. Return whether one lacks."""
        learned = False
        answers = attempt(pynvml.nvmlDeviceGetFieldValues, device.handle, plan.places) if plan.places else []
        if isinstance(answers, Absence):
            missing.update((quantity.field, answers) for quantity in plan.quantities)
            return False
        for place, quantity, answer in zip(plan.places, plan.quantities, answers, strict=True):
            code = answer.nvmlReturn
            if code == pynvml.NVML_SUCCESS:
                raw = field_value(answer)
                _put(values, missing, quantity.field, raw if isinstance(raw, Absence) else quantity.known(raw))
                continue
            why = absence_of(code)
            if code == pynvml.NVML_ERROR_INVALID_ARGUMENT:  # how some drivers say that they do not know it
                why = Absence.UNSUPPORTED
            missing[quantity.field] = why
            learned = _learn(device, place, why) or learned
        return learned

    def _processes(self, device: _Device) -> tuple[tuple[GpuProcess, ...] | None, Absence | None]:
        listed = running(device.handle, version_2=self._version_2)
        if isinstance(listed, Absence):
            return None, listed
        if device.device.mig:  # the driver does not sample processes of a divided device
            return tuple(listed), None
        return tuple(device.samples.apply(device.handle, listed, time.time_ns() // 1000)), None

    def _instances(self, device: _Device) -> dict[str, FieldReport] | None:
        """Return what was read of each MIG instance; None where the layout is another than was described."""
        found: dict[str, FieldReport] = {}
        if not device.device.mig:
            return found
        if device.parts is None:
            device.parts = tuple(instances(device.handle))
        if {instance.uuid for _, instance in device.parts} != {one.uuid for one in device.device.instances}:
            return None
        for handle, instance in device.parts:
            if text(pynvml.nvmlDeviceGetUUID, handle) != instance.uuid:  # its handle is another's now, or nobody's
                return None
            found[instance.uuid] = self._instance(device, handle, instance)
        return found

    def _instance(self, device: _Device, handle: Handle, instance: GpuInstance) -> FieldReport:
        memory = _memory(handle)
        if device.gpm is None:
            return memory
        window = device.instance_gpm.get(instance.gpu_instance)
        if window is None:
            window = device.instance_gpm[instance.gpu_instance] = GpmWindow(device.handle, instance.gpu_instance)
        activity = window.read()
        return FieldReport({**memory.values, **activity.values}, {**memory.missing, **activity.missing})

    def _layout_changed(self, device: _Device) -> bool:
        mode = attempt(pynvml.nvmlDeviceGetMigMode, device.handle)
        if isinstance(mode, Absence):
            return False
        known = tuple(instance.uuid for instance in device.device.instances)
        if bool(mode[0]) == device.device.mig and (not mode[0] or layout(device.handle) == known):
            return False
        self._describe(device)
        return True

    def _describe(self, device: _Device) -> None:
        for window in device.instance_gpm.values():  # ids are used again: nothing may be compared across layouts
            window.close()
        device.instance_gpm.clear()
        device.lacks.clear()
        device.plans.clear()
        device.parts = None
        device.device = replace(describe(device.handle, device.device.index), uuid=device.device.uuid)

    def _links(self, device: _Device) -> Iterator[LinkReadings]:
        """Yield every NVLink that the device has."""
        found: list[bool] = []
        for link in range(_MOST_LINKS if device.links is None else device.links):
            up = attempt(pynvml.nvmlDeviceGetNvLinkState, device.handle, link)
            if isinstance(up, Absence):
                device.links = link
                break
            found.append(bool(up))
        wanted = [(one, link) for link in range(len(found)) for one in _LINK_FIELDS]
        answers = attempt(pynvml.nvmlDeviceGetFieldValues, device.handle, wanted) if wanted else []
        values: list[dict[GpuField, int | float]] = [{} for _ in found]
        for (one, link), answer in zip(wanted, () if isinstance(answers, Absence) else answers, strict=False):
            raw = field_value(answer) if answer.nvmlReturn == pynvml.NVML_SUCCESS else Absence.UNSUPPORTED
            if not isinstance(raw, Absence):
                values[link][_LINK_FIELDS[one]] = round(raw) * KIBI
        for link, up in enumerate(found):
            yield LinkReadings(link, up, values[link])


def _plan(device: _Device, group: RateGroup) -> _Plan:
    """Return what to ask for: not what the device lacks, nor what means nothing while it is divided."""
    missing: dict[GpuField, Absence] = {}
    getters: list[Getter] = []
    for getter in GETTERS_OF[group]:
        why = Absence.UNSUPPORTED if device.device.mig and not getter.on_mig else device.lacks.get(getter)
        if why is None:
            getters.append(getter)
        else:
            missing.update((quantity.field, why) for quantity in getter.quantities)
    places = FIELD_IDS_OF[group]
    missing.update((quantity.field, device.lacks[place]) for place, quantity in places.items() if place in device.lacks)
    asked = {place: quantity for place, quantity in places.items() if place not in device.lacks}
    return _Plan(tuple(getters), tuple(asked), tuple(asked.values()), missing)


def _learn(device: _Device, asked: object, why: Absence) -> bool:
    """Note what a device does not have; return whether that lasts."""
    if why not in LASTING:
        return False
    device.lacks[asked] = why
    return True


def _put(
    values: dict[GpuField, int | float], missing: dict[GpuField, Absence], name: GpuField, found: int | Absence
) -> None:
    if isinstance(found, Absence):
        missing[name] = found
    else:
        values[name] = found


def _memory(handle: Handle) -> FieldReport:
    """Return memory in bytes; drivers before 510 count what they reserve as used and do not tell it."""
    answer = attempt(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if isinstance(answer, Absence):
        plain = attempt(pynvml.nvmlDeviceGetMemoryInfo, handle)
        if isinstance(plain, Absence):
            return FieldReport(missing=dict.fromkeys(_MEMORY, answer if answer is not Absence.OLD_DRIVER else plain))
        numbers = (plain.total, plain.used, plain.free)
        return _memory_report(numbers, {GpuField.MEMORY_RESERVED_BYTES: answer})
    return _memory_report((answer.total, answer.used, answer.free, answer.reserved), {})


def _memory_report(numbers: Sequence[int], missing: dict[GpuField, Absence]) -> FieldReport:
    values: dict[GpuField, int | float] = dict(zip(_MEMORY, numbers, strict=False))
    drop_impossible(values, missing)
    return FieldReport(values, missing)
