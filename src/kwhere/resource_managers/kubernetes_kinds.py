"""The kinds that people make pods with, and where in them the annotations of those pods stand.

Source: the API references of Kubernetes, Kubeflow (Notebooks, Training Operator, Trainer), JobSet, KubeRay, Argo,
KServe, Knative, LeaderWorkerSet and the Spark operator. What a version of a kind does not know its schema drops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kwhere.devices.json_answer import JsonValue, member

Place: TypeAlias = "tuple[str | int, ...]"
EVERY = "*"
"""In a place: each member of a mapping, each element of a list."""
METADATA: Place = ("metadata",)
_TEMPLATE: Place = ("spec", "template", "metadata")


@dataclass(frozen=True, slots=True)
class Made:
    """A kind by the name of its resource, and what holds annotations of the pods that it makes."""

    resource: str
    holders: tuple[Place, ...] = ()
    passes_on: bool = False
    """Whether a controller makes it from another kind, with that one's annotations and none on its pods."""


def _replicas(key: str) -> tuple[Place, ...]:
    return (("spec", key, EVERY, "template", "metadata"),)


def _ray(*above: str) -> tuple[Place, ...]:
    return (
        (*above, "headGroupSpec", "template", "metadata"),
        (*above, "workerGroupSpecs", EVERY, "template", "metadata"),
    )


KINDS: Mapping[tuple[str, str], Made] = {
    ("", "Pod"): Made("pods"),
    ("", "ReplicationController"): Made("replicationcontrollers", (_TEMPLATE,)),
    ("apps", "Deployment"): Made("deployments", (_TEMPLATE,)),
    ("apps", "ReplicaSet"): Made("replicasets", (_TEMPLATE,)),
    ("apps", "StatefulSet"): Made("statefulsets", (_TEMPLATE,)),
    ("apps", "DaemonSet"): Made("daemonsets", (_TEMPLATE,)),
    ("batch", "Job"): Made("jobs", (_TEMPLATE,)),
    ("batch", "CronJob"): Made(
        "cronjobs",
        (("spec", "jobTemplate", "metadata"), ("spec", "jobTemplate", "spec", "template", "metadata")),
    ),
    ("kubeflow.org", "Notebook"): Made("notebooks"),  # its controller copies the notebook's annotations
    ("kubeflow.org", "Workspace"): Made("workspaces", (("spec", "podTemplate", "podMetadata"),)),
    ("kubeflow.org", "PyTorchJob"): Made("pytorchjobs", _replicas("pytorchReplicaSpecs")),
    ("kubeflow.org", "TFJob"): Made("tfjobs", _replicas("tfReplicaSpecs")),
    ("kubeflow.org", "MPIJob"): Made("mpijobs", _replicas("mpiReplicaSpecs")),
    ("kubeflow.org", "XGBoostJob"): Made("xgboostjobs", _replicas("xgbReplicaSpecs")),
    ("kubeflow.org", "PaddleJob"): Made("paddlejobs", _replicas("paddleReplicaSpecs")),
    ("kubeflow.org", "JAXJob"): Made("jaxjobs", _replicas("jaxReplicaSpecs")),
    ("trainer.kubeflow.org", "TrainJob"): Made("trainjobs", (("spec",),)),  # its annotations are its JobSet's
    ("jobset.x-k8s.io", "JobSet"): Made(
        "jobsets", (("spec", "replicatedJobs", EVERY, "template", "spec", "template", "metadata"),), passes_on=True
    ),
    ("ray.io", "RayCluster"): Made("rayclusters", _ray("spec")),
    ("ray.io", "RayJob"): Made(
        "rayjobs", (*_ray("spec", "rayClusterSpec"), ("spec", "submitterPodTemplate", "metadata"))
    ),
    ("ray.io", "RayService"): Made("rayservices", _ray("spec", "rayClusterConfig")),
    ("argoproj.io", "Workflow"): Made("workflows", (("spec", "podMetadata"),)),
    ("argoproj.io", "CronWorkflow"): Made(
        "cronworkflows", (("spec", "workflowMetadata"), ("spec", "workflowSpec", "podMetadata"))
    ),
    ("argoproj.io", "Rollout"): Made("rollouts", (_TEMPLATE,)),
    ("serving.kserve.io", "InferenceService"): Made("inferenceservices"),  # its annotations are its pods'
    ("serving.knative.dev", "Service"): Made("services", (_TEMPLATE,)),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Made(
        "leaderworkersets",
        (
            ("spec", "leaderWorkerTemplate", "leaderTemplate", "metadata"),
            ("spec", "leaderWorkerTemplate", "workerTemplate", "metadata"),
        ),
    ),
    ("sparkoperator.k8s.io", "SparkApplication"): Made("sparkapplications", (("spec", "driver"), ("spec", "executor"))),
}
OTHER = Made("")


def places_of(item: JsonValue, made: Made) -> Iterator[Place]:
    """Yield what holds annotations in an object of a kind: itself first, then what its pods are made from."""
    yield METADATA
    for holder in made.holders:
        yield from _expanded(item, holder, ())


def _expanded(value: JsonValue, rest: Place, done: Place) -> Iterator[Place]:
    """Yield the places that `rest` means in an object, those too of which the last step is not there yet."""
    if not rest:
        yield done
        return
    step, after = rest[0], rest[1:]
    if step == EVERY:
        for key, inner in _inner(value):
            yield from _expanded(inner, after, (*done, key))
    elif isinstance(value, Mapping):
        inner = member(value, str(step))
        if inner is not None or not after:
            yield from _expanded(inner, after, (*done, step))


def _inner(value: JsonValue) -> Iterator[tuple[str | int, JsonValue]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from enumerate(value)
