"""Devices of pods as kubelet lists them, put to the GPUs and units that are here. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import Vendor
from kwhere.discovery import kubernetes
from kwhere.discovery.gpu_claims import WHOLE, ClaimSource
from kwhere.discovery.gpu_holds import GpuNode, Hold, equal_part
from kwhere.discovery.gpu_names import GpuNames, Place, Places, split_replica
from kwhere.discovery.pod_resources import ClaimedDevice, ContainerDevice, PodResources
from kwhere.discovery.unit_source import TrackedUnit

_RESOURCES = re.compile(
    r"nvidia\.com/(?:gpu|mig-[0-9A-Za-z.+-]+)(?:\.shared)?|amd\.com/gpu(?:_[0-9a-z_]+)?|gpu\.intel\.com/(?:i915|xe)"
)
_DRIVERS = {"gpu.nvidia.com": Vendor.NVIDIA, "gpu.amd.com": Vendor.AMD, "gpu.intel.com": Vendor.INTEL}
_AMD_CLAIMED = re.compile(r"gpu-[0-9]{1,4}-([0-9]{1,4})")
_INTEL_CLAIMED = re.compile(r"([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])(?:-0x[0-9a-f]{1,8})?")


@dataclass(frozen=True, slots=True)
class PodDevice:
    """One GPU that one container uses; empty text: it does not apply, or is not known."""

    namespace: str
    pod: str
    container: str
    unit: UnitKey | None
    """None: no pod of that name lives here any more."""
    place: Place | None
    """None: no GPU here has that name."""
    source: ClaimSource
    device_id: str
    """As kubelet has it; of a claim the device's name."""
    resource: str = ""
    replica: int | None = None
    claim_namespace: str = ""
    claim: str = ""
    driver: str = ""
    pool: str = ""


def is_gpu_resource(name: str, more: Collection[str] = ()) -> bool:
    """Return whether a resource of Kubernetes is GPUs: the vendors' names, shared and MIG ones too, and `more`."""
    return _RESOURCES.fullmatch(name) is not None or name in more


def pod_devices(
    listed: PodResources,
    node: GpuNode,
    more: Collection[str],
    files_of: Callable[[Sequence[str]], Sequence[str]],
) -> list[PodDevice]:
    """Return every GPU that a container uses. `files_of` tells the device files behind CDI names."""
    found: list[PodDevice] = []
    for device in listed.devices:
        if is_gpu_resource(device.resource, more):
            found += _of_plugin(device, node)
    for claimed in listed.claimed:
        vendor = _DRIVERS.get(claimed.driver)
        if vendor is not None:
            found += _of_claim(claimed, node, node.names.of(vendor), files_of)
    return found


def holds_of(devices: Sequence[PodDevice], replicas: Callable[[str, str], int | None]) -> list[Hold]:
    """Return who holds what; a device that a pod's containers use in turn or together counts once.

    `replicas` tells how many replicas a device of a resource has, by resource and id without the replica.
    """
    seen: set[tuple[UnitKey, Place, str]] = set()
    holds: list[Hold] = []
    for device in devices:
        if device.unit is None or device.place is None:
            continue
        key = device.unit, device.place, device.device_id
        if key in seen:
            continue
        seen.add(key)
        share = _share(device, devices, replicas)
        exclusive = None if device.replica is None else share == WHOLE
        holds.append(Hold(device.unit, device.place, device.source, share, exclusive))
    return holds


def all_replicas(allocatable: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the number of replicas of each device that can be given out, by resource and id without the replica."""
    found: dict[tuple[str, str], int] = {}
    for resource, device_id in allocatable:
        base, replica = split_replica(device_id)
        if replica is not None:
            found[resource, base] = found.get((resource, base), 0) + 1
    return found


def _of_plugin(device: ContainerDevice, node: GpuNode) -> list[PodDevice]:
    _, replica = split_replica(device.device_id)
    places: Places = node.names.find(device.device_id)
    return [
        PodDevice(
            device.namespace,
            device.pod,
            device.container,
            unit,
            place,
            ClaimSource.POD_RESOURCES,
            device.device_id,
            device.resource,
            replica,
        )
        for unit in _pods(node, device.namespace, device.pod)
        for place in places or (None,)
    ]


def _of_claim(
    device: ClaimedDevice, node: GpuNode, names: GpuNames, files_of: Callable[[Sequence[str]], Sequence[str]]
) -> list[PodDevice]:
    return [
        PodDevice(
            device.namespace,
            device.pod,
            device.container,
            unit,
            place,
            ClaimSource.DRA,
            device.device,
            claim_namespace=device.claim_namespace,
            claim=device.claim,
            driver=device.driver,
            pool=device.pool,
        )
        for unit in _pods(node, device.namespace, device.pod)
        for place in _claimed_places(device, names, files_of) or (None,)
    ]


def _claimed_places(
    device: ClaimedDevice, names: GpuNames, files_of: Callable[[Sequence[str]], Sequence[str]]
) -> Places:
    """Return where a claimed device is: by its device files, else by its name."""
    files = [place for path in files_of(device.cdi_names) for place in names.by_file(path)]
    inside = tuple(dict.fromkeys(place for place in files if place.instance))
    if inside:
        return inside
    word = device.device.lower()
    amd, intel = _AMD_CLAIMED.fullmatch(word), _INTEL_CLAIMED.fullmatch(word)
    if amd is not None and names.by_card(f"renderD{amd[1]}"):
        return names.by_card(f"renderD{amd[1]}")
    if intel is not None:
        return names.by_pci(f"{intel[1]}:{intel[2]}:{intel[3]}.{intel[4]}")
    whole = tuple(place for place in dict.fromkeys(files) if not names.is_divided(place))
    return names.by_claim(word) or (whole if "-mig-" not in word else ())


def _pods(node: GpuNode, namespace: str, pod: str) -> Sequence[UnitKey | None]:
    """Return the pods of that name that live; a new one may begin before the last has gone."""
    found: list[TrackedUnit] = node.labelled(kubernetes.MANAGER, kube_namespace=namespace, kube_pod=pod)
    return [unit.key for unit in found] or (None,)


def _share(device: PodDevice, devices: Sequence[PodDevice], replicas: Callable[[str, str], int | None]) -> int | None:
    if device.replica is None:
        return None
    base, _ = split_replica(device.device_id)
    given = [
        other.replica
        for other in devices
        if other.replica is not None and other.resource == device.resource and split_replica(other.device_id)[0] == base
    ]
    total = replicas(device.resource, base) or max(max(given) + 1, len(set(given)))
    return equal_part(device.replica, total) if device.replica < total else WHOLE // total
