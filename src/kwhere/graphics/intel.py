"""Intel's GPUs by the files of the drivers i915 and xe, behind the `Library` seam."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu import GpuDevice, GpuProcess, ProcessKind, Vendor
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.gpu_library import DeviceDown, DeviceReport, LibraryError, Opened, XidEvent
from kwhere.energy.limits import p_max_gpu_uw
from kwhere.graphics.amd_slow import put_link
from kwhere.graphics.clients import Clients, ClientUse
from kwhere.graphics.field_sink import FieldSink
from kwhere.graphics.models import model_of
from kwhere.kernel import pci
from kwhere.kernel.drm import DrmCard, find_cards, number_of, word_of
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.intel_gpu import DRIVERS, IntelSensors, find_sensors, read_clocks, read_memory
from kwhere.kernel.numbers import counter
from kwhere.kernel.pci import PciGpu, is_asleep

_UNKNOWN_LIMIT_UW = 1_000_000_000
_FIRST_RENDER = 128
_MOST_TEMPERATURES = range(1, 9)


class PowerOfCounter:
    """Power as a counter's rise over time: Intel's drivers have no file of power.

    A counter that fell (the driver was loaded anew, the board woke up) or rose by more than the board can draw gives
    no power for that time, never a number of terawatts (xpumanager issue 130).
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def power_uw(self, energy_uj: int, now_ns: int, p_max_uw: int) -> int | None:
        """Return the mean power since the last call; None where it is not known."""
        before, self._last = self._last, (energy_uj, now_ns)
        if before is None or now_ns <= before[1] or energy_uj < before[0]:
            return None
        power_uw = (energy_uj - before[0]) * NANOSECONDS_PER_SECOND // (now_ns - before[1])
        return power_uw if power_uw <= p_max_uw else None


@dataclass(slots=True)
class _Device:
    """One GPU and what is remembered of it between readings."""

    device: GpuDevice
    card: DrmCard
    sensors: IntelSensors
    clients: Clients
    power: PowerOfCounter


