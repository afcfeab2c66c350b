"""Kubeflow's notebooks, of both kinds: whether they run, since when they do not, when they were last used.

Source: the API types of Kubeflow Notebooks, `Notebook` (v1) and `Workspace` (v1beta1).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kwhere.devices.json_answer import JsonValue, elements, finite, member, text
from kwhere.discovery.kubernetes_objects import annotations_of, instant, name_of
from kwhere.resource_managers.kubernetes_gpus import NO_TYPES, gpu_type
from kwhere.resource_managers.kubernetes_resources import pod_amounts

_STOPPED = "kubeflow-resource-stopped"
_ACTIVITY = "notebooks.kubeflow.org/last-activity"
_CHECKED = "notebooks.kubeflow.org/last_activity_check_timestamp"
_SERVER_TYPE = "notebooks.kubeflow.org/server-type"
_STATES = {"Running": "running", "Pending": "starting", "Paused": "stopped", "Terminating": "stopped", "Error": "error"}
_FIRST_MILLISECONDS = 10**11
"""An epoch from here on is told in milliseconds: as one in seconds it would be the year 5138."""
_LAST_SECONDS = 9_000_000_000


@dataclass(frozen=True, slots=True)
class Notebook:
    """A Kubeflow notebook; times are aware UTC, None where nobody wrote one that can be read."""

    state: str
    """running, starting, stopped, error, unknown: one that was stopped no longer runs, whatever else counts it."""
    is_ready: bool = False
    """Whether its server answers: readyReplicas is above 0."""
    image: str = ""
    server_type: str = ""
    """As Kubeflow's form writes it: jupyter, group-one (VS Code), group-two (RStudio); of a workspace its kind."""
    stopped_at: datetime | None = None
    last_activity_at: datetime | None = None
    checked_at: datetime | None = None
    """When Kubeflow last looked for activity."""
    gpus: Mapping[str, float] = field(default_factory=dict)
    """Devices asked for, by resource name; a workspace leaves that to its kind and does not say."""

    def tags(self) -> dict[str, str]:
        """Return what a unit's page shows of it; times are RFC 3339."""
        told = {
            "notebook_state": self.state,
            "notebook_stopped_at": _stamp(self.stopped_at),
            "notebook_last_activity_at": _stamp(self.last_activity_at),
        }
        return {name: word for name, word in told.items() if word}


def read_notebooks(items: Iterable[JsonValue]) -> dict[tuple[str, str], Notebook]:
    """Return notebooks by namespace and name."""
    return {
        (text(member(item, "metadata", "namespace")), name): _notebook(item, name)
        for item in items
        if (name := name_of(item))
    }


def read_workspaces(items: Iterable[JsonValue]) -> dict[tuple[str, str], Notebook]:
    """Return workspaces, which are notebooks of the second kind, by namespace and name."""
    return {
        (text(member(item, "metadata", "namespace")), name): _workspace(item)
        for item in items
        if (name := name_of(item))
    }


def _workspace(item: JsonValue) -> Notebook:
    state = _STATES.get(text(member(item, "status", "state")), "unknown")
    return Notebook(
        state=state,
        is_ready=state == "running",
        image=text(member(item, "spec", "podTemplate", "options", "imageConfig")),
        server_type=text(member(item, "spec", "kind")),
        stopped_at=_epoch(member(item, "status", "pauseTime")),
        last_activity_at=_epoch(member(item, "status", "activity", "lastActivity")),
        checked_at=_epoch(member(item, "status", "activity", "lastUpdate")),
    )


def _epoch(value: JsonValue) -> datetime | None:
    """Return a Unix time, in seconds as the type says or in milliseconds as was written; None for 0, which is never."""
    number = finite(value)
    if number is None or number <= 0:
        return None
    seconds = number / 1000 if number >= _FIRST_MILLISECONDS else number
    return datetime.fromtimestamp(seconds, UTC) if seconds < _LAST_SECONDS else None


def _notebook(item: JsonValue, name: str) -> Notebook:
    annotations = annotations_of(item)
    ready = (finite(member(item, "status", "readyReplicas")) or 0) > 0
    state = "running" if ready else "starting"
    template = member(item, "spec", "template")
    return Notebook(
        state="stopped" if _STOPPED in annotations else state,
        is_ready=ready,
        image=_image(template, name),
        server_type=annotations.get(_SERVER_TYPE, ""),
        stopped_at=instant(annotations.get(_STOPPED)),
        last_activity_at=instant(annotations.get(_ACTIVITY)),
        checked_at=instant(annotations.get(_CHECKED)),
        gpus={
            resource: float(amount)
            for resource, amount in pod_amounts(template).items()
            if gpu_type(resource, NO_TYPES) is not None
        },
    )


def _image(template: JsonValue, name: str) -> str:
    """Return the image of the notebook's own container, which has its name; else of the first."""
    containers = elements(member(template, "spec", "containers"))
    own = next((one for one in containers if member(one, "name") == name), containers[0] if containers else None)
    return text(member(own, "image"))


def _stamp(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
