"""What a pod was given: CPUs, memory and GPUs over its containers, as the scheduler counts them.

A pod holds the larger of two things at any time: its containers together with those init containers that stay
(sidecars), or one init container together with the sidecars begun before it; and its overhead on top. Source:
Kubernetes documentation, "Resource sharing within containers" and "Pod Overhead".
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from kwhere.core.managed import ManagerAllocation
from kwhere.devices.json_answer import JsonValue, elements, member, text
from kwhere.resource_managers.kubernetes_gpus import NO_TYPES, GpuTypes, gpu_type
from kwhere.resource_managers.kubernetes_quantities import parse_quantity

Amounts = Mapping[str, Decimal]


def read_amounts(value: JsonValue) -> dict[str, Decimal]:
    """Return the quantities of a list of resources; what is no quantity is left out."""
    if not isinstance(value, dict):
        return {}
    return {name: amount for name, raw in value.items() if (amount := parse_quantity(raw)) is not None}


def pod_amounts(pod: JsonValue) -> dict[str, Decimal]:
    """Return what a pod holds by resource; a resource that no container names is absent, not 0."""
    resized = dict(_resized(pod))
    stay = [_asked(one, resized) for one in elements(member(pod, "spec", "containers"))]
    largest: dict[str, Decimal] = {}
    sidecars: list[Amounts] = []
    for one in elements(member(pod, "spec", "initContainers")):
        asked = _asked(one, resized)
        if member(one, "restartPolicy") == "Always":
            sidecars.append(asked)
            largest = _larger(largest, _total(sidecars))
        else:
            largest = _larger(largest, _total([*sidecars, asked]))
    whole = _larger(largest, _total([*stay, *sidecars]))
    whole |= _first_of(member(pod, "spec", "resources"))  # told for the pod as a whole
    return _total([whole, read_amounts(member(pod, "spec", "overhead"))])


def allocation_of(amounts: Amounts, types: GpuTypes = NO_TYPES) -> ManagerAllocation:
    """Return amounts in our units: CPUs, bytes, GPUs by model."""
    gpus: dict[str, float] = {}
    for resource, amount in amounts.items():
        found = gpu_type(resource, types)
        if found is not None and amount > 0:
            gpus[found.name] = gpus.get(found.name, 0.0) + float(amount) * found.share
    cpus, memory = amounts.get("cpu"), amounts.get("memory")
    return ManagerAllocation(
        cpus=None if cpus is None else float(cpus), memory_bytes=None if memory is None else int(memory), gpus=gpus
    )


def _first_of(resources: JsonValue) -> dict[str, Decimal]:
    """Return requests, and limits of what is not requested."""
    return {**read_amounts(member(resources, "limits")), **read_amounts(member(resources, "requests"))}


def _asked(container: JsonValue, resized: Mapping[str, JsonValue]) -> dict[str, Decimal]:
    asked = _first_of(member(container, "resources"))
    return asked | _first_of(resized.get(text(member(container, "name"))))


def _resized(pod: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield what containers really have by name: the kubelet says so since resources may change in place."""
    for kind in ("containerStatuses", "initContainerStatuses"):
        for status in elements(member(pod, "status", kind)):
            resources = member(status, "resources")
            if resources is not None:
                yield text(member(status, "name")), resources


def _total(parts: Sequence[Amounts]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _larger(one: Amounts, other: Amounts) -> dict[str, Decimal]:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in {**one, **other}}