class IntelLibrary:
    """Every GPU that i915 or xe holds, with or without a meter. Each is read on a thread of its own."""

    def __init__(self, fs: HostFS, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._fs = fs
        self._clock_ns = clock_ns
        self._devices: dict[str, _Device] = {}

    def open(self) -> Opened:
        """Return the GPUs that are here. Raises LibraryError (absent)."""
        cards = find_cards(self._fs, pci.INTEL, DRIVERS)
        if not cards:
            raise LibraryError("absent", "intel_gpu: expected a GPU that i915 or xe holds, found none")
        clients = {driver: Clients(self._fs, driver, self._clock_ns) for driver in {card.driver for card in cards}}
        for index, card in enumerate(cards):
            device = _describe(self._fs, card, index)
            sensors = find_sensors(self._fs, card)
            self._devices[device.uuid] = _Device(device, card, sensors, clients[card.driver], PowerOfCounter())
        return Opened(
            driver=word_of(self._fs, "proc/sys/kernel/osrelease"),
            version="sysfs",
            cuda="",
            devices=tuple(found.device for found in self._devices.values()),
        )

    def read(self, uuid: str, groups: Collection[RateGroup]) -> Sequence[DeviceReport]:
        """Return one report per group. Raises DeviceDown (asleep, lost)."""
        device = self._devices[uuid]
        if not self._fs.exists(device.card.place):
            raise DeviceDown("lost")
        if is_asleep(self._fs, PciGpu(device.card.pci, pci.INTEL, device.card.device)):
            raise DeviceDown("asleep")
        return [self._read_group(device, group) for group in groups]

    def events(self, timeout_seconds: float) -> Sequence[XidEvent]:
        """Raise LibraryError: the drivers tell no events by files."""
        raise LibraryError("unsupported", f"intel_gpu: no events to wait {timeout_seconds:g} s for")

    def close(self) -> None:
        """Nothing is held."""

    def _read_group(self, device: _Device, group: RateGroup) -> DeviceReport:
        sink, time_ns = FieldSink(), self._clock_ns()
        if group is RateGroup.FAST:
            return self._fast(device, sink, time_ns)
        if group is RateGroup.MEDIUM:
            clocks = read_clocks(self._fs, device.card)
            sink.put(GpuField.SM_CLOCK_HZ, clocks.current_hz)
            sink.put(GpuField.GRAPHICS_CLOCK_HZ, clocks.current_hz)
            _put_temperatures(self._fs, device.sensors.hwmon, sink)
            put_link(self._fs, device.card.place, sink)
        else:
            for name, limit_uw in _limits(self._fs, device.sensors).items():
                sink.put(name, limit_uw)
            sink.put(GpuField.MAX_SM_CLOCK_HZ, read_clocks(self._fs, device.card).max_hz)
        return DeviceReport(device.device.uuid, group, time_ns, sink.report())

    def _fast(self, device: _Device, sink: FieldSink, time_ns: int) -> DeviceReport:
        self._put_energy(device, sink, time_ns)
        use = device.clients.look()
        uses = use.of(device.card.pci)
        sink.put_percent(GpuField.GPU_UTIL_PERCENT, use.busy_percent(device.card.pci))
        total, free = read_memory(self._fs, device.card)
        sink.put(GpuField.MEMORY_TOTAL_BYTES, total)
        sink.put(GpuField.MEMORY_FREE_BYTES, free)
        used = max(0, total - free) if total is not None and free is not None else None
        told = [one.memory_bytes for one in uses if one.memory_bytes is not None]
        sink.put(GpuField.MEMORY_USED_BYTES, sum(told) if used is None and told and use.complete else used)
        return DeviceReport(
            device.device.uuid,
            RateGroup.FAST,
            time_ns,
            sink.report(),
            processes=_processes(uses) if use.complete else None,
            processes_missing=None if use.complete else Absence.PERMISSION,
        )

    def _put_energy(self, device: _Device, sink: FieldSink, time_ns: int) -> None:
        """Put counter and power. A counter that cannot be read now is missing for this time only."""
        energy_uj, why = _energy(self._fs, device.sensors)
        sink.put(GpuField.ENERGY_UJ, energy_uj, why)
        if energy_uj is None:
            sink.put(GpuField.POWER_UW, None, why)
            return
        limits = _limits(self._fs, device.sensors)
        limit_uw = limits[GpuField.POWER_LIMIT_ENFORCED_UW] or limits[GpuField.POWER_LIMIT_MAX_UW] or _UNKNOWN_LIMIT_UW
        power_uw = device.power.power_uw(energy_uj, time_ns, p_max_gpu_uw(limit_uw))
        sink.put(GpuField.POWER_UW, power_uw, Absence.NO_DATA)
        sink.put(GpuField.POWER_AVERAGE_UW, power_uw, Absence.NO_DATA)


def _describe(fs: HostFS, card: DrmCard, index: int) -> GpuDevice:
    facts = {
        "card": card.card,
        "pci_device_id": f"{card.device:04x}",
        "driver": card.driver,
        "unique_id": word_of(fs, f"{card.place}/unique_id"),
    }
    return GpuDevice(
        uuid=f"intel-{card.pci}",
        index=index,
        vendor=Vendor.INTEL,
        model=model_of(Vendor.INTEL, card.device),
        minor=None if card.render is None else card.render - _FIRST_RENDER,
        pci=card.pci,
        facts={name: value for name, value in facts.items() if value},
    )


def _energy(fs: HostFS, sensors: IntelSensors) -> tuple[int | None, Absence]:
    """Return the counter, 64 bits wide, and why it is not known."""
    if not sensors.energy:
        return None, Absence.UNSUPPORTED
    try:
        return counter(fs.read_word(sensors.energy), sensors.energy), Absence.UNSUPPORTED
    except Unavailable as error:
        return None, Absence.PERMISSION if error.reason == "permission" else Absence.ERROR
    except SourceError:
        return None, Absence.BLANK


def _limits(fs: HostFS, sensors: IntelSensors) -> dict[GpuField, int | None]:
    """Return the limits of the card; 0 is a limit that is off."""
    if not sensors.hwmon:
        return dict.fromkeys((GpuField.POWER_LIMIT_ENFORCED_UW, GpuField.POWER_LIMIT_UW, GpuField.POWER_LIMIT_MAX_UW))
    power = f"{sensors.hwmon}/power{sensors.channel}"
    enforced = number_of(fs, f"{power}_max") or None
    rated = number_of(fs, f"{power}_rated_max") or None
    return {
        GpuField.POWER_LIMIT_ENFORCED_UW: enforced or rated,
        GpuField.POWER_LIMIT_UW: enforced,
        GpuField.POWER_LIMIT_MAX_UW: rated,
    }


def _put_temperatures(fs: HostFS, hwmon: str, sink: FieldSink) -> None:
    labels = {
        word_of(fs, f"{hwmon}/temp{number}_label"): number_of(fs, f"{hwmon}/temp{number}_input")
        for number in _MOST_TEMPERATURES
        if hwmon and fs.exists(f"{hwmon}/temp{number}_input")
    }
    package = labels.get("pkg")
    sink.put(GpuField.TEMPERATURE_MC, labels.get("") if package is None else package)
    sink.put(GpuField.MEMORY_TEMPERATURE_MC, labels.get("vram"))


def _processes(uses: Sequence[ClientUse]) -> tuple[GpuProcess, ...]:
    return tuple(
        GpuProcess(
            pid=use.pid,
            kind=ProcessKind.COMPUTE if use.computes else ProcessKind.GRAPHICS,
            memory_bytes=use.memory_bytes,
            sm_percent=use.percent,
        )
        for use in uses
    )
