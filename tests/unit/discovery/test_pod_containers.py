"""Names of pods and containers where no API is asked: links of logs, files of containerd, CRI-O and Docker."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.discovery.classify import Classifier
from kwhere.discovery.fact_finder import FactFinder
from kwhere.discovery.pod_containers import ContainerNames, PodContainer, parse_annotations, parse_link
from kwhere.discovery.settings import UnitsSettings

HEX = "ab" * 32
UID = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.container-name": "main",
    "io.kubernetes.cri.sandbox-name": "web-7d9f6c5b8-x2x4z",
    "io.kubernetes.cri.sandbox-namespace": "team-a",
    "io.kubernetes.cri.sandbox-uid": UID,
}
CRIO = {
    "io.kubernetes.container.name": "main",
    "io.kubernetes.pod.name": "web-7d9f6c5b8-x2x4z",
    "io.kubernetes.pod.namespace": "team-a",
}
MAIN = PodContainer("team-a", "web-7d9f6c5b8-x2x4z", "main")


def names(tmp_path: Path) -> ContainerNames:
    return ContainerNames(
        UnitsSettings(
            container_log_dir=tmp_path / "logs",
            containerd_dirs=(tmp_path / "containerd",),
            crio_dirs=(tmp_path / "crio",),
            docker_dirs=(tmp_path / "docker",),
        )
    )


def write(file: Path, document: Any) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(document))


def test_a_container_by_the_link_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"web-7d9f6c5b8-x2x4z_team-a_main-{HEX}.log").touch()

    assert names(tmp_path).find(HEX) == MAIN


@pytest.mark.parametrize(
    ("file", "document"),
    [
        (f"containerd/k8s.io/{HEX}/config.json", {"ociVersion": "1.1", "annotations": CONTAINERD}),
        (f"crio/{HEX}/userdata/config.json", {"annotations": CRIO}),
        (f"docker/containers/{HEX}/config.v2.json", {"Config": {"Labels": CRIO}}),
    ],
)
def test_a_container_by_the_files_of_its_runtime(tmp_path: Path, file: str, document: Any) -> None:
    write(tmp_path / file, document)

    assert names(tmp_path).find(HEX) == MAIN


@pytest.mark.parametrize(
    "annotations",
    [
        {key: word for key, word in CONTAINERD.items() if key != "io.kubernetes.cri.container-name"},
        {**CRIO, "io.kubernetes.container.name": "POD"},
    ],
)
def test_what_holds_a_pod_together_has_no_name_of_its_own(annotations: dict[str, str]) -> None:
    assert parse_annotations(annotations) == PodContainer("team-a", "web-7d9f6c5b8-x2x4z", None)


@pytest.mark.parametrize("container", ["../../etc", "main", "", "ab" * 33, "AB" * 32])
def test_what_is_no_id_opens_no_file(tmp_path: Path, container: str) -> None:
    write(tmp_path / "etc" / "config.json", {"annotations": CONTAINERD})

    assert names(tmp_path / "containerd" / "x").find(container) is None


def test_ids_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    write(tmp_path / "crio" / HEX / "config.json", {"annotations": CRIO})
    found = names(tmp_path)
    found.find(HEX)
    (tmp_path / "crio" / HEX / "config.json").unlink()
    kept = found.find(HEX)
    found.forget(frozenset())

    assert kept == MAIN
    assert found.find(HEX) is None


@pytest.mark.parametrize("is_by_log", [True, False])
def test_a_pod_whose_directory_is_not_seen_is_named_by_its_containers(tmp_path: Path, is_by_log: bool) -> None:
    proc = FakeProc(tmp_path)
    pod = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
    proc.process(11, "pause", start=2, cgroup=f"0::{pod}/cri-containerd-{'cd' * 32}.scope\n")
    proc.process(12, "app", start=3, cgroup=f"0::{pod}/cri-containerd-{HEX}.scope\n")
    if is_by_log:
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / f"web-7d9f6c5b8-x2x4z_team-a_main-{HEX}.log").touch()
    else:
        write(tmp_path / "containerd" / "k8s.io" / HEX / "config.json", {"annotations": CONTAINERD})
    settings = UnitsSettings(
        pod_log_dir=tmp_path / "absent",
        container_log_dir=tmp_path / "logs",
        containerd_dirs=(tmp_path / "containerd",),
    )
    match = Classifier().path(pod)
    assert match is not None

    facts = FactFinder(proc.host, settings).find(match, lambda: (11, 12))

    assert (facts.name, facts.project) == ("web-7d9f6c5b8-x2x4z", "team-a")
    assert dict(facts.labels) == {
        "kube_namespace": "team-a",
        "kube_pod": "web-7d9f6c5b8-x2x4z",
        "kube_owner": "web",
        "qos": "guaranteed",
        "runtime": "containerd",
    }


@given(st.text(max_size=120) | st.from_regex(r"[a-z_-]{0,9}_[a-z]{0,4}_[a-z-]{0,6}-[0-9a-f]{0,66}\.log"))
def test_any_name_is_a_link_or_none(name: str) -> None:
    found = parse_link(name)

    assert found is None or name == f"{found[1].pod}_{found[1].namespace}_{found[1].name}-{found[0]}.log"


@given(
    st.recursive(
        st.none() | st.text(max_size=3) | st.integers(),
        lambda inner: st.dictionaries(st.sampled_from([*CONTAINERD, *CRIO, "x"]), inner, max_size=5),
    )
)
def test_any_document_names_a_container_or_none(document: Any) -> None:
    found = parse_annotations(document)

    assert found is None or (found.namespace and found.pod)
