"""Objects of the Kubernetes API by hand, in the shapes that the API documents."""

from typing import Any

Object = dict[str, Any]
STARTED = "2026-11-29T12:00:05Z"


def pod(name: str, namespace: str = "team-a", uid: str = "", node: str = "n1", **changes: Any) -> Object:
    """Return a running pod of one container; `changes` are further members of metadata, spec and status."""
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"{abs(hash((namespace, name))) % 16**8:08x}-0000-4000-8000-000000000001",
        "creationTimestamp": "2026-11-29T12:00:00Z",
    }
    spec: Object = {"nodeName": node, "containers": [container("main")]}
    status: Object = {
        "phase": "Running",
        "startTime": STARTED,
        "qosClass": "Burstable",
        "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {"startedAt": STARTED}}}],
    }
    metadata |= changes.get("metadata", {})
    spec |= changes.get("spec", {})
    status |= changes.get("status", {})
    return {"metadata": metadata, "spec": spec, "status": status}


def container(name: str, limits: Object | None = None, **requests: str) -> Object:
    resources: Object = {"requests": {key.replace("_", "/", 1): value for key, value in requests.items()}}
    if limits is not None:
        resources["limits"] = limits
    return {"name": name, "image": "registry.example/app:1", "resources": resources}


def owned(kind: str, name: str, **labels: str) -> Object:
    """Return metadata of what `kind` controls; in label names `__` is `/` and `_` is `-`."""
    return {
        "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": True}],
        "labels": {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()},
    }


def finished(phase: str, at: str = "2026-11-29T13:00:00Z", reason: str = "Completed", code: int = 0) -> Object:
    """Return the status of a pod whose container ended."""
    ended = {"terminated": {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": at}}
    return {
        "phase": phase,
        "startTime": STARTED,
        "containerStatuses": [{"name": "main", "restartCount": 0, "state": ended}],
    }


def node(name: str = "n1", labels: Object | None = None, **changes: Any) -> Object:
    """Return a ready node of 64 CPUs, 256 GiB and no GPU."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels or {}},
        "spec": changes.get("spec", {}),
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            **changes.get("status", {}),
        },
    }


def namespace(name: str, labels: Object | None = None, annotations: Object | None = None) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}}}


def profile(name: str, owner: str, kind: str = "User") -> Object:
    return {"metadata": {"name": name}, "spec": {"owner": {"kind": kind, "name": owner}}}


def notebook(name: str, namespace: str = "team-a", *, ready: int = 1, **annotations: str) -> Object:
    """Return a Kubeflow notebook; annotations are stopped, activity, checked and server_type."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {_annotation(key): value for key, value in annotations.items()},
        },
        "spec": {"template": {"spec": {"containers": [container(name)]}}},
        "status": {"readyReplicas": ready},
    }


def workspace(name: str, namespace: str = "team-a", state: str = "Running", **status: Any) -> Object:
    """Return a Kubeflow workspace, its notebook of the second kind."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "paused": False,
            "kind": "jupyterlab",
            "podTemplate": {"options": {"imageConfig": "scipy_190", "podConfig": "big_gpu"}},
        },
        "status": {"state": state, "activity": {"lastActivity": 0, "lastUpdate": 0}, "pauseTime": 0, **status},
    }


def _annotation(key: str) -> str:
    names = {
        "stopped": "kubeflow-resource-stopped",
        "activity": "notebooks.kubeflow.org/last-activity",
        "checked": "notebooks.kubeflow.org/last_activity_check_timestamp",
        "server_type": "notebooks.kubeflow.org/server-type",
    }
    return names[key]


def workflow(name: str, phase: str | None, run: str | None = None, namespace: str = "team-a") -> Object:
    """Return an Argo workflow; with `run` it is a run of a Kubeflow pipeline."""
    labels = {"workflows.argoproj.io/phase": phase} if phase else {}
    if run:
        labels["pipeline/runid"] = run
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-11-29T12:00:00Z",
            "labels": labels,
            "annotations": {"pipelines.kubeflow.org/run_name": f"{name} of the week"},
        },
        "spec": {"templates": [{"name": "a-lot-of-text"}]},
        "status": {"nodes": {"a": {"phase": "Running"}}},
    }
