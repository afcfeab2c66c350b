"""A pod as the API tells it → a unit, or the reason why it is none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from kwhere.core.managed import ManagerUnit, WaitingUnit, run_name
from kwhere.devices.json_answer import JsonValue, elements, finite, member, text
from kwhere.discovery.kubernetes import MANAGER, is_static
from kwhere.discovery.kubernetes_objects import annotations_of, condition, instant, labels_of, name_of
from kwhere.discovery.kubernetes_owners import controller, top_owner
from kwhere.discovery.match import unit_id
from kwhere.resource_managers.kubernetes_gpus import NO_TYPES, GpuTypes
from kwhere.resource_managers.kubernetes_resources import allocation_of, pod_amounts
from kwhere.resource_managers.kubernetes_users import TRUST_NOTHING, PodUsers
from kwhere.resource_managers.kubernetes_waiting import read_waiting

DELETED = "deleted"
_MIRROR = "kubernetes.io/config.mirror"
_HASH = "kubernetes.io/config.hash"
_FINISHED = frozenset({"Succeeded", "Failed"})
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_LABEL_TAGS = {
    "pipeline/runid": "pipeline_run",
    "ray.io/cluster": "ray_cluster",
    "kueue.x-k8s.io/queue-name": "kueue_queue",
    "katib.kubeflow.org/experiment": "katib_experiment",
    "vm.kubevirt.io/name": "vm",
    "notebook-name": "notebook",
    "notebooks.kubeflow.org/workspace-name": "workspace",
}
_LONGEST_WORD = 300
_WORDS = {
    "PreemptionByScheduler": "preempted",
    "Preempting": "preempted",  # by kubelet, for a pod that the node cannot be without
    "EvictionByEvictionAPI": "evicted",
    "DeletionByTaintManager": "evicted",
    "TerminationByKubelet": "evicted",
    "DeletionByPodGC": "lost",
}
"""What became of a pod, where the API's word says who did it rather than what."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the API; `unit` is None where there is nothing to account, `why_not` says why."""

    uid: str
    """Of the object, by which the API's changes are matched: a mirror pod's unit has another one."""
    unit: ManagerUnit | None
    why_not: str = ""
    is_broken: bool = False
    """Whether the object cannot be read, rather than merely waits."""
    waiting: WaitingUnit | None = None
    gone_at: datetime | None = None
    """When it was over at the latest, should it be deleted; None: the object does not say."""
    fate: str = ""
    """What the cluster is about to do to it: preempted, evicted, lost; "" where nothing is known."""


@dataclass(frozen=True, slots=True)
class PodReader:
    """What pods are read with."""

    cluster: str
    types: Mapping[str, GpuTypes] = field(default_factory=dict)
    """What each node's GPUs are, by node."""
    users: PodUsers = TRUST_NOTHING

    def read(self, item: JsonValue) -> Pod:
        """Return a pod; of any JSON, one that has a unit or says why not."""
        uid = text(member(item, "metadata", "uid"))
        namespace, name = text(member(item, "metadata", "namespace")), name_of(item)
        if not uid or not namespace or not name:
            return Pod(uid, None, "expected an object with uid, namespace and name", is_broken=True)
        node = text(member(item, "spec", "nodeName"))
        started_at = instant(member(item, "status", "startTime"))
        if not node or started_at is None:
            phase = text(member(item, "status", "phase")) or "no phase"
            waiting = read_waiting(self.cluster, item, self.users)
            broken = bool(node) and phase == "Running"
            return Pod(uid, None, f"not begun on a node ({phase})", is_broken=broken, waiting=waiting)
        native = static_uid(item) or uid
        unit = unit_id(native)
        ended_at = ended(item, started_at) or _stopped(item, started_at)
        types = self.types.get(node, NO_TYPES)
        return Pod(
            uid,
            ManagerUnit(
                cluster=self.cluster,
                manager=MANAGER,
                unit=unit,
                run=run_name(unit, started_at) if is_static(native) else unit,
                state=state(item, is_over=ended_at is not None),
                started_at=started_at,
                ended_at=ended_at,
                submitted_at=instant(member(item, "metadata", "creationTimestamp")),
                name=name,
                user=self.users.user_of(item),
                project=namespace,
                nodes=(node,),
                allocation=replace(allocation_of(pod_amounts(item), types), nodes=1),
                queue=namespace,
                tags=self._tags(item, namespace, name),
            ),
            gone_at=_gone_at(item),
            fate=disturbed(item),
        )

    def _tags(self, item: JsonValue, namespace: str, name: str) -> dict[str, str]:
        maker = self.users.maker_of(item)
        return dict(_tags(item, namespace, name)) | ({} if maker is None else {"created_by": maker})


