"""What made a pod: Deployment, CronJob, PyTorchJob, RayJob, Workflow, Notebook, InferenceService and the like.

Only the pod itself is looked at: its owner references name the next one up, and labels and names of those above it
tell the rest. So no right to read any other kind is needed. What labels say is a hint for people: nothing is charged
by it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kwhere.devices.json_answer import JsonValue, elements, member, text
from kwhere.discovery.kubernetes_objects import instant, labels_of

_MINUTES = re.compile(r"(?P<name>.+)-(?P<minutes>[0-9]{8,9})")
_SCHEDULE_SLACK = timedelta(days=8)


@dataclass(frozen=True, slots=True)
class Owner:
    """The uppermost maker of a pod that is known."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Return `Kind/name`."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Hint:
    """A label that names what is above a maker of one of the kinds `below`."""

    label: str
    kind: str
    below: frozenset[str]


_ANY = frozenset(
    {"ReplicaSet", "StatefulSet", "Job", "JobSet", "Pod", "PyTorchJob", "TFJob", "MPIJob", "RayCluster", "Workflow", ""}
)
_HINTS = (
    # The first that holds is the highest: a Knative revision's pods belong to the InferenceService above it.
    _Hint("serving.kserve.io/inferenceservice", "InferenceService", _ANY),
    _Hint("notebook-name", "Notebook", frozenset({"StatefulSet"})),
    _Hint("notebooks.kubeflow.org/workspace-name", "Workspace", frozenset({"StatefulSet"})),
    _Hint("trainer.kubeflow.org/trainjob-name", "TrainJob", frozenset({"Job", "JobSet"})),
    _Hint("jobset.sigs.k8s.io/jobset-name", "JobSet", frozenset({"Job", "JobSet"})),
    _Hint("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet", frozenset({"StatefulSet"})),
    _Hint("sparkoperator.k8s.io/app-name", "SparkApplication", frozenset({"Pod", "SparkApplication", ""})),
    _Hint("workflows.argoproj.io/workflow", "Workflow", frozenset({"Workflow", ""})),
    _Hint("serving.knative.dev/service", "Service.serving.knative.dev", frozenset({"ReplicaSet"})),
)
_OPERATORS = {
    "pytorchjob-controller": "PyTorchJob",
    "tfjob-controller": "TFJob",
    "mpijob-controller": "MPIJob",
    "mpi-operator": "MPIJob",
    "xgboostjob-controller": "XGBoostJob",
    "paddlejob-controller": "PaddleJob",
    "jaxjob-controller": "JAXJob",
}


def controller(pod: JsonValue) -> Owner | None:
    """Return the owner that a pod's references call its controller, else the only one there is; None for a bare pod."""
    references = elements(member(pod, "metadata", "ownerReferences"))
    chosen = next((one for one in references if member(one, "controller") is True), None)
    if chosen is None and len(references) == 1:
        chosen = references[0]
    kind, name = text(member(chosen, "kind")), text(member(chosen, "name"))
    return Owner(kind, name) if kind and name else None


def top_owner(pod: JsonValue) -> Owner | None:
    """Return the uppermost maker of a pod that it tells of; None for a bare pod."""
    labels = labels_of(pod)
    direct = controller(pod)
    kind = direct.kind if direct else ""
    for hint in _HINTS:
        name = labels.get(hint.label)
        if name and kind in hint.below:
            return Owner(hint.kind, name)
    trained = _trained(labels, kind) or _of_ray(labels, direct)
    if trained is not None:
        return trained
    if direct is None:
        return None
    if kind == "ReplicaSet":
        return _deployment(direct, labels)
    if kind == "Job":
        return _cron_job(direct, instant(member(pod, "metadata", "creationTimestamp")))
    return direct


def _trained(labels: Mapping[str, str], kind: str) -> Owner | None:
    """A job of the training operator; its launcher is a plain Job below an MPIJob."""
    name = labels.get("training.kubeflow.org/job-name") or labels.get("mpi-job-name")
    operator = labels.get("training.kubeflow.org/operator-name", "mpi-operator" if "mpi-job-name" in labels else "")
    found = _OPERATORS.get(operator)
    return Owner(found, name) if name and found and kind in {found, "Job", ""} else None


def _of_ray(labels: Mapping[str, str], direct: Owner | None) -> Owner | None:
    """The RayJob or RayService that a cluster was made for, by its labels; the submitter of a RayJob is a Job."""
    kind, name = labels.get("ray.io/originated-from-crd"), labels.get("ray.io/originated-from-cr-name")
    if kind in {"RayJob", "RayService", "RayCluster"} and name and direct and direct.kind in {"RayCluster", "Job"}:
        return Owner(kind, name)
    return None


def _deployment(owner: Owner, labels: Mapping[str, str]) -> Owner:
    """A ReplicaSet of a Deployment is called after it and the hash of its template, which its pods bear."""
    stem = owner.name.removesuffix(f"-{labels.get('pod-template-hash', '')}")
    if stem == owner.name or not stem:
        return owner
    return Owner("Rollout" if "rollouts-pod-template-hash" in labels else "Deployment", stem)


def _cron_job(owner: Owner, created_at: datetime | None) -> Owner:
    """A Job of a CronJob is called after it and the minute since 1970 that it was due."""
    found = _MINUTES.fullmatch(owner.name)
    if found is None or created_at is None:
        return owner
    late_seconds = created_at.timestamp() - 60 * int(found["minutes"])
    if -120 <= late_seconds <= _SCHEDULE_SLACK.total_seconds():
        return Owner("CronJob", found["name"])
    return owner
