"""Pods by a real gRPC server and their uids by directories; labels by an API on loopback."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests import kubelet as fake
from tests.unit.dcgm.hand_made import SECOND, device, instance, samples, snapshot

from kwhere.core.errors import ConfigError, NotFound, SourceError, Unavailable
from kwhere.dcgm.cluster import ClusterApi, api_of
from kwhere.dcgm.holdings import Holders, NoJobs, PodFacts, PodHold, PodOptions
from kwhere.dcgm.pods import PodPlaces, PodWatch, pod_of, read_uids
from kwhere.devices.gpu import GpuSnapshot
from kwhere.devices.gpu_fields import GpuField
from kwhere.kernel.hostfs import HostFS

UUID = "GPU-0"
POWER = "DCGM_FI_DEV_POWER_USAGE"


class Watched:
    """A watch over a kubelet, its clock, and what it told."""

    def __init__(self, directory: Path, found: GpuSnapshot, **more: Any) -> None:
        self.now_ns = SECOND
        self.told: list[tuple[str, str]] = []
        places = PodPlaces(directory / "kubelet.sock", log_directory=directory / "logs", **more)
        self.watch = PodWatch(places, lambda: found, lambda *one: self.told.append(one), lambda: self.now_ns)

    def pods(self) -> list[PodHold]:
        self.watch.refresh()
        return list(self.watch.pods())


@pytest.mark.parametrize(
    ("resource", "device_id", "expected"),
    [
        pytest.param("nvidia.com/gpu", UUID, ("GPU-0", "", None), id="plain"),
        pytest.param("nvidia.com/gpu", f"{UUID}::3", ("GPU-0", "", 3), id="case_gpu_41"),
        pytest.param("nvidia.com/gpu.shared", f"{UUID}::0", ("GPU-0", "", 0), id="case_gpu_42"),
        pytest.param("nvidia.com/mig-1g.5gb", "MIG-1-0", ("GPU-1", "MIG-1-0", None), id="mig"),
        pytest.param("nvidia.com/mig-1g.5gb", "MIG-1-0::2", ("GPU-1", "MIG-1-0", 2), id="mig replica"),
        pytest.param("nvidia.com/gpu", "nvidia1/gi1", ("GPU-1", "MIG-1-0", None), id="gke mig"),
    ],
)
def test_ids_of_device_plugins(
    resource: str, device_id: str, expected: tuple[str, str, int | None], tmp_path: Path
) -> None:
    found = snapshot(device(0), device(1, instances=[instance(1)]))
    with fake.serving(tmp_path) as kubelet:
        kubelet.pods = [fake.pod("ns", "p", fake.container("c", fake.devices(resource, device_id)))]

        [hold] = Watched(tmp_path, found).pods()

    assert (hold.device, hold.instance, hold.replica) == expected
    assert (hold.namespace, hold.pod, hold.container) == ("ns", "p", "c")


def test_only_the_container_with_the_gpu_case_gpu_46(tmp_path: Path) -> None:
    with fake.serving(tmp_path) as kubelet:
        held = fake.container("c", fake.devices("nvidia.com/gpu", UUID))
        kubelet.pods = [fake.pod("ns", "p", fake.container("sidecar"), held)]

        [hold] = Watched(tmp_path, snapshot(device(0))).pods()

    assert hold.container == "c"


@pytest.mark.parametrize("with_claims", [True, False])
def test_claims_of_devices_bear_their_labels_case_gpu_49_50(with_claims: bool, tmp_path: Path) -> None:
    (tmp_path / "logs" / "ml_p_11111111-2222").mkdir(parents=True)
    found = snapshot(device(0, {GpuField.POWER_UW: 0}))
    with fake.serving(tmp_path) as kubelet:
        kubelet.pods = [fake.pod("ml", "p", fake.container("c", claims=[fake.claim("mine", UUID.lower())]))]
        kubelet.pods = [fake.pod("ml", "p", fake.container("c", claims=[fake.claim("mine", "gpu-0")]))]
        watched = Watched(tmp_path, _with_minor(found), with_claims=with_claims)
        pods = watched.pods()

    holders = Holders(pods, NoJobs(), PodOptions(with_uid=True))
    [line] = samples(found, POWER, holders=holders)

    assert ('dra_claim_name="mine",dra_claim_namespace="ml",dra_device_name="gpu-0"' in line) is with_claims
    assert ('pod_uid="11111111-2222"' in line) is with_claims


def test_a_kubelet_that_goes_away_leaves_the_pods_for_a_while_case_gpu_33(tmp_path: Path) -> None:
    with fake.serving(tmp_path) as kubelet:
        kubelet.pods = [fake.pod("ns", "p", fake.container("c", fake.devices("nvidia.com/gpu", UUID)))]
        watched = Watched(tmp_path, snapshot(device(0)))
        before = watched.pods()
        kubelet.fail = grpc.StatusCode.UNAVAILABLE

        during = watched.pods()

    watched.now_ns += 301 * SECOND
    after = watched.pods()

    assert before == during != after == []
    assert watched.told[0][0].endswith("kubelet.sock")


def test_uids_are_those_of_the_newest_pod_of_a_name(tmp_path: Path) -> None:
    for age, name in enumerate(["ns_p_bbbb", "ns_p_aaaa", "ns_q_cccc", "no pod"]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))

    assert read_uids(tmp_path) == {("ns", "p"): "bbbb", ("ns", "q"): "cccc"}
    assert read_uids(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11_22.slice/cri-containerd-ab.scope",
            "11-22",
        ),
        ("4:memory:/kubepods/burstable/pod11-22/abcdef", "11-22"),
        ("0::/system.slice/sshd.service", None),
    ],
)
def test_pod_of_a_process(text: str, uid: str | None, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text + "\n")

    assert pod_of(HostFS(tmp_path), 7) == uid
    assert pod_of(HostFS(tmp_path), 8) is None


PODS = {"items": [{"metadata": {"namespace": "ns", "name": "p", "uid": "u", "labels": {"app": "x", "n": 1}}}, 7, {}]}


@contextmanager
def api(status: int, body: bytes) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Serve one answer; yield the address, and path and authorization of each question."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_the_cluster_tells_labels_of_this_nodes_pods(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with api(200, json.dumps(PODS).encode()) as (url, asked):
        found = ClusterApi(url, tmp_path).pods("node1")

    assert found["ns", "p"] == PodFacts("u", {"app": "x", "n": ""})
    assert asked == [("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode1", "Bearer secret")]


def test_a_configmap_is_a_counters_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with api(200, b'{"data": {"metrics": "DCGM_FI_DEV_GPU_TEMP, gauge, t"}}') as (url, asked):
        found = ClusterApi(url, tmp_path).counters("ns:name")

    assert found == b"DCGM_FI_DEV_GPU_TEMP, gauge, t"
    assert asked[0][0] == "/api/v1/namespaces/ns/configmaps/name"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (403, b"{}", Unavailable),
        (404, b"{}", Unavailable),
        (500, b"{}", SourceError),
        (200, b"<html>", SourceError),
        (200, b"[]", SourceError),
        (200, b'{"data": {"metrics": 1}}', ConfigError),
    ],
)
def test_answers_that_are_none(status: int, body: bytes, error: type[Exception], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with api(status, body) as (url, _), pytest.raises(error):
        ClusterApi(url, tmp_path).counters("ns:name")


def test_outside_of_a_cluster_there_is_no_api() -> None:
    with pytest.raises(NotFound, match="KUBERNETES_SERVICE_HOST"):
        api_of({})


def _with_minor(found: GpuSnapshot) -> GpuSnapshot:
    from dataclasses import replace

    [state] = found.devices
    return replace(found, devices=(replace(state, device=replace(state.device, minor=0)),))
