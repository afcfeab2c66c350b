"""A node as the API tells it: what it has to give, and whether it is given."""

from collections.abc import Iterator, Sequence

from kwhere.core.managed import ManagerAllocation, ManagerNode
from kwhere.devices.json_answer import JsonValue, elements, member, text
from kwhere.discovery.kubernetes_objects import condition, labels_of, name_of
from kwhere.resource_managers.kubernetes_gpus import gpu_types
from kwhere.resource_managers.kubernetes_resources import allocation_of, read_amounts

_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
_CORDON = "node.kubernetes.io/unschedulable"
_OF_STATE = "node.kubernetes.io/"
"""Taints of this prefix repeat what the node's conditions say."""


def read_node(item: JsonValue, allocated: ManagerAllocation | None = None) -> ManagerNode | None:
    """Return a node with what pods may be given of it (its allocatable part); None where the object has no name."""
    name = name_of(item)
    if not name:
        return None
    labels = labels_of(item)
    types = gpu_types(labels)
    given = allocation_of(read_amounts(member(item, "status", "allocatable")), types)
    had = allocation_of(read_amounts(member(item, "status", "capacity")), types)
    state = _state(item)
    is_cordoned = member(item, "spec", "unschedulable") is True
    reasons = [*_reasons(item, state, is_cordoned=is_cordoned), *_lost(given, had)]
    return ManagerNode(
        name=name,
        state=f"{state}, cordoned" if is_cordoned else state,
        is_schedulable=state == "ready" and not is_cordoned,
        reason="; ".join(reasons) or None,
        type=next((labels[key] for key in _TYPE_LABELS if labels.get(key)), None),
        cpus=had.cpus if given.cpus is None else given.cpus,
        memory_bytes=had.memory_bytes if given.memory_bytes is None else given.memory_bytes,
        gpus=given.gpus,
        allocated=allocated,
    )


def sum_allocations(parts: Sequence[ManagerAllocation]) -> ManagerAllocation:
    """Return the sum; what no part says stays unsaid."""
    cpus = [part.cpus for part in parts if part.cpus is not None]
    memory = [part.memory_bytes for part in parts if part.memory_bytes is not None]
    gpus: dict[str, float] = {}
    for part in parts:
        for model, count in part.gpus.items():
            gpus[model] = gpus.get(model, 0.0) + count
    return ManagerAllocation(
        cpus=sum(cpus) if cpus or not parts else None,
        memory_bytes=sum(memory) if memory or not parts else None,
        gpus=gpus,
    )


def _state(item: JsonValue) -> str:
    status = text(member(condition(item, "Ready"), "status"))
    return {"True": "ready", "False": "not ready"}.get(status, "unknown")


def _reasons(item: JsonValue, state: str, *, is_cordoned: bool) -> Iterator[str]:
    if state != "ready":
        ready = condition(item, "Ready")
        yield text(member(ready, "reason")) or text(member(ready, "message")) or "its kubelet does not report"
    if is_cordoned:
        yield "cordoned"
    for taint in elements(member(item, "spec", "taints")):
        key, effect, value = (text(member(taint, word)) for word in ("key", "effect", "value"))
        if key and effect in _KEEPS_OUT and key != _CORDON and not key.startswith(_OF_STATE):
            yield f"taint {key}={value}:{effect}" if value else f"taint {key}:{effect}"


def _lost(given: ManagerAllocation, had: ManagerAllocation) -> Iterator[str]:
    """Yield GPUs that the node has and does not give: its device plug-in calls them unhealthy."""
    for model, count in sorted(had.gpus.items()):
        missing = count - given.gpus.get(model, 0.0)
        if missing > 0:
            yield f"{missing:g} of {count:g} GPUs {model} are not allocatable"
