"""A page in the names and labels of AMD's device-metrics-exporter, from what was read of the GPUs anyway.

Everything is a gauge there, also what counts. Of a divided GPU what its package has stands at partition 0 alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.devices.gpu import DeviceState, GpuDevice, GpuInstance, GpuSnapshot, Readings
from kwhere.devices.gpu_fields import GpuField

Labels = Mapping[str, str]
Place = tuple[str, str]
"""Device and instance, by uuid; an empty instance is the whole device."""

_MEBI = 1 << 20
_MICRO = 1_000_000
_MILLI = 1000
_MEGA = 1_000_000
_SPEEDS: Mapping[int, float] = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
"""Gigatransfers per second of each generation of PCI Express."""
_VENDOR = "Advanced Micro Devices, Inc. [AMD/ATI]"


@dataclass(frozen=True, slots=True)
class _Name:
    name: str
    help: str
    field: GpuField
    divisor: int = 1


_OF_THE_PACKAGE = (
    _Name("gpu_package_power", "Current socket power in watts.", GpuField.POWER_INSTANT_UW, _MICRO),
    _Name("gpu_average_package_power", "Average socket power in watts.", GpuField.POWER_AVERAGE_UW, _MICRO),
    _Name("gpu_power_usage", "Power in watts.", GpuField.POWER_UW, _MICRO),
    _Name("gpu_energy_consumed", "Accumulated energy in microjoules.", GpuField.ENERGY_UJ),
    _Name("gpu_junction_temperature", "Hottest place in degrees Celsius.", GpuField.TEMPERATURE_HOTSPOT_MC, _MILLI),
    _Name("gpu_memory_temperature", "Memory in degrees Celsius.", GpuField.MEMORY_TEMPERATURE_MC, _MILLI),
    _Name("gpu_gfx_activity", "Graphics engine activity in percent.", GpuField.GPU_UTIL_PERCENT),
    _Name("gpu_umc_activity", "Memory controller activity in percent.", GpuField.MEMORY_UTIL_PERCENT),
    _Name("gpu_total_visible_vram", "Visible memory in MiB.", GpuField.BAR1_TOTAL_BYTES, _MEBI),
    _Name("gpu_used_visible_vram", "Used visible memory in MiB.", GpuField.BAR1_USED_BYTES, _MEBI),
    _Name("gpu_free_visible_vram", "Free visible memory in MiB.", GpuField.BAR1_FREE_BYTES, _MEBI),
    _Name("pcie_replay_count", "PCIe replays.", GpuField.PCIE_REPLAYS),
    _Name("gpu_ecc_correct_total", "Errors that were corrected.", GpuField.ECC_SBE_VOLATILE),
    _Name("gpu_ecc_uncorrect_total", "Errors that could not be corrected.", GpuField.ECC_DBE_VOLATILE),
)
_OF_A_PART = (
    _Name("gpu_total_vram", "Memory in MiB.", GpuField.MEMORY_TOTAL_BYTES, _MEBI),
    _Name("gpu_used_vram", "Used memory in MiB.", GpuField.MEMORY_USED_BYTES, _MEBI),
    _Name("gpu_free_vram", "Free memory in MiB.", GpuField.MEMORY_FREE_BYTES, _MEBI),
)
_CLOCKS = (
    ("gpu_clock", "Clock in MHz.", GpuField.SM_CLOCK_HZ, GpuField.MEMORY_CLOCK_HZ),
    ("gpu_max_clock", "Highest clock in MHz.", GpuField.MAX_SM_CLOCK_HZ, GpuField.MAX_MEMORY_CLOCK_HZ),
)
_LONG_CLOCK_TYPES = ("GPU_CLOCK_TYPE_SYSTEM", "GPU_CLOCK_TYPE_MEMORY")
_SHORT_CLOCK_TYPES = ("system", "memory")
_LINKS = (
    ("pcie_speed", "Speed of the PCIe link in GT/s.", GpuField.PCIE_LINK_GEN),
    ("pcie_max_speed", "Highest speed of the PCIe link in GT/s.", GpuField.PCIE_MAX_LINK_GEN),
)


@dataclass(slots=True)
class _Family:
    help: str
    lines: list[str] = field(default_factory=list)


class AmdPage:
    """Writes the page of one node."""

    def __init__(self, hostname: str, *, prefix: str = "", short_clock_types: bool = False) -> None:
        self._hostname = hostname
        self._prefix = prefix
        self._clock_types = _SHORT_CLOCK_TYPES if short_clock_types else _LONG_CLOCK_TYPES

    def render(self, snapshot: GpuSnapshot, holders: Mapping[Place, Labels]) -> bytes:
        """Return the page; `holders` are the labels of who holds a place: job_id, job_user, pod, namespace."""
        families: dict[str, _Family] = {}
        here = [state for state in snapshot.devices if state.reason != "absent"]
        self._add(families, "gpu_nodes_total", "GPUs of this node.", {"hostname": self._hostname}, len(here))
        for state in here:
            self._device(families, state, snapshot.library.driver, holders)
        pages = (
            f"# HELP {name} {family.help}\n# TYPE {name} gauge\n" + "".join(family.lines)
            for name, family in families.items()
        )
        return "".join(pages).encode()

    def _device(
        self, families: dict[str, _Family], state: DeviceState, driver: str, holders: Mapping[Place, Labels]
    ) -> None:
        device, first = state.device, next(iter(state.device.instances), None)
        whole = holders.get((device.uuid, ""), {})
        held = holders.get((device.uuid, first.uuid), whole) if first is not None else whole
        labels = {**_labels(device, first, driver, self._hostname), **held}
        self._add(families, "gpu_health", "1: it answers.", labels, int(state.up))
        if not state.up or state.readings is None:
            return
        self._names(families, _OF_THE_PACKAGE, labels, state.readings)
        self._more(families, labels, state.readings)
        if not state.instances:
            self._names(families, _OF_A_PART, labels, state.readings)
        for one in state.instances:
            held = holders.get((device.uuid, one.instance.uuid), whole)
            part = {**_labels(device, one.instance, driver, self._hostname), **held}
            self._names(families, _OF_A_PART, part, one.readings)
            busy = one.readings.integer(GpuField.GPU_UTIL_PERCENT)
            if busy is not None:
                self._add(families, "gpu_gfx_busy_instantaneous", "Activity of a partition in percent.", part, busy)

    def _names(self, families: dict[str, _Family], names: Sequence[_Name], labels: Labels, readings: Readings) -> None:
        for one in names:
            value = readings.integer(one.field)
            if value is not None:
                self._add(families, one.name, one.help, labels, value / one.divisor if one.divisor != 1 else value)

    def _more(self, families: dict[str, _Family], labels: Labels, readings: Readings) -> None:
        """Add what needs more than one reading or label."""
        edge, junction = (readings.integer(name) for name in (GpuField.TEMPERATURE_MC, GpuField.TEMPERATURE_HOTSPOT_MC))
        has_edge = edge != junction or GpuField.POWER_AVERAGE_UW in readings.values  # MI300 has no sensor at its edge
        if edge is not None and has_edge:
            self._add(families, "gpu_edge_temperature", "Edge in degrees Celsius.", labels, edge / _MILLI)
        for name, text, *clocks in _CLOCKS:
            for place, (kind, clock) in enumerate(zip(self._clock_types, clocks, strict=True)):
                value_hz = readings.integer(clock)
                if value_hz is not None:
                    more = {**labels, "clock_index": str(place), "clock_type": kind}
                    self._add(families, name, text, more, value_hz / _MEGA)
        for name, text, generation in _LINKS:
            speed = _SPEEDS.get(readings.integer(generation) or 0)
            if speed is not None:
                self._add(families, name, text, labels, speed)

    def _add(self, families: dict[str, _Family], name: str, text: str, labels: Labels, value: float) -> None:
        family = families.setdefault(self._prefix + name, _Family(text))
        told = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels.items() if word)
        family.lines.append(f"{self._prefix}{name}{{{told}}} {value if isinstance(value, int) else f'{value:.6g}'}\n")


def _labels(device: GpuDevice, part: GpuInstance | None, driver: str, hostname: str) -> dict[str, str]:
    facts = device.facts
    return {
        "gpu_id": str(device.index),
        "gpu_uuid": facts.get("amdsmi_uuid", device.uuid),
        "serial_number": device.serial or "",
        "card_model": device.model,
        "card_series": facts.get("series", ""),
        "card_vendor": _VENDOR,
        "driver_version": driver,
        "vbios_version": facts.get("vbios", ""),
        "hostname": hostname,
        "gpu_partition_id": str(part.gpu_instance) if part is not None else "0",
        "gpu_compute_partition_type": facts.get("compute_partition", "").lower(),
        "gpu_memory_partition_type": facts.get("memory_partition", "").lower(),
    }


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def names() -> Iterator[str]:
    """Yield every name that the page may have, for the docs and their test."""
    yield from ("gpu_nodes_total", "gpu_health", "gpu_edge_temperature", "gpu_gfx_busy_instantaneous")
    yield from (one.name for one in (*_OF_THE_PACKAGE, *_OF_A_PART))
    yield from (name for name, *_ in (*_CLOCKS, *_LINKS))
