"""OAR's resources (cores, GPUs, whole nodes: a site's choice) and what a set of them amounts to."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kwhere.core.managed import ManagerAllocation, ManagerNode
from kwhere.resource_managers.oar_fields import Faults, first_of, parse_id, parse_number, parse_text
from kwhere.resource_managers.oar_jobs import records

_SEVERITY = ("alive", "standby", "absent", "suspected", "dead")
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_MOST_CPUS = 4096


@dataclass(frozen=True, slots=True)
class Resource:
    """One row of OAR's table of resources."""

    resource_id: str
    node: str
    state: str
    """In lower case; `standby` is absent, but may be woken up."""
    type: str = "default"
    cpus: frozenset[int] = frozenset()
    """Numbers of CPUs on the node, by `cpuset`."""
    core: str | None = None
    gpu: str | None = None
    gpu_model: str | None = None
    is_drained: bool = False
    jobs: tuple[str, ...] | None = None
    """Ids of jobs on it now; None: this dialect does not say."""


def read_resources(document: object, place: str, now: datetime, faults: Faults) -> dict[str, Resource]:
    """Return resources by id; one that cannot be read is counted. Raises SourceError for another form."""
    found = {}
    for key, value in records(document, place):
        resource = _resource(key, value, now) if isinstance(value, Mapping) else None
        if resource is None:
            faults.add(f"{place}: resource {key[:40]!r}: expected an id, a network_address and a state")
        else:
            found[resource.resource_id] = resource
    return found


def allocation_of(resources: Iterable[Resource], nodes: int | None = None) -> ManagerAllocation:
    """Return what resources amount to: each CPU, core and GPU counts once, however many resources share it."""
    kept = [resource for resource in resources if resource.type == "default"]
    cpus = {(resource.node, number) for resource in kept for number in resource.cpus}
    cores = {(resource.node, resource.core) for resource in kept if resource.core is not None}
    # Where cpuset was never set, it is 0 for all: then the cores tell.
    count = max(len(cpus), len(cores))
    gpus = {(resource.node, resource.gpu): resource.gpu_model or "gpu" for resource in kept if resource.gpu is not None}
    by_model: dict[str, float] = {}
    for model in gpus.values():
        by_model[model] = by_model.get(model, 0.0) + 1.0
    places = {resource.node for resource in kept}
    return ManagerAllocation(float(count) if count else None, None, by_model, len(places) or nodes)


def nodes_of(resources: Iterable[Resource]) -> tuple[ManagerNode, ...]:
    """Return the nodes of all resources, by name."""
    by_node: dict[str, list[Resource]] = {}
    for resource in resources:
        if resource.type == "default":
            by_node.setdefault(resource.node, []).append(resource)
    return tuple(_node(name, by_node[name]) for name in sorted(by_node))


def _node(name: str, resources: Sequence[Resource]) -> ManagerNode:
    counts = {state: sum(1 for each in resources if each.state == state) for state in {r.state for r in resources}}
    state = max(counts, key=lambda each: (counts[each], _severity(each)))
    drained = sum(1 for each in resources if each.is_drained)
    usable = [each for each in resources if each.state in ("alive", "standby") and not each.is_drained]
    reasons = [f"{counts[each]} of {len(resources)} {each}" for each in sorted(counts) if each != "alive"]
    if drained:
        reasons.append(f"{drained} of {len(resources)} drained")
    whole = allocation_of(resources)
    says_jobs = any(each.jobs is not None for each in resources)
    return ManagerNode(
        name=name,
        state=state,
        is_schedulable=bool(usable),
        reason=", ".join(reasons) or None,
        cpus=whole.cpus,
        gpus=whole.gpus,
        allocated=_held(resources) if says_jobs else None,
    )


def _held(resources: Sequence[Resource]) -> ManagerAllocation:
    held = [each for each in resources if each.jobs]
    return allocation_of(held) if held else ManagerAllocation(cpus=0.0, nodes=0)


def _severity(state: str) -> int:
    return _SEVERITY.index(state) if state in _SEVERITY else len(_SEVERITY)


def _resource(key: str, record: Mapping[str, object], now: datetime) -> Resource | None:
    resource_id = parse_id(first_of(record, ("resource_id", "id"))) or parse_id(key)
    node = parse_text(first_of(record, ("network_address", "host")))
    state = (parse_text(record.get("state")) or "").lower()
    if resource_id is None or node is None or not state:
        return None
    until = parse_number(record.get("available_upto"))
    if state == "absent" and until is not None and until > now.timestamp():
        state = "standby"
    jobs = record.get("jobs")
    return Resource(
        resource_id=resource_id,
        node=node,
        state=state,
        type=parse_text(record.get("type")) or "default",
        cpus=_cpus(parse_text(record.get("cpuset"))),
        core=parse_text(record.get("core")),
        gpu=_gpu(record),
        gpu_model=_model(record),
        is_drained=parse_text(record.get("drain")) == "YES",
        jobs=_jobs(jobs) if "jobs" in record or _is_of_oarnodes(record) else None,
    )


def _is_of_oarnodes(record: Mapping[str, object]) -> bool:
    """Return whether a record is one of `oarnodes`, which leaves `jobs` out where there are none."""
    return "resource_id" in record and "links" not in record


def _jobs(value: object) -> tuple[str, ...]:
    parts = re.split(r"[,\s]+", value) if isinstance(value, str) else value if isinstance(value, list) else [value]
    return tuple(found for part in parts if (found := parse_id(part)) is not None)


def _gpu(record: Mapping[str, object]) -> str | None:
    """Return the GPU's number; `gpu` is unique in the cluster and 0 for none, `gpudevice` is the node's and from 0."""
    if "gpu" in record:
        return parse_id(record["gpu"])
    number = parse_number(first_of(record, ("gpudevice", "gpu_device")))
    return str(int(number)) if number is not None and number >= 0 else None


def _model(record: Mapping[str, object]) -> str | None:
    model = parse_text(record.get("gpu_model"))
    return model.lower().replace(" ", "_") if model is not None and model.upper() not in ("NO", "NONE", "0") else None


def _cpus(text: str | None) -> frozenset[int]:
    """Return the numbers of `0`, `0,16`, `0-3`, `0+1`; none for words that are no numbers."""
    found: set[int] = set()
    for part in re.split(r"[,+\s]+", text or ""):
        ends = _RANGE.fullmatch(part)
        if ends is None:
            continue
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if first <= last < _MOST_CPUS:
            found.update(range(first, last + 1))
    return frozenset(found)
