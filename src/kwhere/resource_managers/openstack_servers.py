"""Nova's servers, flavours and hypervisors, as units, allocations and nodes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerAllocation, ManagerNode, ManagerUnit, WaitingUnit
from kwhere.discovery.libvirt import MANAGER
from kwhere.discovery.match import unit_id
from kwhere.resource_managers.openstack_names import Names
from kwhere.resource_managers.rest_values import count, inner, instant, objects, text

_MIB = 1024 * 1024
_MOST_CPUS, _MOST_MIB, _MOST_GPUS = 1_000_000, 1 << 36, 10_000
"""What is more is no size of a server."""
_GPU_RESOURCE = re.compile(r"resources[A-Za-z0-9_-]*:(?P<class>VGPU|PGPU|CUSTOM_\w*GPU\w*)")
_ALIAS = "pci_passthrough:alias"
_NOTHING_HELD = ManagerAllocation(cpus=0.0, memory_bytes=0, nodes=0)
_HOLDS_NOTHING = frozenset({"shelved_offloaded"})
"""Placement keeps a stopped server's CPUs for it; only an offloaded one gave them back."""
_OVER = "deleted"
_BUILDS = "build"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a server's record is read with."""

    cluster: str
    names: Names = field(default_factory=Names)
    flavors: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By id, where records only name the id."""
    gpu_aliases: Mapping[str, str] = field(default_factory=dict)


def unit_of(record: Mapping[str, object], reading: Reading) -> ManagerUnit | None:
    """Return a server as a unit, None for one that never ran. Raises SourceError for what cannot be read."""
    uuid = text(record.get("id"))
    if uuid is None:
        raise SourceError("server: expected an id")
    state = (text(record.get("status")) or "").lower()
    if not state:
        raise SourceError(f"server {uuid}: expected a status")
    launched_at = instant(record.get("OS-SRV-USG:launched_at"))
    if launched_at is None:
        if record.get("OS-SRV-USG:launched_at") is not None:
            raise SourceError(f"server {uuid}: expected a time launched_at")
        return None
    # launched_at moves with every rebuild, resize and unshelve; what ran before belongs to the server too.
    started_at = min(instant(record.get("created")) or launched_at, launched_at)
    key = unit_id(uuid.lower())
    return ManagerUnit(
        cluster=reading.cluster,
        manager=MANAGER,
        unit=key,
        run=key,
        state=state,
        started_at=started_at,
        ended_at=_end(uuid, state, record, started_at),
        submitted_at=instant(record.get("created")),
        name=text(record.get("name")),
        user=reading.names.user(text(record.get("user_id"))),
        project=reading.names.project(text(record.get("tenant_id"))),
        # A server moves between hosts and the record knows the last one only: any node is right.
        nodes=None,
        allocation=_allocation(state, record, reading),
        queue=text(record.get("OS-EXT-AZ:availability_zone")),
        tags=_tags(record, reading),
    )


def waiting_of(record: Mapping[str, object], reading: Reading) -> WaitingUnit | None:
    """Return a server that is being built for the first time; None for any other."""
    uuid, state = text(record.get("id")), (text(record.get("status")) or "").lower()
    if uuid is None or state != _BUILDS or record.get("OS-SRV-USG:launched_at") is not None:
        return None
    return WaitingUnit(
        cluster=reading.cluster,
        manager=MANAGER,
        unit=unit_id(uuid.lower()),
        state=state,
        name=text(record.get("name")),
        user=reading.names.user(text(record.get("user_id"))),
        project=reading.names.project(text(record.get("tenant_id"))),
        queue=text(record.get("OS-EXT-AZ:availability_zone")),
        reason=text(record.get("OS-EXT-STS:task_state")),
        submitted_at=instant(record.get("created")),
        asked=_allocation(state, record, reading),
        tags=_tags(record, reading),
    )


def _end(uuid: str, state: str, record: Mapping[str, object], started_at: datetime) -> datetime | None:
    said = record.get("OS-SRV-USG:terminated_at")
    ended_at = instant(said)
    if ended_at is None and state == _OVER:
        ended_at = instant(record.get("updated"))
        if ended_at is None:
            raise SourceError(f"server {uuid}: is deleted; expected a time terminated_at, found {said!r}")
    if ended_at is not None and ended_at < started_at:
        raise SourceError(f"server {uuid}: expected an end after its start {started_at}, found {ended_at}")
    return ended_at


def _flavor(record: Mapping[str, object], reading: Reading) -> Mapping[str, object]:
    flavor = inner(record, "flavor")
    return flavor if "vcpus" in flavor else reading.flavors.get(text(flavor.get("id")) or "", flavor)


def _allocation(state: str, record: Mapping[str, object], reading: Reading) -> ManagerAllocation:
    if state in _HOLDS_NOTHING:
        return _NOTHING_HELD
    flavor = _flavor(record, reading)
    vcpus, ram_mib = count(flavor.get("vcpus")), count(flavor.get("ram"))
    return ManagerAllocation(
        cpus=float(vcpus) if vcpus and vcpus <= _MOST_CPUS else None,
        memory_bytes=_bytes(ram_mib) if ram_mib else None,
        gpus=gpus_of(inner(flavor, "extra_specs"), reading.gpu_aliases),
        nodes=1,
    )


def gpus_of(extra_specs: Mapping[str, object], aliases: Mapping[str, str]) -> dict[str, float]:
    """Return GPUs of a flavour by model: `pci_passthrough:alias` = `a100:2,nic:1`, `resources:VGPU` = `1`."""
    found: dict[str, float] = {}
    for part in (text(extra_specs.get(_ALIAS)) or "").split(","):
        alias, _, number = part.strip().partition(":")
        model = aliases.get(alias) or (alias.lower() if "gpu" in alias.lower() else None)
        _add(found, model, count(number) if number else 1 if alias else None)
    for key, value in extra_specs.items():
        resource = _GPU_RESOURCE.fullmatch(key)
        if resource is not None:
            _add(found, resource["class"].removeprefix("CUSTOM_").lower(), count(value))
    return found


def _bytes(mib: int | None) -> int | None:
    return mib * _MIB if mib is not None and mib <= _MOST_MIB else None


def _add(found: dict[str, float], model: str | None, number: int | None) -> None:
    if model is not None and number and number <= _MOST_GPUS:
        found[model] = found.get(model, 0.0) + float(number)


def _tags(record: Mapping[str, object], reading: Reading) -> dict[str, str]:
    flavor = _flavor(record, reading)
    host = record.get("OS-EXT-SRV-ATTR:hypervisor_hostname") or record.get("OS-EXT-SRV-ATTR:host")
    said = {
        "flavor": text(flavor.get("original_name")) or text(flavor.get("name")) or text(flavor.get("id")),
        "host": text(host),
        "instance": text(record.get("OS-EXT-SRV-ATTR:instance_name")),
        "user_id": text(record.get("user_id")),
        "project_id": text(record.get("tenant_id")),
    }
    return {name: value for name, value in said.items() if value}


def flavors_by_id(rows: object) -> dict[str, Mapping[str, object]]:
    """Return flavours by id."""
    return {flavor_id: row for row in objects(rows) if (flavor_id := text(row.get("id"))) is not None}


def node_of(record: Mapping[str, object]) -> ManagerNode | None:
    """Return a hypervisor as a node; None for one without a name."""
    name = text(record.get("hypervisor_hostname"))
    if name is None:
        return None
    state, status = text(record.get("state")), text(record.get("status"))
    vcpus, memory_mib = count(record.get("vcpus")), count(record.get("memory_mb"))
    used, used_mib = count(record.get("vcpus_used")), count(record.get("memory_mb_used"))
    is_known = used is not None or used_mib is not None
    return ManagerNode(
        name=name,
        state=(state if status != "disabled" or state == "down" else status) or "unknown",
        is_schedulable=state == "up" and status == "enabled",
        reason=text(inner(record, "service").get("disabled_reason")),
        type=text(record.get("hypervisor_type")),
        cpus=float(vcpus) if vcpus else None,
        memory_bytes=_bytes(memory_mib) if memory_mib else None,
        allocated=ManagerAllocation(
            cpus=float(used) if used is not None else None,
            memory_bytes=_bytes(used_mib),
        )
        if is_known
        else None,
    )
