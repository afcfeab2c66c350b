"""What Kubeflow's controllers do not tell, or tell wrongly, as metrics: notebooks, profiles, runs of pipelines.

The names have their own prefix and carry `namespace` and `name`: joins with kube-state-metrics and with Kubeflow's own
need them, so a scrape of the server sets `honor_labels`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.discovery.facts import printable
from kwhere.discovery.kubernetes_objects import name_of
from kwhere.resource_managers.kubernetes_notebooks import Notebook
from kwhere.resource_managers.kubernetes_pipelines import PipelineRun

_OF = ("namespace", "name", "cluster")


def _spec(name: str, kind: Kind, text: str, labels: tuple[str, ...] = _OF) -> MetricSpec:
    return MetricSpec(f"kubeflow_{name}", kind, text, labels, is_borrowed=True)


NOTEBOOK_INFO = _spec(
    "notebook_info",
    Kind.INFO,
    "A notebook, who owns its profile, and what it runs.",
    ("namespace", "name", "owner", "image", "server_type", "cluster"),
)
NOTEBOOK_RUNNING = _spec("notebook_running", Kind.GAUGE, "1 where a notebook's server is ready, else 0.")
NOTEBOOK_STOPPED = _spec(
    "notebook_stopped_timestamp_seconds", Kind.GAUGE, "When a notebook was stopped, Unix seconds; absent where it runs."
)
NOTEBOOK_ACTIVITY = _spec(
    "notebook_last_activity_timestamp_seconds",
    Kind.GAUGE,
    "When a notebook was last used as Kubeflow knows, Unix seconds; absent where it does not.",
)
NOTEBOOK_CHECKED = _spec(
    "notebook_last_activity_check_timestamp_seconds",
    Kind.GAUGE,
    "When Kubeflow last looked whether a notebook is used, Unix seconds.",
)
NOTEBOOK_GPUS = _spec(
    "notebook_gpus_requested",
    Kind.GAUGE,
    "GPUs or parts of them that a notebook asks for, by resource; stopped ones ask too.",
    ("namespace", "name", "resource", "cluster"),
)
PROFILE_INFO = _spec("profile_info", Kind.INFO, "A profile and its owner.", ("profile", "owner", "cluster"))
PIPELINE_RUNS = _spec(
    "pipeline_runs",
    Kind.GAUGE,
    "Runs of pipelines that the cluster still has, by state.",
    ("namespace", "state", "cluster"),
)
SPECS = (
    *(NOTEBOOK_INFO, NOTEBOOK_RUNNING, NOTEBOOK_STOPPED, NOTEBOOK_ACTIVITY, NOTEBOOK_CHECKED, NOTEBOOK_GPUS),
    *(PROFILE_INFO, PIPELINE_RUNS),
)


@dataclass(frozen=True, slots=True)
class Kubeflow:
    """What was last read of Kubeflow; what its API does not have, or was not read for long, is empty."""

    owners: Mapping[str, str] = field(default_factory=dict)
    """By profile, which is its namespace's name too."""
    notebooks: Mapping[tuple[str, str], Notebook] = field(default_factory=dict)
    runs: Mapping[str, PipelineRun] = field(default_factory=dict)

    def samples(self, cluster: str) -> Iterator[Sample]:
        """Yield it as metrics; `cluster` is "" where there is but one."""
        for profile, owner in sorted(self.owners.items()):
            yield Sample(PROFILE_INFO, (_shown(profile), _shown(owner), cluster), 1)
        for (namespace, name), notebook in sorted(self.notebooks.items(), key=lambda item: item[0]):
            yield from self._of_notebook((_shown(namespace), _shown(name)), notebook, cluster)
        counts = Counter((run.namespace, run.state) for run in self.runs.values())
        for (namespace, state), count in sorted(counts.items()):
            yield Sample(PIPELINE_RUNS, (_shown(namespace), state, cluster), count)

    def _of_notebook(self, place: tuple[str, str], notebook: Notebook, cluster: str) -> Iterator[Sample]:
        owner = _shown(self.owners.get(place[0], ""))
        facts = (*place, owner, _shown(notebook.image), _shown(notebook.server_type), cluster)
        yield Sample(NOTEBOOK_INFO, facts, 1)
        yield Sample(NOTEBOOK_RUNNING, (*place, cluster), int(notebook.is_ready))
        for spec, at in (
            (NOTEBOOK_STOPPED, notebook.stopped_at),
            (NOTEBOOK_ACTIVITY, notebook.last_activity_at),
            (NOTEBOOK_CHECKED, notebook.checked_at),
        ):
            if at is not None:
                yield Sample(spec, (*place, cluster), at.timestamp())
        for resource, amount in sorted(notebook.gpus.items()):
            yield Sample(NOTEBOOK_GPUS, (*place, resource, cluster), amount)


def read_owners(profiles: Iterable[JsonValue]) -> dict[str, str]:
    """Return who owns each profile, a user or a group; "" where it does not say."""
    return {name: text(member(item, "spec", "owner", "name")) for item in profiles if (name := name_of(item))}


def _shown(word: str) -> str:
    return printable(word)
