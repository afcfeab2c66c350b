"""Kubeflow as metrics, through the API server, the manager and the server's page of metrics."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.emission_services import HandClock
from tests.kubernetes_api import (
    METADATA_ONLY,
    NOTEBOOKS,
    PODS,
    PROFILES,
    TOKEN,
    WORKFLOWS,
    WORKSPACES,
    FakeKubernetes,
    kubernetes,
)
from tests.kubernetes_objects import container, notebook, owned, pod, profile, workflow, workspace

from kwhere.core.metrics import FORBIDDEN_LABELS
from kwhere.core.timespan import Span
from kwhere.exposition.text import Format, Renderer
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_kubeflow import SPECS
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.resource_managers.resource_manager import ObservingManager
from kwhere.transport.settings import HttpClientSettings

NOW = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)


@dataclass
class World:
    """A cluster with Kubeflow, its manager and its clock."""

    cluster: FakeKubernetes
    manager: KubernetesManager
    clock: HandClock

    def look(self) -> None:
        """Ask as a pass does, at a time when all is due."""
        self.clock.ahead(minutes=6)
        self.manager.fetch_accounts()

    def page(self, text_format: Format = Format.TEXT, cluster: str = "") -> str:
        return Renderer().render(self.manager.samples(cluster), text_format).decode()

    def series(self) -> dict[str, float]:
        """Return the page's lines as `name{labels}` → value."""
        lines = [line for line in self.page().splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.fixture
def world() -> Iterator[World]:
    with kubernetes() as cluster:
        clock = HandClock(NOW)
        source = KubernetesApi(Access(cluster.url, HttpClientSettings(), TOKEN), clock, page_size=2)
        manager = KubernetesManager(KubernetesSettings(manager="kubernetes", cluster="k1"), source, clock)
        yield World(cluster, manager, clock)
        manager.close()


def fill(cluster: FakeKubernetes) -> None:
    cluster.with_kubeflow()
    cluster.put(PROFILES, profile("team-a", "alice@example.org"))
    cluster.put(PROFILES, profile("lab", "lab-members", "Group"))
    used = notebook("nb", activity="2026-11-29T12:20:00Z", checked="2026-11-29T12:29:00+00:00", server_type="jupyter")
    used["spec"]["template"]["spec"]["containers"] = [
        container("istio-proxy"),
        {**container("nb", {"nvidia.com/gpu": "2", "cpu": "4"}), "image": "registry.example/jupyter:v1.9"},
    ]
    cluster.put(NOTEBOOKS, used)
    cluster.put(NOTEBOOKS, notebook("old", ready=0, stopped="2026-11-28T20:00:00Z"))
    cluster.put(NOTEBOOKS, notebook("odd", "lab", ready=0, activity="yesterday", server_type='a"b\n'))
    cluster.put(WORKFLOWS, workflow("train-1", "Succeeded", "run-1"))
    cluster.put(WORKFLOWS, workflow("train-2", "Running", "run-2"))
    cluster.put(WORKFLOWS, workflow("train-3", "Running", "run-3"))
    cluster.put(WORKFLOWS, workflow("new", None, "run-4"))
    cluster.put(WORKFLOWS, workflow("strange", "Pausing", "run-5", "lab"))
    cluster.put(WORKFLOWS, workflow("no-pipeline", "Running"))


def test_notebooks_profiles_and_runs_are_told_by_the_names_of_the_reference(world: World) -> None:
    fill(world.cluster)
    world.look()

    # 2026-11-29T12:20:00Z = 1795954800, 12:29 = +540 s; 2026-11-28T20:00:00Z = 1795896000
    assert world.series() == {
        'kubeflow_profile_info{profile="lab",owner="lab-members"}': 1,
        'kubeflow_profile_info{profile="team-a",owner="alice@example.org"}': 1,
        'kubeflow_notebook_info{namespace="lab",name="odd",owner="lab-members",image="registry.example/app:1",'
        'server_type="a\\"b\ufffd"}': 1,
        'kubeflow_notebook_running{namespace="lab",name="odd"}': 0,
        'kubeflow_notebook_info{namespace="team-a",name="nb",owner="alice@example.org",'
        'image="registry.example/jupyter:v1.9",server_type="jupyter"}': 1,
        'kubeflow_notebook_running{namespace="team-a",name="nb"}': 1,
        'kubeflow_notebook_last_activity_timestamp_seconds{namespace="team-a",name="nb"}': 1795954800,
        'kubeflow_notebook_last_activity_check_timestamp_seconds{namespace="team-a",name="nb"}': 1795955340,
        'kubeflow_notebook_gpus_requested{namespace="team-a",name="nb",resource="nvidia.com/gpu"}': 2,
        'kubeflow_notebook_info{namespace="team-a",name="old",owner="alice@example.org",'
        'image="registry.example/app:1"}': 1,
        'kubeflow_notebook_running{namespace="team-a",name="old"}': 0,
        'kubeflow_notebook_stopped_timestamp_seconds{namespace="team-a",name="old"}': 1795896000,
        'kubeflow_pipeline_runs{namespace="lab",state="unknown"}': 1,
        'kubeflow_pipeline_runs{namespace="team-a",state="pending"}': 1,
        'kubeflow_pipeline_runs{namespace="team-a",state="running"}': 2,
        'kubeflow_pipeline_runs{namespace="team-a",state="succeeded"}': 1,
    }


def test_workspaces_are_notebooks_of_the_second_kind(world: World) -> None:
    world.cluster.with_kubeflow()
    active = {"lastActivity": 1795954800, "lastUpdate": 1795955340}
    world.cluster.put(WORKSPACES, workspace("ws", activity=active))
    world.cluster.put(WORKSPACES, workspace("ms", activity={"lastActivity": 1795954800_000, "lastUpdate": 0}))
    world.cluster.put(WORKSPACES, workspace("off", state="Paused", pauseTime=1795896000))
    world.cluster.put(WORKSPACES, workspace("nb"))
    world.cluster.put(NOTEBOOKS, notebook("nb", ready=0))
    world.look()

    told, seen = world.series(), "kubeflow_notebook_last_activity_timestamp_seconds"
    names = ("ws", "ms", "off", "nb")  # the last is of both kinds: the first kind is shown
    running = [told[f'kubeflow_notebook_running{{namespace="team-a",name="{name}"}}'] for name in names]
    assert running == [1, 1, 0, 0]
    assert [line for line in told if line.startswith(seen)] == [
        f'{seen}{{namespace="team-a",name="{name}"}}' for name in ("ms", "ws")
    ]
    assert {value for line, value in told.items() if line.startswith(seen)} == {1795954800}
    assert told['kubeflow_notebook_last_activity_check_timestamp_seconds{namespace="team-a",name="ws"}'] == 1795955340
    assert told['kubeflow_notebook_stopped_timestamp_seconds{namespace="team-a",name="off"}'] == 1795896000
    info = 'kubeflow_notebook_info{namespace="team-a",name="ws",image="scipy_190",server_type="jupyterlab"}'
    assert told[info] == 1


def test_a_pod_of_a_workspace_tells_when_that_was_last_used(world: World) -> None:
    world.cluster.with_kubeflow()
    world.cluster.put(WORKSPACES, workspace("ws", activity={"lastActivity": 1795954800, "lastUpdate": 0}))
    made = {**owned("StatefulSet", "ws-x"), "labels": {"notebooks.kubeflow.org/workspace-name": "ws"}}
    world.cluster.put(PODS, pod("ws-x-0", metadata=made))
    world.look()

    (unit,) = world.manager.fetch_units(Span(NOW - timedelta(hours=1), world.clock.now))

    assert (unit.tags["kube_owner_kind"], unit.tags["workspace"]) == ("Workspace", "ws")
    assert (unit.tags["notebook_state"], unit.tags["notebook_last_activity_at"]) == ("running", "2026-11-29T12:20:00Z")


def test_without_kubeflow_there_is_nothing_and_no_error(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.look()

    assert isinstance(world.manager, ObservingManager)
    assert list(world.manager.samples("")) == []
    assert "not read" not in capfd.readouterr().out


def test_a_notebook_that_is_deleted_is_not_counted_any_more(world: World) -> None:
    fill(world.cluster)
    world.look()
    world.cluster.delete(NOTEBOOKS, "old", "team-a")
    world.look()

    assert not [line for line in world.series() if '"old"' in line]


def test_what_could_not_be_read_for_long_is_not_shown_as_if_it_were_so(world: World) -> None:
    fill(world.cluster)
    world.look()
    world.cluster.faults.forbidden.add(NOTEBOOKS)
    world.look()
    soon = world.series()
    for _ in range(3):
        world.look()

    assert [line for line in soon if line.startswith("kubeflow_notebook_running")]
    assert not [line for line in world.series() if line.startswith("kubeflow_notebook")]
    assert [line for line in world.series() if line.startswith("kubeflow_profile_info")]


def test_of_workflows_the_metadata_of_runs_alone_is_asked_for(world: World) -> None:
    fill(world.cluster)
    world.look()

    assert {query["labelSelector"] for query in world.cluster.asks(WORKFLOWS)} == {"pipeline/runid"}
    assert {accept for path, accept in world.cluster.accepts if path == WORKFLOWS} == {
        f"{METADATA_ONLY}, application/json"
    }


def test_a_pod_bears_the_name_of_its_run_and_not_that_of_another_namespace(world: World) -> None:
    fill(world.cluster)
    about = owned("Workflow", "train-2", pipeline__runid="run-2")
    world.cluster.put(PODS, pod("train-2-main", metadata=dict(about)))
    world.cluster.put(PODS, pod("forged", "lab", metadata=dict(about)))

    found = {one.name: one.tags for one in world.manager.fetch_units(Span(NOW - timedelta(hours=1), NOW))}

    assert found["train-2-main"]["pipeline_run_name"] == "train-2 of the week"
    assert "pipeline_run_name" not in found["forged"]


def test_several_clusters_are_told_apart_by_a_label(world: World) -> None:
    fill(world.cluster)
    world.look()

    assert 'kubeflow_profile_info{profile="lab",owner="lab-members",cluster="k1"} 1' in world.page(cluster="k1")


def test_parsers_and_promtool_read_it(world: World) -> None:
    fill(world.cluster)
    world.look()

    families = parse_openmetrics(world.page(Format.OPENMETRICS_1))  # type: ignore[no-untyped-call]
    assert {family.name for family in families} == {spec.family for spec in SPECS}
    assert len(list(parse_text(world.page()))) == len(SPECS)
    if shutil.which("promtool") is not None:
        page = world.page().encode()
        done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


JOINED = """
    promql_expr_test:
      - expr: kubeflow_notebook_running * on (namespace, name) group_left (owner) kubeflow_notebook_info
        eval_time: 1m
        exp_samples:
          - {labels: '{namespace="team-a", name="nb", owner="alice@example.org"}', value: 1}
          - {labels: '{namespace="team-a", name="old", owner="alice@example.org"}', value: 0}
          - {labels: '{namespace="lab", name="odd", owner="lab-members"}', value: 0}
      - expr: count by (namespace) (kubeflow_notebook_stopped_timestamp_seconds)
        eval_time: 1m
        exp_samples:
          - {labels: '{namespace="team-a"}', value: 1}
"""


@pytest.mark.service("promtool")
@pytest.mark.service("promtool")
def test_promtool_joins_a_notebook_with_its_owner(world: World, tmp_path: Path) -> None:
    fill(world.cluster)
    world.look()
    lines = {line.replace("\ufffd", "?"): value for line, value in world.series().items()}
    given = "".join(f"      - series: '{line}'\n        values: '{value:.0f}x9'\n" for line, value in lines.items())
    (tmp_path / "test.yaml").write_text(f"tests:\n  - interval: 1m\n    input_series:\n{given}{JOINED}")

    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_only_these_names_may_carry_what_a_scrape_sets() -> None:
    borrowed = {label for spec in SPECS for label in spec.labels} & FORBIDDEN_LABELS

    assert borrowed == {"namespace"}
