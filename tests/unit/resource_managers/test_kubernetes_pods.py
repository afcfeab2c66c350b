"""Pods as the API tells them → units."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubernetes_objects import STARTED, container, finished, namespace, node, owned, pod, profile

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerAllocation, ManagerUnit
from kwhere.devices.json_answer import parse_json
from kwhere.discovery.kubernetes_owners import top_owner
from kwhere.resource_managers.kubernetes_gpus import gpu_types
from kwhere.resource_managers.kubernetes_kubeflow import Kubeflow, read_owners
from kwhere.resource_managers.kubernetes_nodes import read_node, sum_allocations
from kwhere.resource_managers.kubernetes_notebooks import read_notebooks
from kwhere.resource_managers.kubernetes_pipelines import read_runs
from kwhere.resource_managers.kubernetes_pods import PodReader
from kwhere.resource_managers.kubernetes_quantities import parse_quantity
from kwhere.resource_managers.kubernetes_resources import allocation_of, pod_amounts
from kwhere.resource_managers.kubernetes_tenancy import (
    NamespaceKeys,
    Tenancy,
    read_members,
    read_tenants,
)
from kwhere.resource_managers.kubernetes_users import PodUsers

GIB = 1024**3
HASH = "d41d8cd98f00b204e9800998ecf8427e"
READER = PodReader("k1")


def read(item: Any) -> ManagerUnit:
    found = READER.read(item)
    assert found.unit is not None, found.why_not
    return found.unit


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("100m", "0.1"),
        ("1", "1"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("+2", "2"),
        ("0", "0"),
        ("1500u", "0.0015"),
        ("250000000n", "0.25"),
        ("1Gi", str(GIB)),
        ("1.5Gi", str(3 * GIB // 2)),
        ("128974848", "128974848"),
        ("129e6", "129000000"),
        ("129E6", "129000000"),
        ("129M", "129000000"),
        ("64k", "64000"),
        ("1E", "1" + "0" * 18),
        ("1Ei", str(1024**6)),
        ("1P", "1" + "0" * 15),
        ("1e-3", "0.001"),
        (8, "8"),
        (0.25, "0.25"),
        ("1K", None),
        ("1ki", None),
        ("1Zi", None),
        ("-1", None),
        ("", None),
        ("max", None),
        ("1 Gi", None),
        ("1e99", None),
        ("1Gi\n", None),
        ("٣", None),
        ("NaN", None),
        (math.nan, None),
        (math.inf, None),
        (True, None),
        (None, None),
        (["1"], None),
        ("9" * 40, None),
    ],
)
def test_quantities(text: Any, amount: str | None) -> None:
    assert parse_quantity(text) == (None if amount is None else Decimal(amount))


@given(st.text(max_size=30) | st.from_regex(r"[0-9.]{1,6}[a-zA-Z0-9+-]{0,4}"))
def test_any_text_is_a_quantity_or_none(text: str) -> None:
    found = parse_quantity(text)

    assert found is None or 0 <= found <= 2**63


def test_a_running_pod() -> None:
    unit = read(pod("web-0", uid="1a2b3c4d-0000-4000-8000-00000000000b"))

    assert unit == ManagerUnit(
        cluster="k1",
        manager="kubernetes",
        unit="1a2b3c4d-0000-4000-8000-00000000000b",
        run="1a2b3c4d-0000-4000-8000-00000000000b",
        state="running",
        started_at=datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC),
        submitted_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        name="web-0",
        project="team-a",
        nodes=("n1",),
        allocation=ManagerAllocation(nodes=1),
        queue="team-a",
        tags={"kube_namespace": "team-a", "kube_pod": "web-0", "qos": "burstable"},
    )


def mirror(**changes: Any) -> Any:
    annotations = {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH}
    return pod(
        "etcd-n1", "kube-system", metadata={**owned("Node", "n1"), "annotations": annotations, **changes}, node="n1"
    )


def test_a_static_pod_bears_the_uid_of_its_cgroup_and_a_run_of_its_start() -> None:
    unit = read(mirror())

    assert unit.unit == HASH
    assert unit.run == f"{HASH}@1795953605"


@pytest.mark.parametrize("by", ["nobody", "another node", "a ReplicaSet"])
def test_who_writes_the_annotation_of_static_pods_takes_no_others_unit(by: str) -> None:
    owner = {
        "nobody": {"ownerReferences": []},
        "another node": owned("Node", "n2"),
        "a ReplicaSet": owned("ReplicaSet", "n1"),
    }

    unit = read(mirror(uid="mine", **owner[by]))

    assert unit.unit == "mine"


@pytest.mark.parametrize(
    ("status", "state", "ended"),
    [
        (finished("Succeeded"), "succeeded", "13:00:00"),
        (finished("Failed", reason="OOMKilled", code=137), "failed", "13:00:00"),
        ({"phase": "Failed", "reason": "Evicted", "startTime": STARTED, "containerStatuses": [], "conditions": [
            {"type": "PodScheduled", "lastTransitionTime": "2026-11-29T12:00:01Z"},
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
             "lastTransitionTime": "2026-11-29T12:30:00Z"}]}, "evicted", "12:30:00"),
        ({**finished("Failed", reason="Error", code=143), "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
         "preempted", "13:00:00"),
        ({**finished("Failed", reason="Error", code=143), "conditions": [
            {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]}, "failed", "13:00:00"),
        ({**finished("Failed"), "reason": "Preempting"}, "preempted", "13:00:00"),
        ({**finished("Failed"), "reason": "NodeShutdown"}, "nodeshutdown", "13:00:00"),
        ({"phase": "Running", "startTime": STARTED, "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}, "running", None),
        ({"phase": "Failed", "reason": "NodeLost", "containerStatuses": None}, "nodelost", "12:00:05"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "containerStatuses": []},
         "unexpectedadmissionerror", "12:00:05"),
        ({"phase": "Unknown"}, "unknown", None),
        ({"phase": None}, "unknown", None),
        ({"phase": "Pending"}, "pending", None),
        ({**finished("Succeeded", at="garbage")}, "succeeded", "12:00:05"),
        ({**finished("Succeeded", at="2026-11-29T11:00:00Z")}, "succeeded", "12:00:05"),
    ],
)  # fmt: skip
def test_states_and_ends(status: Any, state: str, ended: str | None) -> None:
    unit = read(pod("p", status=status))

    assert unit.state == state
    assert (unit.ended_at and unit.ended_at.strftime("%H:%M:%S")) == ended


def test_a_pod_ends_with_its_last_container() -> None:
    status = finished("Succeeded", at="2026-11-29T13:00:00Z")
    status["containerStatuses"].append({"state": {"terminated": {"finishedAt": "2026-11-29T13:10:00+00:00"}}})
    status["initContainerStatuses"] = [{"state": {"terminated": {"finishedAt": "2026-11-29T12:01:00Z"}}}]

    assert read(pod("p", status=status)).ended_at == datetime(2026, 11, 29, 13, 10, tzinfo=UTC)


def test_why_containers_failed_is_told() -> None:
    status = {"containerStatuses": [
        {"restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
         "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-29T12:20:00Z"}}},
        {"restartCount": 1, "state": {"running": {}}}]}  # fmt: skip

    unit = read(pod("p", status=status))

    assert unit.state == "running"
    assert unit.ended_at is None
    assert unit.tags["reason"] == "CrashLoopBackOff, OOMKilled"
    assert unit.tags["restarts"] == "8"


@pytest.mark.parametrize(
    ("item", "why", "is_broken"),
    [
        (pod("p", node=""), "not begun on a node (Running)", False),
        (pod("p", status={"startTime": None, "phase": "Pending"}), "not begun on a node (Pending)", False),
        (pod("p", status={"startTime": "2026-11-29T12:00:05"}), "not begun on a node (Running)", True),
        (pod("", uid="u"), "expected an object with uid, namespace and name", True),
        ({}, "expected an object with uid, namespace and name", True),
        ("pod", "expected an object with uid, namespace and name", True),
    ],
)
def test_what_is_no_unit_says_why(item: Any, why: str, is_broken: bool) -> None:
    found = READER.read(item)

    assert (found.unit, found.why_not, found.is_broken) == (None, why, is_broken)


def given_to(*containers: Any, **spec: Any) -> ManagerAllocation:
    return allocation_of(pod_amounts(pod("p", spec={"containers": list(containers), **spec})))


def test_requests_are_added_up_over_containers() -> None:
    found = given_to(container("a", cpu="500m", memory="1Gi"), container("b", cpu="1", memory="512Mi"))

    assert (found.cpus, found.memory_bytes) == (1.5, 3 * GIB // 2)


def test_what_is_not_requested_is_its_limit_and_what_is_neither_is_unsaid() -> None:
    found = given_to(container("a", limits={"cpu": "2", "memory": "1Gi"}, memory="256Mi"), container("b"))

    assert (found.cpus, found.memory_bytes) == (2.0, GIB // 4)
    assert given_to(container("a")) == ManagerAllocation()


def test_the_largest_init_container_counts_and_a_sidecar_stays() -> None:
    # At first: proxy 0.1, then setup 4 beside it = 4.1. Later: main 2 + proxy 0.1 = 2.1, and memory 3 + 0.25.
    sidecar = {**container("proxy", cpu="100m", memory="256Mi"), "restartPolicy": "Always"}
    inits = [container("first", cpu="3"), sidecar, container("setup", cpu="4", memory="1Gi")]

    found = given_to(container("main", cpu="2", memory="3Gi"), initContainers=inits)

    assert (found.cpus, found.memory_bytes) == (4.1, 3 * GIB + GIB // 4)


def test_overhead_is_added_and_amounts_of_the_pod_as_a_whole_go_first() -> None:
    overhead = {"cpu": "250m", "memory": "120Mi"}

    plain = given_to(container("main", cpu="2"), overhead=overhead)
    whole = given_to(container("main", cpu="2"), resources={"requests": {"cpu": "3"}}, overhead=overhead)

    assert (plain.cpus, plain.memory_bytes) == (2.25, 120 << 20)
    assert whole.cpus == 3.25


def test_a_pod_that_was_resized_in_place_has_what_its_kubelet_says() -> None:
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}

    found = pod_amounts(pod("p", spec={"containers": [container("main", cpu="1", memory="1Gi")]}, status=status))

    assert found == {"cpu": Decimal(3), "memory": Decimal(GIB)}


@pytest.mark.parametrize(
    ("labels", "resource", "count", "gpus"),
    [
        ({}, "nvidia.com/gpu", "2", {"gpu": 2.0}),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "nvidia.com/gpu", "8", {"NVIDIA-H100-80GB-HBM3": 8.0}),
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}, "nvidia.com/gpu", "1",
         {"Tesla-T4": 0.25}),
        ({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.replicas": "4"}, "nvidia.com/gpu.shared", "2",
         {"Tesla-T4": 0.5}),
        ({"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.replicas": "many"}, "nvidia.com/gpu", "1", {"A100": 1.0}),
        ({}, "nvidia.com/mig-1g.10gb", "3", {"1g.10gb": 3.0}),
        ({}, "nvidia.com/mig-1g.10gb.me", "1", {"1g.10gb.me": 1.0}),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "amd.com/gpu", "1", {"AMD_Instinct_MI300X_OAM": 1.0}),
        ({"beta.amd.com/gpu.product-name.MI250X": "8"}, "amd.com/gpu", "1", {"MI250X": 1.0}),
        ({}, "gpu.intel.com/i915", "1", {"gpu": 1.0}),
        ({}, "habana.ai/gaudi", "8", {"gpu": 8.0}),
        ({}, "nvidia.com/gpu", "0", {}),
        ({}, "nvidia.com/gpumem", "4000", {}),
        ({}, "nvidia.com/gpumem-percentage", "50", {}),
        ({}, "nvidia.com/gpucores", "30", {}),
        ({}, "aliyun.com/gpu-mem", "8", {}),
        ({}, "ephemeral-storage", "1Gi", {}),
    ],
)  # fmt: skip
def test_case_users_18_gpus_by_model_and_what_only_looks_like_one(
    labels: dict[str, str], resource: str, count: str, gpus: dict[str, float]
) -> None:
    item = pod("p", spec={"containers": [{"name": "c", "resources": {"limits": {resource: count}}}]})

    assert allocation_of(pod_amounts(item), gpu_types(labels)).gpus == gpus


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({}, None),
        (owned("ReplicaSet", "web-7d9f6c5b8", pod_template_hash="7d9f6c5b8"), "Deployment/web"),
        (owned("ReplicaSet", "web-7d9f6c5b8"), "ReplicaSet/web-7d9f6c5b8"),
        (owned("ReplicaSet", "solo", pod_template_hash="7d9f6c5b8"), "ReplicaSet/solo"),
        (owned("StatefulSet", "db"), "StatefulSet/db"),
        (owned("DaemonSet", "exporter"), "DaemonSet/exporter"),
        (owned("Job", "train"), "Job/train"),
        (owned("Job", "backup-29932560"), "CronJob/backup"),  # 29932560 min = 2026-11-29T12:00Z
        (owned("Job", "backup-29932561"), "CronJob/backup"),
        (owned("Job", "sweep-20260101"), "Job/sweep-20260101"),
        (owned("Job", "run-12345"), "Job/run-12345"),
        (owned("PyTorchJob", "bert", training_kubeflow_org__x="y"), "PyTorchJob/bert"),
        (owned("TFJob", "mnist"), "TFJob/mnist"),
        ({**owned("Job", "mpi-launcher"), "labels": {"training.kubeflow.org/job-name": "mpi",
          "training.kubeflow.org/operator-name": "mpi-operator"}}, "MPIJob/mpi"),
        ({**owned("MPIJob", "mpi"), "labels": {"training.kubeflow.org/job-name": "mpi",
          "training.kubeflow.org/operator-name": "mpijob-controller"}}, "MPIJob/mpi"),
        ({**owned("Job", "llm-node-0"), "labels": {"jobset.sigs.k8s.io/jobset-name": "llm"}}, "JobSet/llm"),
        ({**owned("Job", "llm-node-0"), "labels": {"jobset.sigs.k8s.io/jobset-name": "llm",
          "trainer.kubeflow.org/trainjob-name": "llm"}}, "TrainJob/llm"),
        (owned("RayCluster", "ray"), "RayCluster/ray"),
        ({**owned("RayCluster", "ray-x7z"), "labels": {"ray.io/originated-from-crd": "RayJob",
          "ray.io/originated-from-cr-name": "tune"}}, "RayJob/tune"),
        (owned("Workflow", "pipeline-abc"), "Workflow/pipeline-abc"),
        ({**owned("StatefulSet", "nb"), "labels": {"notebook-name": "nb"}}, "Notebook/nb"),
        ({**owned("ReplicaSet", "llama-predictor-1-deployment-6f", pod_template_hash="6f"),
          "labels": {"serving.kserve.io/inferenceservice": "llama", "pod-template-hash": "6f"}},
         "InferenceService/llama"),
        ({**owned("ReplicaSet", "hello-00001-deployment-6f", pod_template_hash="6f"),
          "labels": {"serving.knative.dev/service": "hello", "pod-template-hash": "6f"}},
         "Service.serving.knative.dev/hello"),
        ({**owned("StatefulSet", "ws-x"), "labels": {"notebooks.kubeflow.org/workspace-name": "ws"}}, "Workspace/ws"),
        ({**owned("StatefulSet", "llm-0"), "labels": {"leaderworkerset.sigs.k8s.io/name": "llm"}},
         "LeaderWorkerSet/llm"),
        ({**owned("Pod", "pi-driver"), "labels": {"sparkoperator.k8s.io/app-name": "pi"}}, "SparkApplication/pi"),
        (owned("ReplicaSet", "web-6f", pod_template_hash="6f", rollouts_pod_template_hash="6f"), "Rollout/web"),
        ({**owned("Job", "tune-submit"), "labels": {"ray.io/originated-from-crd": "RayJob",
          "ray.io/originated-from-cr-name": "tune"}}, "RayJob/tune"),
        ({**owned("Workflow", "train-abc"), "labels": {"workflows.argoproj.io/workflow": "train-abc",
          "pipeline/runid": "r1"}}, "Workflow/train-abc"),
        (owned("VirtualMachineInstance", "vm1"), "VirtualMachineInstance/vm1"),
        (owned("Node", "n1"), "Node/n1"),
        ({"ownerReferences": [{"kind": "Job", "name": "a"}, {"kind": "Foo", "name": "b", "controller": True}]},
         "Foo/b"),
        ({"ownerReferences": [{"kind": "Job", "name": "a"}, {"kind": "Foo", "name": "b"}]}, None),
        ({"ownerReferences": "nonsense"}, None),
        ({"labels": {"notebook-name": "forged"}, "ownerReferences": []}, None),
    ],
)  # fmt: skip
def test_owners(metadata: Any, owner: str | None) -> None:
    found = top_owner(pod("p", metadata=metadata))

    assert (found and str(found)) == owner


def test_nodes() -> None:
    labels = {"node.kubernetes.io/instance-type": "m7i.16xlarge", "nvidia.com/gpu.product": "H100"}
    amounts = {"cpu": "63500m", "memory": "250Gi", "nvidia.com/gpu": "7"}
    capacity = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}
    item = node("n1", labels, status={"allocatable": amounts, "capacity": capacity}, spec={
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                   {"key": "team", "value": "ml", "effect": "NoSchedule"},
                   {"key": "soft", "effect": "PreferNoSchedule"}],
    })  # fmt: skip

    found = read_node(item)

    assert found is not None
    assert (found.name, found.type, found.state, found.is_schedulable) == (
        "n1",
        "m7i.16xlarge",
        "ready, cordoned",
        False,
    )
    assert (found.cpus, found.memory_bytes, found.gpus) == (63.5, 250 * GIB, {"H100": 7.0})
    assert found.reason == "cordoned; taint team=ml:NoSchedule; 1 of 8 GPUs H100 are not allocatable"


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([{"type": "Ready", "status": "True"}], "ready"),
        ([{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}], "not ready"),
        ([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}], "unknown"),
        ([], "unknown"),
        (None, "unknown"),
    ],
)
def test_states_of_nodes(conditions: Any, state: str) -> None:
    found = read_node(node(status={"conditions": conditions}))

    assert found is not None
    assert (found.state, found.is_schedulable) == (state, state == "ready")


def test_allocations_are_summed_and_what_nobody_says_stays_unsaid() -> None:
    one = ManagerAllocation(cpus=2, gpus={"H100": 1.0})

    assert sum_allocations([one, one, ManagerAllocation()]) == ManagerAllocation(cpus=4, gpus={"H100": 2.0})
    assert sum_allocations([]) == ManagerAllocation(cpus=0, memory_bytes=0)


KUBEFLOW = {"app.kubernetes.io/part-of": "kubeflow-profile"}


def test_whose_namespaces_are() -> None:
    namespaces = [
        namespace("alice"),
        namespace("lab"),
        namespace("bob", KUBEFLOW, {"owner": "bob@example.org"}),
        namespace("fake", {}, {"owner": "eve@example.org"}),
        namespace("paid", {"cost-centre": "4711", "team": "phys"}, {"contact": "carol"}),
    ]
    profiles = [profile("alice", "alice@example.org"), profile("lab", "lab-members", "Group")]
    keys = NamespaceKeys("contact", "cost-centre", "team")

    found = read_tenants(namespaces, profiles, keys)

    assert {name: (one.user, one.group, one.project) for name, one in found.items()} == {
        "alice": ("alice@example.org", None, None),
        "lab": (None, "lab-members", None),
        "bob": ("bob@example.org", None, None),
        "fake": (None, None, None),
        "paid": ("carol", "phys", "4711"),
    }


def test_case_ceems_540_members_are_those_of_now() -> None:
    binding: Any = {"metadata": {"namespace": "alice", "annotations": {"user": "dan@example.org", "role": "edit"}}}
    other: Any = {"metadata": {"namespace": "alice", "annotations": {"user": "x"}}}
    tenants = read_tenants(
        [namespace("alice"), namespace("empty")], [profile("alice", "alice@example.org")], NamespaceKeys()
    )

    found = Tenancy(tenants, members=read_members([binding, other])).accounts()

    assert [one.name for one in found.accounts] == ["alice", "empty"]
    assert [(one.user, one.project) for one in found.memberships] == [
        ("alice@example.org", "alice"),
        ("dan@example.org", "alice"),
    ]


@pytest.mark.parametrize(
    ("annotations", "ready", "tags"),
    [
        ({"notebooks.kubeflow.org/last-activity": "2026-11-29T11:00:00Z"}, 1,
         {"notebook_state": "running", "notebook_last_activity_at": "2026-11-29T11:00:00Z"}),
        ({}, 0, {"notebook_state": "starting"}),
        ({"kubeflow-resource-stopped": "2026-11-29T12:30:00Z", "notebooks.kubeflow.org/last-activity": "?"}, 1,
         {"notebook_state": "stopped", "notebook_stopped_at": "2026-11-29T12:30:00Z"}),
        ({"kubeflow-resource-stopped": "yes"}, None, {"notebook_state": "stopped"}),
    ],
)  # fmt: skip
def test_notebooks(annotations: dict[str, str], ready: int | None, tags: dict[str, str]) -> None:
    item: Any = {
        "metadata": {"name": "nb", "namespace": "team-a", "annotations": annotations},
        "status": {"readyReplicas": ready},
    }
    unit = read(pod("nb-0", metadata={**owned("StatefulSet", "nb"), "labels": {"notebook-name": "nb"}}))

    found = Tenancy(notebooks=read_notebooks([item])).of(unit)

    assert {key: word for key, word in found.tags.items() if key.startswith("notebook_")} == tags


def test_a_stamped_user_goes_before_the_owner_of_the_namespace() -> None:
    reader = PodReader("k1", users=PodUsers("site.example/user"))
    stamped = reader.read(pod("p", metadata={"annotations": {"site.example/user": "dan"}})).unit
    tenancy = Tenancy(read_tenants([], [profile("team-a", "alice")], NamespaceKeys()))

    assert stamped is not None
    assert tenancy.of(stamped).user == "dan"
    assert tenancy.of(read(pod("q"))).user == "alice"


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from([STARTED, "1Gi"])
)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
)


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A pod or node in which some member is anything else."""
    item: Any = draw(st.sampled_from([mirror(), pod("p", status=finished("Failed")), node(), profile("a", "b")]))
    item = json.loads(json.dumps(item))
    place = item
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            place[key] = draw(ANY)
            return item
        place = inner


@given(spoiled() | ANY)
def test_any_object_is_a_unit_or_says_why_not(item: Any) -> None:
    found = READER.read(item)

    assert (found.unit is None) == bool(found.why_not)
    assert found.unit is None or (found.unit.unit and "/" not in found.unit.unit)
    assert found.unit is None or found.unit.ended_at is None or found.unit.ended_at >= found.unit.started_at
    read_node(item)
    tenants, notebooks = read_tenants([item], [item], NamespaceKeys("a", "b", "c")), read_notebooks([item])
    Tenancy(tenants, notebooks, read_runs([item]), read_members([item])).accounts()
    list(Kubeflow(read_owners([item]), notebooks, read_runs([item])).samples(""))


@given(st.binary(max_size=200).map(lambda noise: b'{"metadata": {"uid": "' + noise))
def test_any_bytes_are_an_object_or_an_error_of_ours(data: bytes) -> None:
    try:
        found = READER.read(parse_json(data, "pod"))
    except SourceError:
        return
    assert found.unit is None
