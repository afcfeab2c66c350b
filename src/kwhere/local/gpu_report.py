"""The self-check of GPUs: everything that was read of each, or why not, for whoever has the hardware to send to us.

No serial numbers, no names of processes, users or hosts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwhere.devices.gpu import DeviceState, GpuSnapshot, InstanceState, Readings
from kwhere.devices.gpu_activity import OutsideState
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.xid import xid_meaning
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.kernel.pci import PciGpu

NOT_ASKED = "not_asked"
"""Why a quantity is missing that the vendor's reader does not ask for."""
_SECRET_FACTS = frozenset({"serial", "unique_id"})


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one group of calls took, all GPUs together."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class VendorReport:
    """One vendor's GPUs as they were read."""

    source: str
    found: GpuSnapshot
    timings: tuple[Timing, ...] = ()
    outside: tuple[OutsideState, ...] = ()
    expected: int = 0
    """GPUs on the bus with the vendor's driver, and those that were here before."""


@dataclass(frozen=True, slots=True)
class GpuReport:
    """One node's self-check."""

    version: str
    kernel: str
    bus: tuple[PciGpu, ...]
    vendors: tuple[VendorReport, ...]
    mapping: tuple[ClaimSourceState, ...] = ()
    has_kernel_log: bool = False
    released: str = ""
    """Since when and by whom the agent has given them back: nothing was opened then."""

    @property
    def is_well(self) -> bool:
        """Return whether every library works and every GPU answers."""
        return all(
            vendor.found.library.up and all(state.up for state in vendor.found.devices) for vendor in self.vendors
        )


def missing_of(readings: Readings) -> dict[GpuField, str]:
    """Return why each quantity that is not known is not."""
    return {
        name: readings.missing[name].value if name in readings.missing else NOT_ASKED
        for name in GpuField
        if name not in readings.values
    }


def as_json(report: GpuReport) -> dict[str, Any]:
    """Return the report for `--json`."""
    return {
        "schema_version": 1,
        "version": report.version,
        "kernel": report.kernel,
        "kernel_log": report.has_kernel_log,
        "released": report.released or None,
        "bus": [_bus(gpu) for gpu in report.bus],
        "vendors": [_vendor(vendor) for vendor in report.vendors],
        "mapping": [
            {"source": one.source.value, "up": one.up, "reason": one.reason, "message": one.message, "holds": one.holds}
            for one in report.mapping
        ],
    }


def _bus(gpu: PciGpu) -> dict[str, Any]:
    return {
        "address": gpu.address,
        "vendor": f"{gpu.vendor:04x}",
        "device": f"{gpu.device:04x}",
        "driver": gpu.driver,
        "runtime_status": gpu.runtime_status,
    }


def _vendor(vendor: VendorReport) -> dict[str, Any]:
    library, events = vendor.found.library, vendor.found.events
    return {
        "vendor": vendor.found.vendor.value,
        "source": vendor.source,
        "expected": vendor.expected,
        "library": {
            "up": library.up,
            "reason": library.reason,
            "message": library.message,
            "driver": library.driver,
            "version": library.version,
            "cuda": library.cuda,
        },
        "events": None if events is None else {"up": events.up, "message": events.message},
        "seconds": {timing.name: round(timing.seconds, 6) for timing in vendor.timings},
        "outside": [
            {"source": one.source, "place": one.place, "up": one.up, "reason": one.reason, "message": one.message}
            for one in vendor.outside
        ],
        "devices": [_device(state) for state in vendor.found.devices],
    }


def _device(state: DeviceState) -> dict[str, Any]:
    device = state.device
    return {
        "index": device.index,
        "uuid": device.uuid,
        "model": device.model,
        "minor": device.minor,
        "pci": device.pci,
        "mig": device.mig,
        "mig_pending": device.mig_pending,
        "compute_slices": device.compute_slices,
        "facts": facts_of(device.facts),
        "up": state.up,
        "reason": state.reason,
        **_readings(state.readings),
        "instances": [_instance(one) for one in state.instances],
        "processes": None if state.processes is None else len(state.processes),
        "processes_missing": state.processes_missing.value if state.processes_missing is not None else None,
        "links": [
            {"link": one.link, "up": one.up, "values": {name.value: value for name, value in one.values.items()}}
            for one in state.links
        ],
        "xids": [
            {
                "xid": one.xid,
                "count": one.count,
                "meaning": xid_meaning(one.xid),
                "gpu_instance": one.gpu_instance,
                "last_utc_ns": one.last_utc_ns,
            }
            for one in state.xids
        ],
    }


def facts_of(facts: Mapping[str, str]) -> dict[str, str]:
    """Return what is known beside readings, without what tells one board from another."""
    return {name: value for name, value in facts.items() if name not in _SECRET_FACTS}


def _instance(one: InstanceState) -> dict[str, Any]:
    instance = one.instance
    return {
        "uuid": instance.uuid,
        "name": instance.name,
        "profile": instance.profile,
        "gpu_instance": instance.gpu_instance,
        "compute_instance": instance.compute_instance,
        "compute_slices": instance.compute_slices,
        "multiprocessors": instance.multiprocessors,
        "memory_bytes": instance.memory_bytes,
        **_readings(one.readings),
    }


def _readings(readings: Readings | None) -> dict[str, Any]:
    known = readings or Readings()
    return {
        "activity": known.activity,
        "values": {name.value: known.values[name] for name in GpuField if name in known.values},
        "missing": {name.value: why for name, why in missing_of(known).items()},
    }


def alike(states: Sequence[DeviceState]) -> list[tuple[DeviceState, list[DeviceState]]]:
    """Return the first of each kind of GPU with those that tell and lack the same."""
    kinds: dict[object, tuple[DeviceState, list[DeviceState]]] = {}
    for state in states:
        known = state.readings or Readings()
        kind = (state.device.model, state.up, state.device.mig, tuple(sorted(missing_of(known).items())))
        if kind in kinds:
            kinds[kind][1].append(state)
        else:
            kinds[kind] = (state, [])
    return list(kinds.values())