def static_uid(pod: JsonValue) -> str | None:
    """Return the uid that a static pod's cgroup bears, None for other pods.

    The API shows a mirror of it with a uid of its own and the real one in an annotation. Anybody may write that
    annotation, so it counts only where the node made the pod.
    """
    annotations, owner = annotations_of(pod), controller(pod)
    if _MIRROR not in annotations or owner is None or owner.kind != "Node":
        return None
    if owner.name != text(member(pod, "spec", "nodeName")):
        return None
    return annotations.get(_HASH) or annotations[_MIRROR] or None


def state(pod: JsonValue, *, is_over: bool = False) -> str:
    """Return what became of a pod in one lower-case word: running, succeeded, failed, evicted, unknown and so on.

    One that `is_over` though its phase does not say so was deleted.
    """
    phase = text(member(pod, "status", "phase"))
    if is_over and phase not in _FINISHED:
        return disturbed(pod) or DELETED
    reason = text(member(pod, "status", "reason"))
    if phase == "Failed":
        return _WORDS.get(reason, reason.lower()[:_LONGEST_WORD]) or disturbed(pod) or "failed"
    return phase.lower()[:_LONGEST_WORD] or "unknown"


def disturbed(pod: JsonValue) -> str:
    """Return what the cluster did to a pod that had not ended: preempted, evicted, lost; "" where it did nothing."""
    found = condition(pod, "DisruptionTarget")
    return _WORDS.get(text(member(found, "reason")), "") if member(found, "status") == "True" else ""


def ended(pod: JsonValue, started_at: datetime) -> datetime | None:
    """Return when the last container of a finished pod ended; None of one that is not finished.

    One that was evicted may have lost its containers' states: then the newest of its conditions says when.
    """
    if text(member(pod, "status", "phase")) not in _FINISHED:
        return None
    times = [at for at in _finishes(pod) if at is not None]
    if not times:
        conditions = elements(member(pod, "status", "conditions"))
        times = [at for one in conditions if (at := instant(member(one, "lastTransitionTime"))) is not None]
    return max([started_at, *times])


def _stopped(pod: JsonValue, started_at: datetime) -> datetime | None:
    """Return when the last container ended of a pod that is to be deleted: nothing in it is started again.

    A finalizer may keep its object for days, and before Kubernetes 1.27 its phase stayed as it was.
    """
    if instant(member(pod, "metadata", "deletionTimestamp")) is None:
        return None
    ends = _container_ends(pod)
    return max([started_at, *ends]) if ends else None


def _gone_at(pod: JsonValue) -> datetime | None:
    """Return when its last container ended, else by when it was to be gone: a deletion may be heard of much later."""
    ends = _container_ends(pod)
    return max(ends) if ends else instant(member(pod, "metadata", "deletionTimestamp"))


def _container_ends(pod: JsonValue) -> list[datetime]:
    """Return when each container ended; nothing where one has not, or none is known."""
    statuses = elements(member(pod, "status", "containerStatuses"))
    ends = [instant(member(status, "state", "terminated", "finishedAt")) for status in statuses]
    known = [at for at in ends if at is not None]
    return known if len(known) == len(ends) else []


def _finishes(pod: JsonValue) -> Iterator[datetime | None]:
    for kind in _STATUSES:
        for status in elements(member(pod, "status", kind)):
            yield instant(member(status, "state", "terminated", "finishedAt"))
            yield instant(member(status, "lastState", "terminated", "finishedAt"))


def _tags(pod: JsonValue, namespace: str, name: str) -> Iterator[tuple[str, str]]:
    yield "kube_namespace", namespace
    yield "kube_pod", name
    owner = top_owner(pod)
    if owner is not None:
        yield "kube_owner", owner.name
        yield "kube_owner_kind", owner.kind
    labels = labels_of(pod)
    for label, tag in _LABEL_TAGS.items():
        if labels.get(label):
            yield tag, labels[label]
    qos = text(member(pod, "status", "qosClass"))
    if qos:
        yield "qos", qos.lower()
    reasons = sorted(set(_failures(pod)))
    if reasons:
        yield "reason", ", ".join(reasons)[:_LONGEST_WORD]
    restarts = sum(_restarts(pod))
    if restarts:
        yield "restarts", str(restarts)


def _failures(pod: JsonValue) -> Iterator[str]:
    """Yield why containers ended or do not start (OOMKilled, CrashLoopBackOff), and why the pod was disturbed."""
    for kind in _STATUSES:
        for status in elements(member(pod, "status", kind)):
            for word in (
                text(member(status, "state", "terminated", "reason")),
                text(member(status, "state", "waiting", "reason")),
                text(member(status, "lastState", "terminated", "reason")),
            ):
                if word and word not in ("Completed", "ContainerCreating", "PodInitializing"):
                    yield word
    disturbed = condition(pod, "DisruptionTarget")
    if member(disturbed, "status") == "True" and text(member(disturbed, "reason")):
        yield text(member(disturbed, "reason"))


def _restarts(pod: JsonValue) -> Iterator[int]:
    for status in elements(member(pod, "status", "containerStatuses")):
        count = finite(member(status, "restartCount"))
        if count is not None and 0 <= count < 2**31:
            yield int(count)
