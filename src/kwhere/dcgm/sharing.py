"""What each pod has of a GPU that several share: by its processes, else by the replicas it holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwhere.dcgm.entities import Entity
from kwhere.dcgm.holdings import PodHold
from kwhere.devices.gpu import DeviceState, GpuProcess


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod's processes use of a GPU or instance; None: not known. A pod without a process uses 0."""

    sm_percent: int | None
    memory_bytes: int | None


class Sharing:
    """Splits devices over pods at one moment."""

    def __init__(self, pods: Sequence[PodHold], owner_of: Callable[[int], str | None]) -> None:
        """`owner_of` gives the uid of the pod that a process belongs to."""
        self._owner_of = owner_of
        self._replicas: dict[str, dict[str, int]] = {}
        for hold in pods:
            if not hold.instance:
                pod = hold.pod_uid or f"{hold.namespace}/{hold.pod}"
                held = self._replicas.setdefault(hold.device, {})
                held[pod] = held.get(pod, 0) + 1

    def weights(self, state: DeviceState) -> Mapping[str, float]:
        """Return each pod's share of the device's power; 1 in sum, empty where no pod holds it."""
        held = self._replicas.get(state.device.uuid, {})
        busy = dict.fromkeys(held, 0)
        for process in state.processes or ():
            owner = self._owner_of(process.pid)
            if owner in busy:
                busy[owner] += process.sm_percent or 0
        parts = busy if sum(busy.values()) else held
        total = sum(parts.values())
        return {pod: part / total for pod, part in parts.items()}

    def use(self, entity: Entity, pod_uid: str) -> PodUse | None:
        """Return what a pod's processes use; None where processes are not known."""
        if entity.state.processes is None or not pod_uid or not entity.state.up:
            return None
        mine = [one for one in entity.state.processes if _is_in(one, entity) and self._owner_of(one.pid) == pod_uid]
        return PodUse(
            None if entity.state.device.mig else _sum([one.sm_percent for one in mine]),
            _sum([one.memory_bytes for one in mine]),
        )


def _is_in(process: GpuProcess, entity: Entity) -> bool:
    return entity.instance is None or process.gpu_instance == entity.instance.gpu_instance


def _sum(values: Sequence[int | None]) -> int | None:
    """Return the sum; None where one of them is not known: a part is not the whole."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
