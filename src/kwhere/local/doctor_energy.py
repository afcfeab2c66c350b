"""Checks of energy: what kind of machine, and what speaks for each component; `doctor_meters` has every meter."""

from kwhere.core.terms import Component, Method
from kwhere.kernel.identity import read_cpu_model
from kwhere.kernel.topology import read_topology
from kwhere.local.doctor import Check, Examination, counted, failed, listed, missing, ok, warning
from kwhere.local.doctor_machine import has_sysfs, hypervisor_of
from kwhere.local.doctor_meters import check_meters
from kwhere.local.doctor_place import Place
from kwhere.meters.meter import Meter
from kwhere.meters.registry import Meters
from kwhere.meters.sources import COMPONENT_ORDER

_OF_CPUS = COMPONENT_ORDER[: COMPONENT_ORDER.index("model")]


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
    nonsense = next((s.source for s in meters.sources if s.reason == "nonsense" and s.source in _OF_CPUS), None)
    if nonsense is not None:
        why = f"Units get no CPU energy while {nonsense} is read: with meters.off: [{nonsense}] the model speaks."
        return failed("energy", f"cpu: {nonsense} shows what no machine can draw", why)
    if any(status.reason == "permission" for status in meters.sources):
        return warning(
            "energy", found, "Estimated from CPU time although this machine has meters: they are closed to us."
        )
    return missing("energy", found, f"Estimated from CPU time: {_why_no_meter(place)}")


def _spoken(meters: Meters) -> str:
    """Return who speaks for what, parts with the same speaker together: `cpu and dram counted by powercap`."""
    parts: dict[str, list[str]] = {}
    for component in Component:
        meter = meters.by_component.get(component)
        if meter is not None or component is Component.DRAM:
            parts.setdefault(_method(meter), []).append(str(component))
    if meters.platforms or Component.OTHER not in meters.by_component:
        parts.setdefault(_method(meters.platforms[0] if meters.platforms else None), []).append("the whole node")
    return ", ".join(f"{listed(names)} {method}" for method, names in parts.items())


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


def _kind(place: Place) -> str:
    guest = hypervisor_of(place.fs)
    metal = "bare metal" if has_sysfs(place.fs) else "a machine that shows no /sys"
    kind = f"virtual machine ({guest})" if guest else metal
    return f"{place.container} container on {kind}" if place.container else kind


def _why_no_meter(place: Place) -> str:
    if hypervisor_of(place.fs) is not None:
        return "a virtual machine sees no meter. Its host may: kwhere there accounts this machine as a unit."
    if place.container is not None:
        return "runtimes hide meters from containers. Run kwhere on the host."
    if not has_sysfs(place.fs):
        return "there is no /sys here."
    if any(status.reason == "recorded" for status in place.meters().sources):
        return "this is a copied tree, in which not every meter can be asked."
    return "this machine shows no meter."


CHECKS = (
    Examination("machine", "Energy", check_machine),
    Examination("energy", "Energy", check_energy),
    Examination("meters", "Energy", check_meters),
)
