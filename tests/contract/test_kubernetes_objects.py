"""Objects that no good cluster has, and odd ones that it has: each is read, and none keeps another from the account."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.account_site import SITE, Site
from tests.journals import T0_NS
from tests.kubernetes_objects import STARTED, container, finished, owned, pod
from tests.managed_site import turn_of

from kwhere.core.managed import ManagerUnit
from kwhere.database.managed_units import write_units
from kwhere.database.records import UnitQuery
from kwhere.database.waiting import write_queue
from kwhere.resource_managers.kubernetes_pods import Pod, PodReader
from kwhere.resource_managers.kubernetes_quantities import parse_quantity
from kwhere.resource_managers.kubernetes_users import PodUsers

GIB = 2**30
READER = PodReader("c1", users=PodUsers("site.example/user"))
START = datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC)
NO_TIME: tuple[Any, ...] = (
    None,
    "",
    "yesterday",
    "2026-11-29T12:00:05",
    "2026-13-29T12:00:05Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2500-01-01T00:00:00Z",
    1764417605,
    True,
    [],
    {},
    "2026-11-29T12:00:05Z" * 50,
)
QUANTITIES: dict[Any, float | None] = {
    "1": 1,
    "1000m": 1,
    "500m": 0.5,
    "0": 0,
    "1u": 1e-6,
    "1n": 1e-9,
    "1k": 1e3,
    "1M": 1e6,
    "1G": 1e9,
    "1T": 1e12,
    "1P": 1e15,
    "1E": 1e18,
    "1Ki": 1024,
    "1Mi": 2**20,
    "1Gi": 2**30,
    "1Ti": 2**40,
    "1Pi": 2**50,
    "1Ei": 2**60,
    "1e3": 1000,
    "1E3": 1000,
    "1e-3": 0.001,
    "0.1Gi": 107374182.4,
    ".5": 0.5,
    "1.": 1,
    "+1": 1,
    2: 2,
    1.5: 1.5,
    "-1": None,
    "-1Gi": None,
    "1 Gi": None,
    " 1": None,
    "1KiB": None,
    "1K": None,
    "1ki": None,
    "1gi": None,
    "1GI": None,
    "Gi": None,
    "": None,
    "e3": None,
    "1e": None,
    "0x10": None,
    "1,5": None,
    "1_000": None,
    "NaN": None,
    "Infinity": None,
    "1e99": None,
    "9" * 40: None,
    "٣": None,
    "１": None,
    None: None,
    True: None,
    "1Gi\n": None,
    "9223372036854775807": float(2**63),
    "9223372036854775808": None,
}


@pytest.mark.parametrize(("written", "amount"), QUANTITIES.items())
def test_quantities_are_those_that_kubernetes_writes(written: Any, amount: float | None) -> None:
    found = parse_quantity(written)

    assert (None if found is None else float(found)) == amount


def references(*owners: Any) -> Any:
    return pod("p", metadata={"ownerReferences": list(owners)})


def by(kind: Any, name: Any = "x", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", **more}


OWNERS: dict[str, tuple[Any, tuple[str, str] | None]] = {
    "none": (pod("p"), None),
    "null": (pod("p", metadata={"ownerReferences": None}), None),
    "text": (pod("p", metadata={"ownerReferences": "Job"}), None),
    "mapping": (pod("p", metadata={"ownerReferences": by("Job")}), None),
    "empty": (references(), None),
    "no members": (references({}), None),
    "null member": (references(None), None),
    "no kind": (references({"name": "x", "controller": True}), None),
    "no name": (references({"kind": "Job", "controller": True}), None),
    "name of another type": (references(by("Job", 7, controller=True)), None),
    "itself": (references(by("Pod", "p", controller=True)), ("Pod", "p")),
    "a kind nobody knows": (references(by("Frobnicator", controller=True)), ("Frobnicator", "x")),
    "a kind of another namespace": (references(by("Job", "other/x", controller=True)), ("Job", "other/x")),
    "an owner that controls nothing": (references(by("Job", controller=False)), ("Job", "x")),
    "two that control nothing": (references(by("Job"), by("Job", "y")), None),
    "two controllers": (references(by("Job", controller=True), by("Job", "y", controller=True)), ("Job", "x")),
    "controller by a word": (references(by("Job", controller="true"), by("Job", "y")), None),
    "a kind of 10 kB": (references(by("K" * 10_000, controller=True)), ("K" * 10_000, "x")),
    "a ReplicaSet without a hash": (references(by("ReplicaSet", "web", controller=True)), ("ReplicaSet", "web")),
    "a ReplicaSet whose name is the hash": (
        pod("p", metadata=owned("ReplicaSet", "-7d9", pod_template_hash="7d9")),
        ("ReplicaSet", "-7d9"),
    ),
    "a Job far from its minute": (references(by("Job", "x-99999999", controller=True)), ("Job", "x-99999999")),
    "a Job of a minute that is none": (
        references(by("Job", "x-999999999999", controller=True)),
        ("Job", "x-999999999999"),
    ),
    "a label of KServe on a bare pod": (
        pod("p", metadata={"labels": {"serving.kserve.io/inferenceservice": "m"}}),
        ("InferenceService", "m"),
    ),
    "a label of KServe below a DaemonSet": (
        pod("p", metadata={**owned("DaemonSet", "d"), "labels": {"serving.kserve.io/inferenceservice": "m"}}),
        ("DaemonSet", "d"),
    ),
    "labels that are no text": (pod("p", metadata={"labels": {"notebook-name": 7, "a": None}}), None),
    "labels as a list": (pod("p", metadata={"labels": ["notebook-name"]}), None),
    "an operator nobody knows": (
        pod(
            "p",
            metadata={"labels": {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/operator-name": "?"}},
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", OWNERS)
def test_makers(name: str) -> None:
    item, expected = OWNERS[name]

    unit = unit_of(READER.read(item))

    found = (unit.tags.get("kube_owner_kind"), unit.tags.get("kube_owner"))
    assert found == (expected or (None, None))


def unit_of(found: Pod) -> ManagerUnit:
    assert found.unit is not None, found.why_not
    return found.unit


def asking(*containers: Any, **spec: Any) -> Any:
    return pod("p", spec={"containers": list(containers), **spec})


def sized(kind: str = "requests", **amounts: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {kind: amounts}}


SIDECAR = {**container("s", cpu="1"), "restartPolicy": "Always"}
AMOUNTS: dict[str, tuple[Any, float | None, int | None]] = {
    "no containers": (asking(), None, None),
    "containers as a mapping": (pod("p", spec={"containers": {"name": "main"}}), None, None),
    "null containers": (pod("p", spec={"containers": None}), None, None),
    "no resources": (asking({"name": "main"}), None, None),
    "null resources": (asking({"name": "main", "resources": None}), None, None),
    "resources as a list": (asking({"name": "main", "resources": ["cpu"]}), None, None),
    "a request below 0": (asking(sized(cpu="-1", memory="1Gi")), None, GIB),
    "a request of 0": (asking(sized(cpu="0", memory="0")), 0.0, 0),
    "a request that is a list": (asking(sized(cpu=["1"], memory="1Gi")), None, GIB),
    "a limit alone": (asking(sized("limits", cpu="2", memory="1Gi")), 2.0, GIB),
    "a request and a larger limit": (
        asking({"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}}),
        1.0,
        None,
    ),
    "a request without quotes": (asking(sized(cpu=2, memory=GIB)), 2.0, GIB),
    "a thousandth of a byte": (asking(sized(memory="1m")), None, 0),
    "an init container that is larger": (asking(sized(cpu="1"), initContainers=[container("i", cpu="3")]), 3.0, None),
    "init containers one after the other": (
        asking(sized(cpu="1"), initContainers=[container("i", cpu="3"), container("j", cpu="2")]),
        3.0,
        None,
    ),
    "a sidecar stays": (asking(sized(cpu="1"), initContainers=[SIDECAR]), 2.0, None),
    "an init container after a sidecar": (
        asking(sized(cpu="1"), initContainers=[SIDECAR, container("i", cpu="3")]),
        4.0,
        None,
    ),
    "an init container before a sidecar": (
        asking(sized(cpu="1"), initContainers=[container("i", cpu="3"), SIDECAR]),
        3.0,
        None,
    ),
    "a sidecar by another word": (
        asking(sized(cpu="1"), initContainers=[{**SIDECAR, "restartPolicy": "always"}]),
        1.0,
        None,
    ),
    "overhead": (asking(sized(cpu="1"), overhead={"cpu": "250m", "memory": "120Mi"}), 1.25, 120 * 2**20),
    "overhead below 0": (asking(sized(cpu="1"), overhead={"cpu": "-1"}), 1.0, None),
    "amounts of the pod as a whole": (asking(sized(cpu="1"), resources={"requests": {"cpu": "3"}}), 3.0, None),
    "ephemeral containers ask for nothing": (
        asking(sized(cpu="1"), ephemeralContainers=[container("e", cpu="9")]),
        1.0,
        None,
    ),
    "1000 containers": (asking(*[container(f"c{at}", cpu="1m") for at in range(1000)]), 1.0, None),
    "two containers of one name": (asking(sized(cpu="1"), sized(cpu="1")), 2.0, None),
    "a resized one": (
        pod(
            "p",
            spec={"containers": [container("main", cpu="1")]},
            status={"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]},
        ),
        3.0,
        None,
    ),
    "a resize that says nothing": (
        pod(
            "p",
            spec={"containers": [container("main", cpu="1")]},
            status={"containerStatuses": [{"name": "main", "resources": {}}]},
        ),
        1.0,
        None,
    ),
    "a resize of a container that is not there": (
        pod(
            "p",
            spec={"containers": [container("main", cpu="1")]},
            status={"containerStatuses": [{"name": "other", "resources": {"requests": {"cpu": "3"}}}]},
        ),
        1.0,
        None,
    ),
}


@pytest.mark.parametrize("name", AMOUNTS)
def test_what_a_pod_holds(name: str) -> None:
    item, cpus, memory = AMOUNTS[name]

    found = unit_of(READER.read(item)).allocation

    assert (found.cpus, found.memory_bytes) == (cpus, memory)


GPUS: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "one": ({"nvidia.com/gpu": "1"}, {"gpu": 1.0}),
    "none": ({"nvidia.com/gpu": "0"}, {}),
    "below 0": ({"nvidia.com/gpu": "-1"}, {}),
    "no number": ({"nvidia.com/gpu": "all"}, {}),
    "MIG": ({"nvidia.com/mig-1g.10gb": "2"}, {"1g.10gb": 2.0}),
    "MIG of no form": ({"nvidia.com/mig-": "2"}, {}),
    "memory of a GPU": ({"nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"}, {}),
    "another's resource": ({"example.com/gpu": "1"}, {}),
    "a name like a path": ({"nvidia.com/gpu/../x": "1"}, {}),
    "a resource without a vendor": ({"gpu": "1"}, {}),
    "of two vendors": ({"nvidia.com/gpu": "1", "amd.com/gpu": "2"}, {"gpu": 3.0}),
}


@pytest.mark.parametrize("name", GPUS)
def test_gpus(name: str) -> None:
    asked, expected = GPUS[name]

    assert unit_of(READER.read(asking(sized("limits", **asked)))).allocation.gpus == expected


@pytest.mark.parametrize("written", NO_TIME, ids=repr)
def test_a_start_that_is_no_time_is_no_start(written: Any) -> None:
    found = READER.read(pod("p", status={"startTime": written}))

    assert (found.unit, found.is_broken) == (None, True)


@pytest.mark.parametrize("written", NO_TIME, ids=repr)
def test_an_end_that_is_no_time_leaves_the_start(written: Any) -> None:
    assert unit_of(READER.read(pod("p", status=finished("Failed", written)))).ended_at == START


def stuck(*states: Any, by: str | None = "2026-11-29T13:05:00Z", **status: Any) -> Any:
    """Return a pod that is to be deleted and is kept by a finalizer, its containers in these states."""
    return pod(
        "p",
        metadata={"deletionTimestamp": by, "finalizers": ["example.com/keep"]},
        status={"containerStatuses": [{"name": f"c{at}", "state": state} for at, state in enumerate(states)], **status},
    )


def over(at: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": 137, "finishedAt": at}}


RUNS = {"running": {"startedAt": STARTED}}
ENDS: dict[str, tuple[Any, str, datetime | None]] = {
    "runs": (pod("p"), "running", None),
    "a container that is started again": (
        pod("p", status={"containerStatuses": [{"name": "main", "state": over("2026-11-29T13:00:00Z")}]}),
        "running",
        None,
    ),
    "a finalizer keeps what has ended": (
        stuck(over("2026-11-29T13:00:00Z"), over("2026-11-29T13:01:00Z")),
        "deleted",
        datetime(2026, 11, 29, 13, 1, tzinfo=UTC),
    ),
    "a finalizer keeps what still runs": (stuck(over("2026-11-29T13:00:00Z"), RUNS), "running", None),
    "a finalizer keeps what the cluster drove out": (
        stuck(
            over("2026-11-29T13:00:00Z"),
            conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
        ),
        "preempted",
        datetime(2026, 11, 29, 13, 0, tzinfo=UTC),
    ),
    "to be deleted, of unknown containers": (stuck(), "running", None),
    "to be deleted at no time": (stuck(over("2026-11-29T13:00:00Z"), by=""), "running", None),
    "an end before its start": (pod("p", status=finished("Failed", "2026-11-29T11:00:00Z")), "failed", START),
    "a phase nobody knows": (pod("p", status={"phase": "Confused"}), "confused", None),
    "a phase of another type": (pod("p", status={"phase": 7}), "unknown", None),
    "a phase of 10 kB": (pod("p", status={"phase": "x" * 10_000}), "x" * 300, None),
    "evicted": (
        pod(
            "p",
            status={
                "phase": "Failed",
                "reason": "Evicted",
                "containerStatuses": [],
                "conditions": [{"type": "Ready", "lastTransitionTime": "2026-11-29T13:00:00Z"}],
            },
        ),
        "evicted",
        datetime(2026, 11, 29, 13, 0, tzinfo=UTC),
    ),
    "failed without any time": (
        pod("p", status={"phase": "Failed", "containerStatuses": [], "conditions": []}),
        "failed",
        START,
    ),
    "statuses as a mapping": (pod("p", status={"phase": "Failed", "containerStatuses": {"a": 1}}), "failed", START),
    "a node that is lost": (
        pod("p", status={"phase": "Failed", "containerStatuses": [], "reason": "DeletionByPodGC"}),
        "lost",
        START,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_states_and_ends(name: str) -> None:
    item, state, ended_at = ENDS[name]

    unit = unit_of(READER.read(item))

    assert (unit.state, unit.ended_at) == (state, ended_at)


def without(*path: str) -> Any:
    item = copy.deepcopy(pod("p"))
    place = item
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return item


BROKEN: dict[str, Any] = {
    "null": None,
    "text": "pod",
    "number": 7,
    "list": [],
    "empty": {},
    "no metadata": {"spec": {}, "status": {}},
    "metadata as a list": {"metadata": []},
    "no uid": without("metadata", "uid"),
    "no name": without("metadata", "name"),
    "no namespace": without("metadata", "namespace"),
    "a uid that is a number": pod("p", metadata={"uid": 7}),
    "running without a start": without("status", "startTime"),
    "an empty namespace": pod("p", metadata={"namespace": ""}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_pod_says_why(name: str) -> None:
    found = READER.read(BROKEN[name])

    assert (found.unit, found.is_broken) == (None, True)
    assert found.why_not


def named(word: str) -> Any:
    return pod("p", metadata={"uid": f"uid-{abs(hash(word))}", "annotations": {"site.example/user": word}})


ODD: list[Any] = [
    *(
        named(word)
        for word in (
            "x" * 300_000,
            "a\0b",
            "half \ud800",
            "a\nb",
            "  ",
            "\u202eevil",
            "<script>",
            "' or 1=1 --",
            "用户",
        )
    ),
    *(
        pod(word, uid=f"n-{abs(hash(word))}")
        for word in ("x" * 100_000, "a\0b", "half \ud800", "../../etc", "a/b", '"', "%s%n")
    ),
    *(pod("p", uid=word) for word in ("a/b", "..", "x" * 100_000, "a\0b", "half \ud800", "uid with space", "ü")),
    *(pod("p", uid=f"ns-{at}", namespace=word) for at, word in enumerate(("x" * 100_000, "a\0b", "\ud800", "a/b"))),
    *(pod("p", uid=f"node-{at}", node=word) for at, word in enumerate(("x" * 100_000, "a\0b", "\ud800", "a/b"))),
    pod("p", uid="labels", metadata={"labels": {f"l{at}": "v" * 60 for at in range(5000)}}),
    pod("p", uid="annotations", metadata={"annotations": {"a": "v" * 262_144}}),
    pod("p", uid="run", metadata={"labels": {"pipeline/runid": "r\0" * 1000, "ray.io/cluster": "\ud800"}}),
    pod("p", uid="restarts", status={"containerStatuses": [{"name": "a", "restartCount": 10**30}]}),
    pod("p", uid="reasons", status={"containerStatuses": [{"state": {"waiting": {"reason": "R" * 10_000}}}] * 50}),
    pod("p", uid="amounts", spec={"containers": [sized(cpu="9223372036854775807", memory="8Ei")] * 100}),
    pod("p", uid="gpus", spec={"containers": [sized("limits", **{"nvidia.com/gpu": "9223372036854775807"})] * 100}),
    pod("p", uid="priority", node="", status={"phase": "Pending", "startTime": None}, spec={"priority": 10**40}),
    pod(
        "p",
        uid="gates",
        node="",
        status={"phase": "Pending", "startTime": None},
        spec={"schedulingGates": [{"name": "g" * 9000}] * 90},
    ),
    *(item for item, *_ in (*OWNERS.values(), *AMOUNTS.values(), *ENDS.values())),
    *BROKEN.values(),
]


def test_none_keeps_another_from_the_account(engine: Engine) -> None:
    site = Site(engine, SITE)
    good = pod("good", uid="good-uid", namespace="team-good", spec={"containers": [container("main", cpu="2")]})
    read = [READER.read(item) for item in (*ODD, good)]
    turn = turn_of(site.engine, T0_NS, "kubernetes")

    for _ in range(2):
        write_units(site.engine, turn, [found.unit for found in read if found.unit is not None])
        write_queue(site.engine, turn, [found.waiting for found in read if found.waiting is not None])

    (listed,) = site.reader.units(UnitQuery(project="team-good")).items
    assert (listed.unit, listed.name, listed.cpus_allocated) == ("good-uid", "good", 2.0)
