"""Names and makers of pods by kubelet, over real HTTPS, beside the steps."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.kubernetes_objects import owned, pod
from tests.unit.agent.certificates import make_authority
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.core.clock import SystemClock
from kwhere.core.errors import SourceError
from kwhere.discovery.classify import Classifier
from kwhere.discovery.fact_finder import FactFinder
from kwhere.discovery.kubelet_pods import KubeletPod, KubeletPods, kubelet_of, parse_pods
from kwhere.discovery.kubernetes_owners import Owner
from kwhere.discovery.settings import KubeletSettings, UnitsSettings
from kwhere.transport.settings import HttpClientSettings

UID = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
HASH = "d41d8cd98f00b204e9800998ecf8427e"
TOKEN = "token-of-the-agent"


@dataclass
class Kubelet:
    """A kubelet's HTTPS face."""

    items: list[dict[str, Any]] = field(default_factory=list)
    token: str = TOKEN
    status: int = 200
    asked: int = 0
    url: str = ""


@contextmanager
def serving(certificate: tuple[Path, Path]) -> Iterator[Kubelet]:
    kubelet = Kubelet()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            kubelet.asked += 1
            is_known = self.headers.get("Authorization") == f"Bearer {kubelet.token}"
            status = kubelet.status if is_known and self.path == "/pods" else 401
            body = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": kubelet.items}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    kubelet.url = f"https://127.0.0.1:{server.server_address[1]}"
    try:
        yield kubelet
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class World:
    """A kubelet, and an agent's view of it."""

    kubelet: Kubelet
    pods: KubeletPods
    settings: UnitsSettings
    token_file: Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    authority = make_authority(tmp_path)
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    with serving(authority.issue("kubelet")) as kubelet:
        client = HttpClientSettings(ca_file=authority.ca_file, token_file=token_file)
        asked = KubeletSettings(url=kubelet.url + "/", client=client, interval_seconds=1)
        settings = UnitsSettings(kubelet=asked, pod_log_dir=tmp_path / "absent", container_log_dir=tmp_path / "absent")
        pods = KubeletPods(asked, SystemClock())
        yield World(kubelet, pods, settings, token_file)
        pods.close()


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pod_that_is_new_is_asked_for_beside_the_step_and_known_soon(world: World) -> None:
    about = owned("ReplicaSet", "web-7d9f6c5b8", pod_template_hash="7d9f6c5b8")
    world.kubelet.items = [pod("web-7d9f6c5b8-x2x4z", uid=UID, metadata=about)]

    first = world.pods.find(UID)
    wait_for(lambda: world.pods.find(UID) is not None)

    assert first is None  # nobody waits for an answer
    assert world.pods.find(UID) == KubeletPod("team-a", "web-7d9f6c5b8-x2x4z", Owner("Deployment", "web"))
    assert world.kubelet.asked == 1


def test_facts_of_a_pod_are_kubelets_and_a_static_pods_hash_is_found(tmp_path: Path, world: World) -> None:
    about = owned("PyTorchJob", "bert")
    world.kubelet.items = [pod("bert-worker-0", uid=UID, metadata=about), pod("etcd-n1", "kube-system", uid=HASH)]
    world.pods.ask()
    finder = FactFinder(FakeProc(tmp_path / "host").host, world.settings, world.pods)

    def facts_of(path: str) -> dict[str, str]:
        match = Classifier().path(path)
        assert match is not None
        return dict(finder.find(match, tuple).labels)

    assert facts_of(f"/kubepods/burstable/pod{UID}") == {
        "kube_namespace": "team-a",
        "kube_pod": "bert-worker-0",
        "kube_owner": "bert",
        "kube_owner_kind": "PyTorchJob",
        "qos": "burstable",
    }
    assert facts_of(f"/kubepods/pod{HASH}")["kube_pod"] == "etcd-n1"


def test_a_token_that_was_renewed_is_read_again_and_a_refusal_is_told_once(world: World) -> None:
    world.kubelet.items = [pod("p", uid=UID)]
    world.kubelet.token = "renewed"

    with capture_logs() as logs:
        refused = [world.pods.ask(), world.pods.ask()]
        world.token_file.write_text("renewed")
        answered = world.pods.ask()

    assert (refused, answered) == ([False, False], True)
    assert [line["event"] for line in logs] == ["kubelet tells no pods", "kubelet tells pods again"]
    assert TOKEN not in str(logs)


def test_what_was_known_stays_while_kubelet_is_away(world: World) -> None:
    world.kubelet.items = [pod("p", uid=UID)]
    world.pods.ask()
    world.kubelet.status = 503

    assert world.pods.ask() is False
    assert world.pods.find(UID) is not None


def test_without_an_address_and_on_a_recorded_host_nobody_is_asked(tmp_path: Path, world: World) -> None:
    host = FakeProc(tmp_path / "host").host

    assert kubelet_of(host, UnitsSettings(), SystemClock()) is None
    assert (kubelet_of(host, world.settings, SystemClock()) is None) is host.is_recorded


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.text(max_size=3) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["items", "metadata", "uid", "name", "namespace", "ownerReferences"]), inner
            )
        ),
        max_leaves=6,
    ).map(lambda tree: json.dumps(tree).encode())
)
def test_any_answer_is_pods_or_an_error_of_ours(body: bytes) -> None:
    try:
        found = parse_pods(body, "kubelet")
    except SourceError:
        return
    assert all(uid and one.namespace and one.name for uid, one in found.items())
