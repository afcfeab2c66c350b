"""Who holds what, as labels: pods by their device plugin, jobs by the files of a prolog."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kwhere.dcgm.entities import Entity

Labels = tuple[tuple[str, str], ...]
RESERVED = frozenset(
    (
        *("gpu", "UUID", "uuid", "gpu_uuid", "pci_bus_id", "device", "modelName", "model_name", "nvlink"),
        *("GPU_I_PROFILE", "GPU_I_ID", "Hostname", "hostname", "err_code", "err_msg", "xid", "window_size_in_ms"),
        *("clock_event", "health_watch", "health_error_code", "hpc_job", "vgpu", "pod_uid"),
    )
)
"""Labels that series have anyway: a pod's label of that name would stand there a second time, and break the page."""
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]", re.ASCII)


@dataclass(frozen=True, slots=True)
class PodHold:
    """One device, or one replica of it, that a container of a pod was given."""

    namespace: str
    pod: str
    container: str
    device: str
    """Uuid of the physical GPU."""
    instance: str = ""
    """Uuid of the MIG instance; empty: the whole GPU."""
    replica: int | None = None
    """Number of the time-sliced or MPS replica."""
    pod_uid: str = ""
    dra: Labels = ()
    """`dra_…` labels of a resource claim."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the cluster knows of a pod."""

    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holding:
    """One set of labels that an entity's series bear, sorted by name."""

    labels: Labels = ()
    pod: tuple[str, str] | None = None
    """Namespace and name."""
    pod_uid: str = ""
    """As the device's list has it: what its use is told by."""
    replicas: int = 1
    """How many series of this entity the pod has."""


NOBODY = (Holding(),)


class Jobs(Protocol):
    """Jobs by GPU, as files of a prolog say."""

    def of(self, entity: Entity) -> Sequence[str]:
        """Return the job ids of a GPU or GPU instance."""
        ...


class NoJobs:
    """No directory was named."""

    def of(self, entity: Entity) -> Sequence[str]:
        """Return none."""
        return ()


@dataclass(frozen=True, slots=True)
class PodOptions:
    """How pods are shown."""

    old_namespace: bool = False
    virtual_gpus: bool = False
    with_uid: bool = False
    with_labels: bool = False
    allowed_labels: tuple[re.Pattern[str], ...] = ()
    """Empty: all labels."""
    prefix: str = ""
    """Stands before each name, so that a scrape's own `pod` does not push it to `exported_pod`."""

    @property
    def names(self) -> tuple[str, str, str]:
        """Return the labels' names of container, namespace and pod."""
        if self.old_namespace:
            return "container_name", "pod_namespace", "pod_name"
        return "container", "namespace", "pod"


class Holders:
    """Labels of every entity at one moment: pods, and jobs beside them."""

    def __init__(
        self,
        pods: Sequence[PodHold],
        jobs: Jobs,
        options: PodOptions = PodOptions(),
        facts: Callable[[str, str], PodFacts | None] = lambda _namespace, _pod: None,
    ) -> None:
        self._options = options
        self._jobs = jobs
        self._facts = facts
        self._by_place: dict[tuple[str, str], list[PodHold]] = {}
        for hold in pods:
            self._by_place.setdefault((hold.device, hold.instance), []).append(hold)

    def of(self, entity: Entity) -> Sequence[Holding]:
        """Return each set of labels of an entity; one without labels where nobody holds it."""
        pods = self.pods_of(entity)
        jobs = self._jobs.of(entity)
        if not jobs:
            return pods or NOBODY
        return [
            Holding(_sorted({**dict(holding.labels), "hpc_job": job}), holding.pod, holding.pod_uid, holding.replicas)
            for holding in pods or NOBODY
            for job in jobs
        ]

    def pods_of(self, entity: Entity) -> list[Holding]:
        """Return the pods of an entity: all where virtual GPUs are shown, else the last one that kubelet lists."""
        uuids = {entity.instance.uuid} if entity.instance is not None else {""}
        if entity.instance is not None:  # another compute instance of the same GPU instance
            uuids |= {
                part.instance.uuid
                for part in entity.state.instances
                if part.instance.gpu_instance == entity.instance.gpu_instance
            }
        holds = [hold for uuid in sorted(uuids) for hold in self._by_place.get((entity.state.device.uuid, uuid), ())]
        if not self._options.virtual_gpus:
            holds = holds[-1:]
        counts: dict[tuple[str, str], int] = {}
        for hold in holds:
            counts[hold.namespace, hold.pod] = counts.get((hold.namespace, hold.pod), 0) + 1
        return [self._holding(hold, counts[hold.namespace, hold.pod]) for hold in holds]

    def _holding(self, hold: PodHold, replicas: int) -> Holding:
        options, facts = self._options, self._facts(hold.namespace, hold.pod)
        uid = hold.pod_uid or (facts.uid if facts else "")
        found: dict[str, str] = {}
        if options.with_labels and facts is not None:
            found |= self._pod_labels(facts.labels)
        container, namespace, pod = options.names
        found |= {container: hold.container, namespace: hold.namespace, pod: hold.pod, **dict(hold.dra)}
        if options.with_uid and uid:
            found["pod_uid"] = uid
        if options.virtual_gpus and hold.replica is not None:
            found["vgpu"] = str(hold.replica)
        labels = _sorted({options.prefix + name: value for name, value in found.items()})
        return Holding(labels, (hold.namespace, hold.pod), hold.pod_uid, replicas)

    def _pod_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        allowed = self._options.allowed_labels
        found: dict[str, str] = {}
        for name, value in sorted(labels.items()):
            clean = label_name(name)
            shown = self._options.prefix + clean
            if shown in RESERVED or shown.startswith(("__", "DCGM_FI_", "dra_")):
                continue
            if not allowed or any(expression.search(name) for expression in allowed):
                found.setdefault(clean, value)
        return found


def label_name(name: str) -> str:
    """Return a name that Prometheus takes: everything else than letters, digits and `_` becomes `_`."""
    clean = _NOT_IN_A_NAME.sub("_", name)
    return clean if clean and not clean[0].isdigit() else f"_{clean}"


def _sorted(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
