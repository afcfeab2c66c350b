"""What to say of an energy source that is not here: whether this machine could have it, and what would bring it."""

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import DomainKind, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import CpuModel, read_cpu_model
from kwhere.kernel.powercap import POWERCAP_DIRECTORY
from kwhere.local.doctor import Check, missing, warning
from kwhere.local.doctor_machine import has_sysfs, hypervisor_of
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import load_module
from kwhere.meters.registry import Meters, SourceStatus

NOT_HERE = "not here"
_ACPI_METER = "sys/bus/acpi/devices/ACPI000D:00"
_GUEST = (
    "On a virtual machine ask the operator of its host for agent.guests, then set meters.hypervisor (docs/guests.md)."
)
_AMD_ZEN = 0x17
"""The first family whose counters the kernel reads: Zen, and Hygon's 0x18."""
_INTEL_FAMILY = 6
_NETBURST = 15
"""The last family of Intel's before its numbers went on at 18."""
_SANDY_BRIDGE = 0x2A
_INTEL_WITHOUT = frozenset({0x2C, 0x2E, 0x2F, 0x35, 0x36})
"""Westmere, Nehalem-EX and Saltwell have higher numbers than Sandy Bridge, and no counters."""


def says_absent(name: str, status: SourceStatus, meters: Meters, place: Place) -> Check | None:
    """Return what to say of a source that is not here; None where the table of reasons knows better."""
    source, guest = status.source, hypervisor_of(place.fs) is not None
    metal = not guest and place.container is None
    if source in ("powercap", "perf") and not has_sysfs(place.fs):
        why = "There is no /sys here: mount the host's read-only and name it in path.sysfs, or run kwhere on the host."
        return missing(name, NOT_HERE, why if source == "powercap" else "")
    if source == "powercap" and _has_zones(place.fs):
        why = "Its zones have no energy_uj: only root can copy these files."
        return missing(name, "its counters are not in this copy" if place.fs.is_recorded else "has no counters", why)
    if source in ("powercap", "perf") and metal and has_rapl(read_cpu_model(place.fs)):
        loaded = _loaded(name, source, meters, place)
        if loaded is not None:
            return loaded
    if source == "hwmon_power" and metal and place.fs.exists(_ACPI_METER):
        why = "The board has an ACPI power meter; the kernel's driver for it is not loaded."
        return warning(name, NOT_HERE, why, *load_module("acpi_power_meter"))
    if source == "hypervisor" and "is not set" in status.detail:
        return missing(name, "not set up" if guest else "not a virtual machine", _GUEST if guest else "")
    if source in ("redfish", "http_json", "hypervisor", "model", "battery"):
        return None
    usual = "" if metal or source != "powercap" else ", as in most virtual machines and containers"
    return missing(name, f"{NOT_HERE}{usual}")


def has_rapl(cpu: CpuModel) -> bool:
    """Return whether the kernel knows energy counters of this processor; one that does not say its family may."""
    if cpu.vendor in ("AuthenticAMD", "HygonGenuine"):
        return cpu.family is None or cpu.family >= _AMD_ZEN
    if cpu.vendor != "GenuineIntel":
        return False
    if cpu.family != _INTEL_FAMILY:
        return cpu.family is None or cpu.family > _NETBURST
    return cpu.model is None or (cpu.model >= _SANDY_BRIDGE and cpu.model not in _INTEL_WITHOUT)


def _loaded(name: str, source: str, meters: Meters, place: Place) -> Check | None:
    """Return what loads the driver of a processor's counters; no warning where something else measures it."""
    if source == "perf":
        why = "This processor has RAPL counters; the kernel's perf driver for them is not loaded."
        is_told = _is_needed(meters) and not place.fs.is_recorded
        return warning(name, NOT_HERE, why, *load_module("rapl")) if is_told else None
    if place.fs.exists(f"{POWERCAP_DIRECTORY}/intel-rapl"):
        return None
    why = "This processor has RAPL counters; the kernel's driver for them is not loaded."
    if _is_needed(meters):
        return warning(name, NOT_HERE, why, *load_module("intel_rapl_msr"))
    return missing(name, NOT_HERE, f"{why} Another source measures the CPUs.")


def _has_zones(fs: HostFS) -> bool:
    try:
        return any(entry.startswith("intel-rapl:") for entry in fs.list_dir(POWERCAP_DIRECTORY))
    except (Unavailable, SourceError):
        return False


def _is_needed(meters: Meters) -> bool:
    """Return whether nothing measures the CPUs yet."""
    return not any(
        d.kind is DomainKind.CPU for m in meters.meters if m.method is not Method.MODELLED for d in m.domains
    )
