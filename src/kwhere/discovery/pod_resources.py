"""kubelet's pod-resources answers (k8s.io/kubelet pkg/apis/podresources/v1): which container holds which device."""

from collections.abc import Iterator
from dataclasses import dataclass

from kwhere.transport.protobuf import fields, messages, texts

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"


@dataclass(frozen=True, slots=True)
class ContainerDevice:
    """One device that one container of a pod holds, as its device plugin named it."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_id: str


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """One device of a resource claim (DRA) that a container uses; a claim may be several pods'."""

    namespace: str
    pod: str
    container: str
    claim_namespace: str
    claim: str
    driver: str
    pool: str
    device: str
    cdi_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """All that kubelet lists; pods that ended may still be in it."""

    devices: tuple[ContainerDevice, ...] = ()
    claimed: tuple[ClaimedDevice, ...] = ()


def parse_list(data: bytes, place: str) -> PodResources:
    """Return what `List` answered. Raises SourceError."""
    devices: list[ContainerDevice] = []
    claimed: list[ClaimedDevice] = []
    for pod in messages(data, 1, place):
        names = _texts(pod, place)
        namespace, name = names.get(2, ""), names.get(1, "")
        for container in messages(pod, 3, place):
            container_name = _texts(container, place).get(1, "")
            devices += (
                ContainerDevice(namespace, name, container_name, resource, device)
                for resource, device in _devices(container, 2, place)
            )
            claimed += _claimed(container, (namespace, name, container_name), place)
    return PodResources(tuple(devices), tuple(claimed))


def parse_allocatable(data: bytes, place: str) -> tuple[tuple[str, str], ...]:
    """Return resource and id of every device that `GetAllocatableResources` lists. Raises SourceError."""
    return tuple(_devices(data, 1, place))


def _devices(data: bytes, number: int, place: str) -> Iterator[tuple[str, str]]:
    """Yield resource and id of each device in the repeated `ContainerDevices`."""
    for held in messages(data, number, place):
        resource = _texts(held, place).get(1, "")
        for found, text in texts(held, place):
            if found == 2:
                yield resource, text


def _claimed(container: bytes, names: tuple[str, str, str], place: str) -> Iterator[ClaimedDevice]:
    for resource in messages(container, 5, place):
        claim = _texts(resource, place)
        for device in messages(resource, 4, place):
            told = _texts(device, place)
            cdi = tuple(_texts(one, place).get(1, "") for one in messages(device, 1, place))
            yield ClaimedDevice(
                *names, claim.get(3, ""), claim.get(2, ""), told.get(2, ""), told.get(3, ""), told.get(4, ""), cdi
            )


def _texts(data: bytes, place: str) -> dict[int, str]:
    """Return the last text of each field number; inner messages come along and are not looked at."""
    return {number: value.decode(errors="replace") for number, value in fields(data, place) if isinstance(value, bytes)}
