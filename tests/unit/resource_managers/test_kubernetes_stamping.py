"""Who made an object: stamped at admission, never forged, never changed, and read back by the manager."""

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.json_patch import patched
from tests.kubernetes_manifests import documents
from tests.kubernetes_objects import owned, pod, profile

from kwhere.agent.admission_settings import AdmissionWebhookSettings
from kwhere.core.errors import ConfigError, SourceError
from kwhere.resource_managers.kubernetes_kinds import KINDS, METADATA, places_of
from kwhere.resource_managers.kubernetes_pods import PodReader
from kwhere.resource_managers.kubernetes_stamping import Stamper, pointer
from kwhere.resource_managers.kubernetes_stamps import KEYS, SEAL, USER, Seal, SealFile, read_seal
from kwhere.resource_managers.kubernetes_tenancy import NamespaceKeys, Tenancy, read_tenants
from kwhere.resource_managers.kubernetes_users import PodUsers

KEY = "k" * 32
OURS = Seal([KEY])
STAMPER = Stamper(OURS, AdmissionWebhookSettings().controllers)
ALICE, BOB = "alice@example.org", "bob@example.org"
REPLICASET_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
OF_ALICE = OURS.stamp(ALICE, "team-a")
FORGED = {USER: ALICE, SEAL: "v1." + "0" * 64}


def request(
    item: Any, user: str = BOB, kind: tuple[str, str] = ("", "Pod"), old: Any = None, operation: str = "", **more: Any
) -> dict[str, Any]:
    return {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": kind[0], "version": "v1", "kind": kind[1]},
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "namespace": "team-a",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": item,
        "oldObject": old,
        **more,
    }


