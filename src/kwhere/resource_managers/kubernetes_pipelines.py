"""Runs of Kubeflow's pipelines: workflows of Argo that bear a run's id. Their metadata alone is read."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.discovery.kubernetes_objects import annotations_of, instant, labels_of, name_of

RUN_LABEL = "pipeline/runid"
_PHASE = "workflows.argoproj.io/phase"
_NAME = "pipelines.kubeflow.org/run_name"
STATES = frozenset({"pending", "running", "succeeded", "failed", "error"})


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """One run that the cluster still has."""

    namespace: str
    run: str
    """Its id in Kubeflow, as its pods bear it."""
    name: str
    """As a person called it; else its workflow's."""
    state: str
    """pending, running, succeeded, failed, error; unknown for any other word."""
    created_at: datetime | None = None


def read_runs(workflows: Iterable[JsonValue]) -> dict[str, PipelineRun]:
    """Return runs by id; a workflow that is no run of a pipeline is left out."""
    found = {}
    for item in workflows:
        labels, workflow = labels_of(item), name_of(item)
        run = labels.get(RUN_LABEL)
        if not run or not workflow:
            continue
        phase = labels.get(_PHASE, "pending").lower()  # one that no controller has seen yet bears none
        found[run] = PipelineRun(
            namespace=text(member(item, "metadata", "namespace")),
            run=run,
            name=annotations_of(item).get(_NAME) or workflow,
            state=phase if phase in STATES else "unknown",
            created_at=instant(member(item, "metadata", "creationTimestamp")),
        )
    return found
