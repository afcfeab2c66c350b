"""A cluster as the server asks it: what lived within a span, through everything that goes wrong in between."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs
from tests.emission_services import HandClock
from tests.kubernetes_api import (
    NAMESPACES,
    NODES,
    NOTEBOOKS,
    PODS,
    PROFILES,
    ROLE_BINDINGS,
    TOKEN,
    WORKFLOWS,
    FakeKubernetes,
    kubernetes,
)
from tests.kubernetes_objects import container, finished, namespace, node, owned, pod, profile

from kwhere.core.errors import Unavailable
from kwhere.core.managed import ManagerUnit
from kwhere.core.timespan import Span
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.resource_managers.resource_manager import WatchingManager
from kwhere.transport.settings import HttpClientSettings

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=30)


class World:
    """A cluster, its manager and its clock."""

    def __init__(self, cluster: FakeKubernetes) -> None:
        self.cluster = cluster
        self.cluster.longest_watch_seconds = 0.02
        self.clock = HandClock(LATER)
        self.managers: list[KubernetesManager] = []
        self.manager = self.restart()

    def restart(self, **settings: object) -> KubernetesManager:
        """Return a manager that remembers nothing."""
        chosen = KubernetesSettings(manager="kubernetes", cluster="k1", page_size=2, **settings)  # type: ignore[arg-type]
        access = Access(self.cluster.url, HttpClientSettings(), TOKEN)
        source = KubernetesApi(access, self.clock, lambda seconds: self.clock.ahead(seconds=seconds), page_size=2)
        self.manager = KubernetesManager(chosen, source, self.clock)
        self.managers.append(self.manager)
        return self.manager

    def units(self, start: datetime = NOON, end: datetime | None = None) -> dict[str, ManagerUnit]:
        """Return the units of a span, until now unless told, by name of their pod."""
        found = self.manager.fetch_units(Span(start, end or self.clock.now))
        return {unit.name or "": unit for unit in found}

    def later(self, **parts: float) -> None:
        self.clock.ahead(**parts)


@pytest.fixture
def world() -> Iterator[World]:
    with kubernetes() as cluster:
        made = World(cluster)
        yield made
        for manager in made.managers:
            manager.close()


def test_the_manager_also_watches(world: World) -> None:
    assert isinstance(world.manager, WatchingManager)


def test_pods_of_a_span(world: World) -> None:
    world.cluster.put(PODS, pod("runs"))
    world.cluster.put(PODS, pod("ended", status=finished("Succeeded", "2026-11-29T12:10:00Z")))
    world.cluster.put(PODS, pod("waits", node=""))

    assert set(world.units()) == {"runs", "ended"}
    assert set(world.units(NOON + timedelta(minutes=11))) == {"runs"}
    assert set(world.units(NOON - timedelta(hours=6), NOON)) == set()


def test_past_windows_are_answered_from_memory(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    world.units()
    asked = len(world.cluster.asked)

    for hours in range(1, 50):
        world.units(LATER - timedelta(hours=hours + 1), LATER - timedelta(hours=hours))

    assert len(world.cluster.asked) == asked


def test_a_pod_that_was_deleted_between_two_looks_is_not_lost(world: World) -> None:
    world.units()
    world.cluster.put(PODS, pod("short"))
    world.cluster.put(PODS, pod("short", status=finished("Failed", "2026-11-29T12:31:00Z")))
    world.cluster.put(PODS, pod("killed"))
    world.later(minutes=5)
    for name in ("short", "killed"):
        world.cluster.delete(PODS, name, "team-a")

    found = world.units()

    assert (found["short"].state, found["short"].ended_at) == ("failed", datetime(2026, 11, 29, 12, 31, tzinfo=UTC))
    assert (found["killed"].state, found["killed"].ended_at) == ("deleted", world.clock.now)
    assert len(world.cluster.asks(PODS, limit="2")) == 1  # the rest came by watch


@pytest.mark.parametrize(
    ("reason", "state"),
    [("PreemptionByScheduler", "preempted"), ("EvictionByEvictionAPI", "evicted"), ("Unheard", "deleted")],
)
def test_a_pod_that_was_driven_out_says_how(world: World, reason: str, state: str) -> None:
    world.cluster.put(PODS, pod("p"))
    world.units()
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    world.cluster.put(PODS, pod("p", status={"conditions": conditions}))
    world.cluster.delete(PODS, "p", "team-a")
    world.later(minutes=1)

    found = world.units()["p"]

    assert (found.state, found.ended_at, found.tags["reason"]) == (state, world.clock.now, reason)


@pytest.mark.parametrize("by_event", [False, True])
def test_after_410_all_is_listed_anew_and_who_is_missing_has_ended(world: World, by_event: bool) -> None:
    world.cluster.put(PODS, pod("stays"))
    world.cluster.put(PODS, pod("goes"))
    world.units()
    world.cluster.delete(PODS, "goes", "team-a")
    world.cluster.put(PODS, pod("new"))
    world.cluster.forget()
    world.cluster.faults.error_event = by_event
    world.later(minutes=10)

    found = world.units()

    assert {name: (one.state, one.ended_at) for name, one in found.items()} == {
        "stays": ("running", None),
        "new": ("running", None),
        "goes": ("deleted", world.clock.now),
    }


def test_nonsense_from_a_watch_leads_to_a_list(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    world.units()
    world.cluster.put(PODS, pod("q"))
    world.cluster.faults.garbage = True
    world.later(minutes=1)

    with capture_logs() as logs:
        found = world.units()

    assert set(found) == {"p", "q"}
    assert [line["event"] for line in logs] == ["kubernetes objects are not read"]


def test_an_outage_of_the_api_loses_nothing(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    world.units()
    world.cluster.faults.status = 503
    world.later(minutes=1)
    with pytest.raises(Unavailable):
        world.units()
    world.cluster.put(PODS, pod("meanwhile"))
    world.cluster.delete(PODS, "p", "team-a")
    world.cluster.faults.status = 0
    world.later(minutes=1)

    found = world.units()

    assert (found["meanwhile"].state, found["p"].state) == ("running", "deleted")


def test_the_same_question_has_the_same_answer(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    end = world.clock.now

    assert world.units(end=end) == world.units(end=end)


def test_a_mirror_pod_that_is_made_anew_is_still_one_unit_that_runs(world: World) -> None:
    about = owned("Node", "n1") | {
        "annotations": {"kubernetes.io/config.mirror": "d" * 32, "kubernetes.io/config.hash": "d" * 32}
    }
    world.cluster.put(PODS, pod("etcd-n1", "kube-system", uid="first", metadata=dict(about)))
    world.units()
    world.cluster.delete(PODS, "etcd-n1", "kube-system")
    world.cluster.put(PODS, pod("etcd-n1", "kube-system", uid="second", metadata=dict(about)))
    world.later(minutes=1)

    found = list(world.manager.fetch_units(Span(NOON, world.clock.now)))

    assert {unit.run for unit in found} == {f"{'d' * 32}@1795953605"}
    assert found[-1].ended_at is None  # of two records of one run the later stands


def test_an_object_that_cannot_be_read_is_skipped_and_told_once(world: World) -> None:
    for number in range(3):
        world.cluster.put(PODS, {"metadata": {"name": f"odd{number}", "namespace": ""}})
    world.cluster.put(PODS, pod("p"))

    with capture_logs() as logs:
        assert set(world.units()) == {"p"}

    told = [line for line in logs if line["log_level"] == "warning"]
    assert len(told) <= 2  # one per page at most
    assert "expected an object with uid, namespace and name" in told[0]["error"]


def kubeflow(world: World) -> None:
    world.cluster.with_kubeflow()
    world.cluster.put(NAMESPACES, namespace("team-a"))
    world.cluster.put(NAMESPACES, namespace("team-b"))
    world.cluster.put(PROFILES, profile("team-a", "alice@example.org"))
    world.cluster.put(PROFILES, profile("team-b", "b-members", "Group"))
    world.cluster.put(
        NOTEBOOKS,
        {
            "metadata": {
                "name": "nb",
                "namespace": "team-a",
                "annotations": {"notebooks.kubeflow.org/last-activity": "2026-11-29T12:20:00Z"},
            },
            "status": {"readyReplicas": 1},
        },
    )
    about = owned("StatefulSet", "nb", notebook_name="nb")
    world.cluster.put(PODS, pod("nb-0", metadata=about))
    world.cluster.put(PODS, pod("web-0", "team-b"))


def test_kubeflow_says_whose_pods_are_and_what_notebooks_do(world: World) -> None:
    kubeflow(world)

    found = world.units()

    assert (found["nb-0"].user, found["nb-0"].project) == ("alice@example.org", "team-a")
    assert (found["web-0"].user, found["web-0"].group) == (None, "b-members")
    assert dict(found["nb-0"].tags) == {
        "kube_namespace": "team-a",
        "kube_pod": "nb-0",
        "kube_owner": "nb",
        "kube_owner_kind": "Notebook",
        "notebook": "nb",
        "notebook_state": "running",
        "notebook_last_activity_at": "2026-11-29T12:20:00Z",
        "qos": "burstable",
    }


def test_case_ceems_540_who_is_taken_from_a_project_is_no_member_any_more(world: World) -> None:
    kubeflow(world)
    binding = {"name": "user-dan", "namespace": "team-a", "annotations": {"user": "dan@example.org", "role": "edit"}}
    world.cluster.put(ROLE_BINDINGS, {"metadata": binding})
    before = world.manager.fetch_accounts()
    world.cluster.delete(ROLE_BINDINGS, "user-dan", "team-a")
    world.later(minutes=6)

    after = world.manager.fetch_accounts()

    assert [(one.user, one.project) for one in before.memberships] == [
        ("alice@example.org", "team-a"),
        ("dan@example.org", "team-a"),
    ]
    assert [one.user for one in after.memberships] == ["alice@example.org"]
    assert [one.name for one in after.accounts] == ["team-a", "team-b"]


def test_with_the_right_to_list_pods_alone_pods_are_still_accounted(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    world.cluster.faults.forbidden |= {NODES, NAMESPACES, PROFILES, NOTEBOOKS, ROLE_BINDINGS, WORKFLOWS}

    with capture_logs() as logs:
        found = world.units()

    assert (found["p"].project, found["p"].user) == ("team-a", None)
    assert {line["of"] for line in logs} == {NODES, NAMESPACES, PROFILES, NOTEBOOKS, ROLE_BINDINGS, WORKFLOWS}


def test_case_users_45_without_the_right_to_list_pods_it_is_an_error(world: World) -> None:
    world.cluster.faults.forbidden.add(PODS)

    with pytest.raises(Unavailable, match="not permitted") as caught:
        world.units()

    assert caught.value.reason == "permission"


def gpu_pod(name: str, where: str, count: str) -> dict[str, object]:
    limits = {"nvidia.com/gpu": count}
    return pod(name, node=where, spec={"containers": [container("c", limits, cpu="8", memory="64Gi")]})


def test_nodes_and_what_is_given_of_them(world: World) -> None:
    h100 = {"nvidia.com/gpu.product": "H100"}
    amounts = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}
    world.cluster.put(NODES, node("n1", h100, status={"allocatable": amounts, "capacity": amounts}))
    world.cluster.put(NODES, node("n2"))
    world.cluster.put(PODS, gpu_pod("a", "n1", "2"))
    world.cluster.put(PODS, gpu_pod("b", "n1", "1"))
    done = gpu_pod("done", "n1", "4")
    done["status"] = finished("Succeeded")
    world.cluster.put(PODS, done)

    first, second = world.manager.fetch_nodes()

    assert first.allocated is not None
    assert second.allocated is not None
    assert (first.gpus, first.allocated.gpus) == ({"H100": 8.0}, {"H100": 3.0})
    assert (first.cpus, first.allocated.cpus, first.allocated.memory_bytes) == (64.0, 16.0, 128 * 1024**3)
    assert (second.allocated.cpus, second.allocated.gpus) == (0, {})


def test_a_node_that_joined_has_its_gpus_named(world: World) -> None:
    world.units()
    world.cluster.put(NODES, node("n9", {"nvidia.com/gpu.product": "H100"}))
    world.cluster.put(PODS, gpu_pod("a", "n9", "1"))
    world.later(minutes=1)

    assert world.units()["a"].allocation.gpus == {"H100": 1.0}


def test_pods_of_a_node_that_is_gone_are_no_reason_to_ask_again_and_again(world: World) -> None:
    world.manager = world.restart(tenancy_seconds=3600)
    world.cluster.put(PODS, pod("left", node="gone"))
    world.units()
    for minutes in range(10):
        world.later(minutes=1)
        world.cluster.put(PODS, pod("left", node="gone", metadata={"labels": {"at": str(minutes)}}))
        world.units()

    assert len(world.cluster.asks(NODES)) == 2  # at first, and once for the node that is not there


def test_a_watch_tells_changes_and_goes_on_where_it_ended(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    world.cluster.put(PODS, pod("done", status=finished("Succeeded")))
    all_there_are = world.manager.watch(None)
    world.cluster.put(PODS, pod("q"))
    changed = world.manager.watch(all_there_are.cursor)
    world.cluster.delete(PODS, "p", "team-a")
    world.restart()
    after_restart = world.manager.watch(changed.cursor)

    assert all_there_are.is_relisted
    assert {unit.name for unit in all_there_are.units} == {"p", "done"}
    assert not changed.is_relisted
    assert [unit.name for unit in changed.units] == ["q"]
    assert [(unit.name, unit.state) for unit in after_restart.units] == [("p", "deleted")]
    assert set(world.units()) == {"p", "q", "done"}


def test_a_watch_tells_of_pods_whose_namespace_became_anothers(world: World) -> None:
    kubeflow(world)
    first = world.manager.watch(None)
    quiet = world.manager.watch(first.cursor)
    world.cluster.put(PROFILES, profile("team-a", "zoe@example.org"))
    world.later(minutes=6)
    changed = world.manager.watch(quiet.cursor)
    again = world.manager.watch(changed.cursor)

    assert quiet.units == ()
    assert [(unit.name, unit.user) for unit in changed.units] == [("nb-0", "zoe@example.org")]
    assert again.units == ()


def test_a_server_that_was_restarted_tells_of_all_pods_once(world: World) -> None:
    kubeflow(world)
    cursor = world.manager.watch(None).cursor
    world.cluster.put(PROFILES, profile("team-a", "zoe@example.org"))
    world.restart()
    partly = world.manager.watch(cursor)
    world.manager.fetch_nodes()  # lists all pods
    whole = world.manager.watch(partly.cursor)
    quiet = world.manager.watch(whole.cursor)

    assert partly.units == ()
    assert {unit.name: unit.user for unit in whole.units} == {"nb-0": "zoe@example.org", "web-0": None}
    assert quiet.units == ()


def test_a_cursor_that_is_forgotten_is_a_relist(world: World) -> None:
    cursor = world.manager.watch(None).cursor
    world.cluster.put(PODS, pod("p"))
    world.cluster.forget()
    world.restart()

    changes = world.manager.watch(cursor)

    assert changes.is_relisted
    assert [unit.name for unit in changes.units] == ["p"]


def test_a_deletion_heard_of_late_ended_when_its_containers_did(world: World) -> None:
    for name in ("done", "killed", "stuck"):
        world.cluster.put(PODS, pod(name))
    cursor = world.manager.watch(None).cursor
    world.cluster.put(PODS, pod("done", status=finished("Running", "2026-11-29T12:31:00Z")))
    world.cluster.put(PODS, pod("killed", metadata={"deletionTimestamp": "2026-11-29T12:32:00Z"}))
    world.cluster.put(PODS, pod("stuck", metadata={"deletionTimestamp": "2026-11-29T23:00:00Z"}))
    for name in ("done", "killed", "stuck"):
        world.cluster.delete(PODS, name, "team-a")
    world.later(hours=2)
    world.restart()

    ended = {unit.name: unit.ended_at for unit in world.manager.watch(cursor).units}

    minute = datetime(2026, 11, 29, 12, 31, tzinfo=UTC)
    assert ended == {"done": minute, "killed": minute + timedelta(minutes=1), "stuck": world.clock.now}


def test_pods_that_wait_are_told_with_their_reason(world: World) -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes\n fit"}
    status = {"phase": "Pending", "startTime": None, "conditions": [unschedulable], "containerStatuses": []}
    limits = {"nvidia.com/gpu": "2"}
    spec = {"priority": 7, "containers": [container("c", limits, cpu="8", memory="64Gi")]}
    world.cluster.put(PODS, pod("big", node="", uid="u1", status=status, spec=spec))
    gated = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    world.cluster.put(PODS, pod("gated", node="", uid="u2", status=status, spec=gated))
    world.cluster.put(PODS, pod("runs"))
    cursor = world.manager.watch(None).cursor

    queue = world.manager.fetch_queue()

    big, second = sorted(queue.waiting, key=lambda unit: unit.unit)
    assert (big.unit, big.state, big.name, big.project) == ("u1", "pending", "big", "team-a")
    assert (big.reason, big.priority) == ("Unschedulable: 0/3 nodes fit", 7.0)
    assert (big.asked.cpus, big.asked.gpus, big.asked.nodes) == (8.0, {"gpu": 2.0}, 1)
    assert second.reason == "gated by kueue.x-k8s.io/admission"
    assert queue.living is None
    world.cluster.put(PODS, pod("big", uid="u1"))
    world.cluster.delete(PODS, "gated", "team-a")
    world.manager.watch(cursor)
    assert world.manager.fetch_queue().waiting == ()


def test_a_cursor_of_another_server_is_no_reason_to_trust_an_older_memory(world: World) -> None:
    world.cluster.put(NODES, node("n1"))
    world.manager.watch(None)
    world.cluster.put(PODS, gpu_pod("p", "n1", "1"))
    elsewhere = World(world.cluster)
    cursor = elsewhere.manager.watch(None).cursor
    elsewhere.manager.close()

    world.manager.watch(cursor)

    (n1,) = world.manager.fetch_nodes()
    assert n1.allocated is not None
    assert n1.allocated.cpus == 8.0


def test_pods_that_cannot_be_read_are_not_gone(world: World) -> None:
    odd = pod("odd", uid="u-odd")
    odd["status"]["startTime"] = "yesterday"
    world.cluster.put(PODS, odd)

    changes = world.manager.watch(None)

    assert (changes.units, changes.unread) == ((), frozenset({"u-odd"}))


def test_pods_that_are_gone_are_forgotten_in_time(world: World) -> None:
    world.cluster.put(PODS, pod("p"))
    world.units()
    world.cluster.delete(PODS, "p", "team-a")
    world.later(minutes=1)
    assert set(world.units()) == {"p"}
    world.later(hours=25)
    world.units()

    assert set(world.units()) == set()


def test_the_token_is_in_no_description() -> None:
    access = Access("https://api.example", HttpClientSettings(), TOKEN)

    assert TOKEN not in repr(access)