def admitted(asked: dict[str, Any]) -> Any:
    """Return the object as the API server keeps it after our answer."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    answer: Any = STAMPER.answer(json.dumps(review).encode())
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    response = answer["response"]
    assert response["uid"] == asked["uid"]
    assert response["allowed"] is True
    if "patch" not in response:
        return asked["object"]
    assert response["patchType"] == "JSONPatch"
    return patched(asked["object"], json.loads(base64.b64decode(response["patch"])))


def stamped_user(item: Any) -> str | None:
    return OURS.user_of(item["metadata"].get("annotations") or {}, "team-a")


def annotated(item: Any, annotations: dict[str, str]) -> Any:
    item = copy.deepcopy(item)
    item["metadata"]["annotations"] = {**item["metadata"].get("annotations", {}), **annotations}
    return item


def test_a_pod_is_stamped_with_who_made_it() -> None:
    item = pod("p")

    found = admitted(request(item))

    assert stamped_user(found) == BOB
    assert found == annotated(item, OURS.stamp(BOB, "team-a"))


def test_the_pointer_to_an_annotation_escapes_its_slash() -> None:
    (user, seal) = STAMPER.patch(request(annotated(pod("p"), {"a": "b"})))

    assert user == {"op": "add", "path": "/metadata/annotations/kwhere.io~1created-by", "value": BOB}
    assert seal["path"] == "/metadata/annotations/kwhere.io~1created-by-seal"
    assert pointer(("a~b", 0, "c/d")) == "/a~0b/0/c~1d"


@pytest.mark.parametrize("annotations", [FORGED, OF_ALICE, {USER: ALICE}, {SEAL: OF_ALICE[SEAL]}])
def test_what_a_user_writes_there_at_creation_is_replaced(annotations: dict[str, str]) -> None:
    found = admitted(request(annotated(pod("p"), annotations)))

    assert stamped_user(found) == BOB


def test_a_pod_of_a_controller_keeps_a_good_stamp_and_loses_a_bad_one() -> None:
    made = pod("web-7d-x", metadata=owned("ReplicaSet", "web-7d"))

    kept = admitted(request(annotated(made, OF_ALICE), REPLICASET_CONTROLLER))
    forged = admitted(request(annotated(made, FORGED), REPLICASET_CONTROLLER))
    elsewhere = admitted(request(annotated(made, OURS.stamp(ALICE, "team-b")), REPLICASET_CONTROLLER))
    none = admitted(request(made, REPLICASET_CONTROLLER))

    assert stamped_user(kept) == ALICE
    assert not set(KEYS) & set(forged["metadata"]["annotations"])
    assert not set(KEYS) & set(elsewhere["metadata"]["annotations"])
    assert none == made


def deployment() -> Any:
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
    }


def test_from_deployment_to_pod_the_name_is_handed_on() -> None:
    made = admitted(request(deployment(), ALICE, ("apps", "Deployment")))
    replica_set = {"metadata": {"name": "web-7d", "annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}
    same = admitted(
        request(replica_set, "system:serviceaccount:kube-system:deployment-controller", ("apps", "ReplicaSet"))
    )
    child = pod("web-7d-x", metadata={**owned("ReplicaSet", "web-7d"), **made["spec"]["template"]["metadata"]})

    assert same == replica_set  # its controller would make another one of what it did not ask for
    assert stamped_user(admitted(request(child, REPLICASET_CONTROLLER))) == ALICE


def test_a_change_by_another_leaves_the_stamp_and_cannot_take_it_off() -> None:
    old = admitted(request(deployment(), ALICE, ("apps", "Deployment")))
    bare = deployment()
    bare["spec"]["replicas"] = 3
    claimed = annotated(bare, OURS.stamp(BOB, "team-a"))
    claimed["spec"]["template"]["metadata"]["annotations"] = dict(OURS.stamp(BOB, "team-a"))

    for new in (bare, claimed):
        found = admitted(request(new, BOB, ("apps", "Deployment"), old))

        assert stamped_user(found) == ALICE
        assert found["spec"]["template"] == old["spec"]["template"]  # nothing is rolled out anew
        assert found["spec"]["replicas"] == 3


def test_an_object_of_before_is_not_stamped_by_a_change_nor_forged() -> None:
    old, new = deployment(), annotated(deployment(), FORGED)
    new["spec"]["template"]["metadata"]["annotations"] = {**OF_ALICE, "other": "kept"}

    found = admitted(request(new, BOB, ("apps", "Deployment"), old))

    assert found["metadata"]["annotations"] == {}
    assert found["spec"]["template"]["metadata"]["annotations"] == {"other": "kept"}


@pytest.mark.parametrize("more", [{"subResource": "status"}, {"operation": "DELETE"}, {"operation": "CONNECT"}])
def test_what_makes_no_pod_is_left_alone(more: dict[str, Any]) -> None:
    assert STAMPER.patch(request(pod("p"), **more)) == []


@pytest.mark.parametrize(
    "user",
    [
        REPLICASET_CONTROLLER,
        "system:node:n1",
        "system:kube-controller-manager",
        "system:serviceaccount:kubeflow:ml-pipeline",
        "system:serviceaccount:kubeflow:jupyter-web-app-service-account",
        "",
        "x" * 301,
        "alice\nbob",
    ],
)
def test_a_controllers_own_name_and_what_is_no_name_are_not_written(user: str) -> None:
    found = admitted(request(annotated(pod("p"), FORGED), user))

    assert not set(KEYS) & set(found["metadata"]["annotations"])


def sample_of(kind: tuple[str, str]) -> Any:
    """Return an object in which every place of the kind has what is above it."""
    item: Any = {"metadata": {"name": "x"}}
    for holder in KINDS[kind].holders:
        _grow(item, holder)
    return item


def _grow(value: Any, rest: tuple[Any, ...]) -> None:
    """Make what is above the last step, and the last one too where only a controller may make it up."""
    step, after = rest[0], rest[1:]
    if step == "*":
        for inner in value.values() if isinstance(value, dict) else value:
            _grow(inner, after)
    elif after and after[0] == "*":
        value.setdefault(step, {"a": {}, "b": {}} if step.endswith("ReplicaSpecs") else [{}, {}])
        _grow(value[step], after)
    elif after or not step.lower().endswith("metadata"):
        inner = value.setdefault(step, {})
        if after:
            _grow(inner, after)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_every_kind_is_stamped_where_its_pods_are_made_from(kind: tuple[str, str]) -> None:
    item = sample_of(kind)
    places = list(places_of(item, KINDS[kind]))

    found = admitted(request(item, ALICE, kind))

    assert len(places) >= 1 + len(KINDS[kind].holders)
    for place in places:
        holder = found
        for step in place:
            holder = holder[step]
        assert OURS.user_of(holder["annotations"], "team-a") == ALICE, place
    assert admitted(request(found, ALICE, kind)) == found  # asked again, it changes nothing


def test_places_that_only_look_like_pods_are_cleaned() -> None:
    item = {"metadata": {"name": "w"}, "spec": {"templates": [{"metadata": {"annotations": {**OF_ALICE, "a": "b"}}}]}}

    found = admitted(request(item, BOB, ("argoproj.io", "Workflow")))

    assert found["spec"]["templates"][0]["metadata"]["annotations"] == {"a": "b"}
    assert OURS.user_of(found["spec"]["podMetadata"]["annotations"], "team-a") == BOB


def test_a_job_set_of_a_controller_hands_its_stamp_on_to_its_pods() -> None:
    kind = ("jobset.x-k8s.io", "JobSet")
    controller = "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"

    stamped = admitted(request(annotated(sample_of(kind), OF_ALICE), controller, kind))
    forged = annotated(sample_of(kind), FORGED)

    template = stamped["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
    assert OURS.user_of(template["metadata"]["annotations"], "team-a") == ALICE
    assert admitted(request(forged, controller, kind)) == forged


def test_keys_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(KEY + "\n")
    seals = SealFile(file)
    before = seals.current().stamp(ALICE, "team-a")
    file.write_text(f"{'n' * 40}\n{KEY}\n")
    both = seals.current()
    after = both.stamp(ALICE, "team-a")
    file.write_text("")
    broken = seals.current()

    assert before != after
    assert both.user_of(before, "team-a") == both.user_of(after, "team-a") == ALICE
    assert OURS.user_of(after, "team-a") is None
    assert broken.user_of(after, "team-a") == ALICE  # a half written file changes nothing


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("short", 0o600, "at least 32"),
        ("", 0o600, "at least 32"),
        (KEY, 0o644, "others may read"),
        ("é" * 40, 0o600, "ASCII"),
    ],
)
def test_a_key_that_is_none_stops_the_start(tmp_path: Path, content: str, mode: int, why: str) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    file.chmod(mode)

    with pytest.raises(ConfigError, match=why) as caught:
        read_seal(file)

    assert KEY not in str(caught.value)


def test_a_key_in_a_mounted_secret_is_read_through_its_link(tmp_path: Path) -> None:
    (tmp_path / "..data").write_text(KEY)
    (tmp_path / "..data").chmod(0o440)
    (tmp_path / "key").symlink_to("..data")

    assert read_seal(tmp_path / "key").user_of(OF_ALICE, "team-a") == ALICE


def test_the_manager_takes_a_sealed_name_and_no_other() -> None:
    tenancy = Tenancy(read_tenants([], [profile("team-a", "owner@example.org")], NamespaceKeys()))
    reader = PodReader("k1", users=PodUsers(seal=OURS))

    def user_of(annotations: dict[str, str]) -> tuple[str | None, str | None]:
        unit = reader.read(annotated(pod("p"), annotations)).unit
        assert unit is not None
        return tenancy.of(unit).user, unit.tags.get("created_by")

    robot = "system:serviceaccount:team-a:default-editor"
    assert user_of(OF_ALICE) == (ALICE, ALICE)
    assert user_of(FORGED) == ("owner@example.org", None)
    assert user_of(OURS.stamp(ALICE, "team-b")) == ("owner@example.org", None)
    assert user_of(OURS.stamp(robot, "team-a")) == ("owner@example.org", robot)
    assert user_of({}) == ("owner@example.org", None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"<html>",
        b"\xff",
        b"[" * 100_000,
        json.dumps(
            {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}
        ).encode(),
        json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}).encode(),
    ],
)
def test_what_is_no_review_is_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(SourceError):
        STAMPER.answer(body)


ANNOTATIONS = (
    st.dictionaries(
        st.sampled_from([USER, SEAL, "a/b", "c~d"]), st.sampled_from([ALICE, BOB, OF_ALICE[SEAL], "v1.x"]), max_size=3
    )
    | st.none()
    | st.just("nonsense")
)
HOLDERS = st.fixed_dictionaries({}, optional={"annotations": ANNOTATIONS, "labels": st.none()}) | st.none()
TREES: Any = st.recursive(
    HOLDERS | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["metadata", "template", "spec", "podMetadata", "jobTemplate", "annotations", "x/~y"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries({"metadata": HOLDERS}, optional={"spec": TREES, "x": TREES})


def without_stamps(value: Any) -> Any:
    """Return an object without our keys, and without what is empty for want of them."""
    if isinstance(value, dict):
        kept = {key: without_stamps(inner) for key, inner in value.items() if key not in KEYS}
        return {key: inner for key, inner in kept.items() if inner not in ({}, None)}
    return [without_stamps(inner) for inner in value] if isinstance(value, list) else value


def names(value: Any, at: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], str]:
    """Return every name under our key, by its place."""
    found = {}
    if isinstance(value, dict):
        if isinstance(value.get(USER), str) and at and at[-1] == "annotations":
            found[at] = value[USER]
        for key, inner in value.items():
            found |= names(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found |= names(inner, (*at, index))
    return found


@given(OBJECTS, st.sampled_from(sorted(KINDS)))
def test_whatever_is_made_by_a_person_bears_that_person_alone(item: Any, kind: tuple[str, str]) -> None:
    found = admitted(request(item, BOB, kind))

    assert set(names(found).values()) <= {BOB}
    assert without_stamps(found) == without_stamps(item)
    assert admitted(request(found, BOB, kind)) == found


@given(OBJECTS, OBJECTS, st.sampled_from(sorted(KINDS)))
def test_no_change_brings_a_name_that_was_not_there(item: Any, old: Any, kind: tuple[str, str]) -> None:
    found = admitted(request(item, BOB, kind, old))

    before = names(old)
    own = OURS.user_of((old.get("metadata") or {}).get("annotations") or {}, "team-a") if _is_plain(old) else None
    assert all(before.get(place) == name or name == own for place, name in names(found).items())
    assert without_stamps(found) == without_stamps(item)


def _is_plain(item: Any) -> bool:
    return isinstance((item.get("metadata") or {}).get("annotations") or {}, dict)


@given(OBJECTS | TREES | st.text(max_size=5))
def test_any_object_of_a_controller_is_admitted(item: Any) -> None:
    for kind in (("", "Pod"), ("jobset.x-k8s.io", "JobSet"), ("", "Other")):
        found = admitted(request(item, REPLICASET_CONTROLLER, kind))

        assert without_stamps(found) == without_stamps(item)


@given(st.recursive(st.none() | st.text(max_size=4), lambda inner: st.dictionaries(
    st.sampled_from(["uid", "kind", "object", "oldObject", "operation", "userInfo", "username", "group", "namespace"]),
    inner | st.sampled_from(["CREATE", "UPDATE", "Pod"]), max_size=5)))  # fmt: skip
def test_any_request_has_an_answer_or_is_none(asked: Any) -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    try:
        answer = STAMPER.answer(json.dumps(review).encode())
    except SourceError:
        return
    assert json.loads(json.dumps(answer))["response"]["allowed"] is True


def test_the_manifest_asks_for_the_kinds_that_are_known_and_never_blocks() -> None:
    (configuration,) = [one for one in documents("webhook") if one["kind"] == "MutatingWebhookConfiguration"]
    (hook,) = configuration["webhooks"]
    asked = {
        (group, resource) for rule in hook["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
    }

    assert asked == {(group, made.resource) for (group, _), made in KINDS.items()}
    assert {tuple(rule["operations"]) for rule in hook["rules"]} == {("CREATE", "UPDATE")}
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] <= 2
    assert (hook["sideEffects"], hook["admissionReviewVersions"]) == ("None", ["v1"])
    assert METADATA == ("metadata",)
