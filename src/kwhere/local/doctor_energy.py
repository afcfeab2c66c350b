"""Checks of energy: what kind of machine, what speaks for each component, and every meter one by one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.hwmon import HWMON_DIRECTORY
from kwhere.kernel.identity import read_cpu_model
from kwhere.kernel.powercap import POWERCAP_DIRECTORY
from kwhere.kernel.topology import read_topology
from kwhere.local.doctor import Check, Examination, Remedy, counted, failed, missing, ok, warning
from kwhere.local.doctor_machine import hypervisor_of
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import load_module, open_files, open_powercap
from kwhere.meters.meter import Meter
from kwhere.meters.registry import Meters, SourceStatus

_RAPL_VENDORS = ("GenuineIntel", "AuthenticAMD", "HygonGenuine")
_RAPL = ("powercap", "psys")
_ACPI_METER = "sys/bus/acpi/devices/ACPI000D:00"
_PARTS = {
    DomainKind.CPU: ("cpu", "socket"),
    DomainKind.DRAM: ("dram", "socket"),
    DomainKind.GPU: ("gpu", "device"),
}


def check_machine(place: Place) -> Check:
    """Say what the machine is: processor, sockets, and whether it is a guest."""
    model = read_cpu_model(place.fs).name or "unknown processor"
    topology = read_topology(place.fs)
    cpus = f"{counted(len(topology.online), 'CPU')} on {counted(len(topology.sockets), 'socket')}"
    return ok("machine", f"{model}, {cpus}; {_kind(place)}")


def check_energy(place: Place) -> Check:
    """Say what speaks for each component, and whether the node's energy is measured or estimated."""
    meters = place.meters()
    chosen = meters.by_component
    found = _spoken(meters)
    cpu = chosen.get(Component.CPU)
    if cpu is None:
        return failed("energy", "nothing speaks for the CPUs", "No unit gets any energy.")
    if cpu.method is not Method.MODELLED:
        return ok("energy", found)
    if any(status.reason == "permission" for status in meters.sources):
        return warning(
            "energy", found, "Estimated from CPU time although this machine has meters: they are closed to us."
        )
    return missing("energy", found, f"Estimated from CPU time: {_why_no_meter(place)}")


def check_meters(place: Place) -> Sequence[Check]:
    """Say of every energy source whether it can be read."""
    meters = place.meters()
    return [_check_source(status, meters, place) for status in meters.sources]


def _check_source(status: SourceStatus, meters: Meters, place: Place) -> Check:
    name = f"meter_{status.source}"
    if status.up:
        meter = next(meter for meter in meters.meters if meter.source == status.source)
        return ok(name, _covers(meter), _role(meter, meters))
    if status.reason == "permission":
        return _closed(name, status, meters, place)
    if status.reason == "absent":
        return _absent(name, status, place)
    if status.reason == "unconfigured":
        return missing(name, "not set up", f"{status.detail}.")
    if status.reason == "unsupported":
        return missing(name, "is here and answers nothing", f"{status.detail}. Usual in virtual machines.")
    return failed(name, f"cannot be used: {status.reason}", status.detail)


def _closed(name: str, status: SourceStatus, meters: Meters, place: Place) -> Check:
    if place.is_root:
        return failed(name, "not readable, not even by root", f"{status.detail}. A container or a policy forbids it.")
    if status.source == "psys" and any(s.source == "powercap" and s.reason == "permission" for s in meters.sources):
        return failed(name, "readable by root only", "The command for meter powercap opens this one too.")
    if status.source in _RAPL:
        directory = str(place.fs.path(POWERCAP_DIRECTORY))
        remedies: tuple[Remedy, ...] = open_powercap(directory, place.user)
    else:
        kind = "energy*_input" if status.source == "hwmon_energy" else "power*_*"
        remedies = (open_files(f"{place.fs.path(HWMON_DIRECTORY)}/*/{kind}", place.user),)
    why = f"{_sentence(status.detail)} Start kwhere anew once it is open."
    check = failed(name, "readable by root only", why, *remedies)
    if status.source == "powercap" and not any(meter.method is not Method.MODELLED for meter in meters.meters):
        return replace(check, headline="CPU energy is estimated: RAPL is readable by root only")
    return check


def _absent(name: str, status: SourceStatus, place: Place) -> Check:
    metal = hypervisor_of(place.fs) is None and place.container is None
    vendor = read_cpu_model(place.fs).vendor
    has_rapl = metal and vendor in _RAPL_VENDORS
    if status.source == "powercap" and has_rapl and not place.fs.exists(f"{POWERCAP_DIRECTORY}/intel-rapl"):
        why = "This processor has RAPL counters; the kernel's driver for them is not loaded."
        return warning(name, "not here", why, *load_module("intel_rapl_msr"))
    if status.source == "hwmon_power" and metal and place.fs.exists(_ACPI_METER):
        why = "The board has an ACPI power meter; the kernel's driver for it is not loaded."
        return warning(name, "not here", why, *load_module("acpi_power_meter"))
    return missing(name, "not here" if metal else "not here, as in most virtual machines and containers")


def _spoken(meters: Meters) -> str:
    """Return who speaks for what, parts with the same speaker together: `cpu and dram counted by powercap`."""
    parts: dict[str, list[str]] = {}
    for component in (Component.CPU, Component.DRAM, Component.GPU):
        meter = meters.by_component.get(component)
        if meter is not None or component is Component.DRAM:
            parts.setdefault(_method(meter), []).append(str(component))
    parts.setdefault(_method(meters.platforms[0] if meters.platforms else None), []).append("the whole node")
    return ", ".join(f"{' and '.join(names)} {method}" for method, names in parts.items())


def _method(meter: Meter | None) -> str:
    if meter is None:
        return "not measured"
    words = {
        Method.COUNTER: f"counted by {meter.source}",
        Method.INTEGRATED: f"integrated from {meter.source}",
        Method.HYPERVISOR: "told by the hypervisor",
        Method.MODELLED: "estimated by the model",
    }
    return words[meter.method]


def _covers(meter: Meter) -> str:
    kinds = Counter(domain.kind for domain in meter.domains)
    parts = [f"{_PARTS[kind][0]} of {counted(n, _PARTS[kind][1])}" for kind, n in kinds.items() if kind in _PARTS]
    return ", ".join([*parts, *(["the whole node"] if DomainKind.PLATFORM in kinds else [])])


def _role(meter: Meter, meters: Meters) -> str:
    speaks = [str(component) for component, chosen in meters.by_component.items() if chosen is meter]
    if meters.platforms and meters.platforms[0] is meter:
        speaks.append("the platform")
    if speaks:
        return ""
    return "Not used: another source is better." if meter.method is Method.MODELLED else "Exported for comparison."


def _kind(place: Place) -> str:
    guest = hypervisor_of(place.fs)
    kind = f"virtual machine ({guest})" if guest else "bare metal"
    return f"{place.container} container on {kind}" if place.container else kind


def _why_no_meter(place: Place) -> str:
    if hypervisor_of(place.fs) is not None:
        return "a virtual machine sees no meter. Its host may: kwhere there accounts this machine as a unit."
    if place.container is not None:
        return "runtimes hide meters from containers. Run kwhere on the host."
    return "this machine shows no meter."


def _sentence(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text}."


CHECKS = (
    Examination("machine", "Energy", check_machine),
    Examination("energy", "Energy", check_energy),
    Examination("meters", "Energy", check_meters),
)
