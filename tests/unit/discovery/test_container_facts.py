"""Names, images and compose projects of containers: the runtimes' own files, and the engines where those are closed."""

import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.core.errors import Unavailable
from kwhere.discovery.classify import Classifier
from kwhere.discovery.container_engines import ContainerEngines, ask_engine
from kwhere.discovery.container_facts import ContainerFacts, parse_annotations, parse_docker
from kwhere.discovery.facts import Facts, UserNames, Witness
from kwhere.discovery.podman_state import parse_listed, read_podman
from kwhere.discovery.settings import UnitsSettings

HEX = "0c1f7e2ab34d" + "5" * 52
COMPOSE = {"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}
LISTED = {"id": HEX, "names": ["web"], "metadata": json.dumps({"image-name": "docker.io/library/nginx:1"})}


class Homes(UserNames):
    """Users of a copied tree with homes below a folder."""

    folder = Path("/nonexistent")

    def home(self, uid: int) -> Path | None:
        return self.folder / str(uid)


@pytest.fixture
def host(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "host")


def find(
    host: FakeProc, path: str, engines: ContainerEngines | None = None, home: Path | None = None, **settings: Any
) -> Facts:
    match = Classifier().path(path)
    assert match is not None
    dirs: dict[str, Any] = {name: [] for name in ("docker_dirs", "podman_dirs", "containerd_dirs", "container_sockets")}
    users = Homes(host.host)
    if home is not None:
        users.folder = home
    witness = Witness(host.host, UnitsSettings.model_validate({**dirs, **settings}), users, lambda: ())
    source = ContainerFacts(engines)
    return (source.find_podman if match.manager == "podman" else source.find_docker)(match, witness)


def labels(facts: Facts) -> dict[str, str]:
    return dict(facts.labels)


def podman_root(root: Path, *, sqlite: dict[str, Any] | None = None, bolt: bytes | None = None) -> Path:
    """Return a storage root as Podman leaves it, with its state of version 5 or 4."""
    (root / "overlay-containers").mkdir(parents=True)
    (root / "overlay-containers" / "containers.json").write_text(json.dumps([{"id": "x"}, LISTED]))
    if sqlite is not None:
        with sqlite3.connect(root / "db.sql") as state:
            state.execute("CREATE TABLE ContainerConfig (ID TEXT PRIMARY KEY, Name TEXT, PodID TEXT, JSON TEXT)")
            state.execute("INSERT INTO ContainerConfig VALUES (?, 'web', NULL, ?)", (HEX, json.dumps(sqlite)))
        state.close()
    if bolt is not None:
        (root / "libpod").mkdir()
        (root / "libpod" / "bolt_state.db").write_bytes(bolt)
    return root


def bolt_page(**more: Any) -> bytes:
    config = json.dumps({"spec": {"process": {}}, "id": HEX, "name": "web", **more}, separators=(",", ":"))
    return b"\0" * 64 + HEX.encode() + b"config" + config.encode() + b"\0\0\xff\xfe" * 8


SHOWN = {
    "image": "docker.io/library/nginx:1",
    "compose_project": "shop",
    "compose_service": "web",
    "runtime": "podman",
}


@pytest.mark.parametrize("kind", ["sqlite", "bolt"])
def test_podman_s_state_tells_labels(host: FakeProc, tmp_path: Path, kind: str) -> None:
    state: dict[str, Any] = {"sqlite": {"labels": COMPOSE}} if kind == "sqlite" else {"bolt": bolt_page(labels=COMPOSE)}
    root = podman_root(tmp_path / "storage", **state)

    facts = find(host, f"/machine.slice/libpod-{HEX}.scope", podman_dirs=[root])

    assert (facts.name, facts.project) == ("web", "shop")
    assert labels(facts) == SHOWN


def test_of_two_copies_in_bolt_the_whole_one_counts(tmp_path: Path) -> None:
    broken = f'"id":"{HEX}","name":"we'.encode() + b"\0" * 100
    root = podman_root(tmp_path / "storage", bolt=bolt_page(labels=COMPOSE) + broken)

    found = read_podman(root, HEX)

    assert found is not None
    assert found.labels == COMPOSE


@pytest.mark.parametrize("state", [{}, {"bolt": b"garbage"}, {"sqlite": {"labels": 5}}, {"sqlite": {}}])
def test_without_a_state_the_list_names_name_and_image(host: FakeProc, tmp_path: Path, state: dict[str, Any]) -> None:
    root = podman_root(tmp_path / "storage", **state)

    facts = find(host, f"/machine.slice/libpod-{HEX}.scope", podman_dirs=[root])

    assert (facts.name, labels(facts)) == ("web", {"image": "docker.io/library/nginx:1", "runtime": "podman"})


def test_a_state_of_a_version_to_come_leaves_the_list(tmp_path: Path) -> None:
    root = podman_root(tmp_path / "storage")
    with sqlite3.connect(root / "db.sql") as state:
        state.execute("CREATE TABLE Other (x)")
    state.close()

    found = read_podman(root, HEX)

    assert found is not None
    assert (found.name, found.labels) == ("web", {})


ROOTLESS = "/user.slice/user-1000.slice/user@1000.service/user.slice"


def test_a_user_s_podman_and_docker_are_found_in_the_home(host: FakeProc, tmp_path: Path) -> None:
    podman_root(tmp_path / "1000/.local/share/containers/storage", sqlite={"labels": COMPOSE})
    directory = tmp_path / "1000/.local/share/docker/containers" / HEX
    directory.mkdir(parents=True)
    (directory / "config.v2.json").write_text(json.dumps({"Name": "/db", "Config": {"Image": "pg:16"}}))

    podman = find(host, f"{ROOTLESS}/libpod-{HEX}.scope", home=tmp_path)
    docker = find(host, f"{ROOTLESS}/docker-{HEX}.scope", home=tmp_path)

    assert (podman.name, podman.uid, labels(podman)) == ("web", 1000, SHOWN)
    assert (docker.name, docker.uid, docker.user, labels(docker)["image"]) == ("db", 1000, "1000", "pg:16")


def test_a_stack_of_swarm_is_a_project(host: FakeProc, tmp_path: Path) -> None:
    directory = tmp_path / "containers" / HEX
    directory.mkdir(parents=True)
    said = {"com.docker.stack.namespace": "shop", "com.docker.swarm.service.name": "shop_web"}
    (directory / "config.v2.json").write_text(json.dumps({"Name": "/shop_web.1.x", "Config": {"Labels": said}}))

    facts = find(host, f"/docker/{HEX}", docker_dirs=[tmp_path])

    assert (facts.project, labels(facts)["compose_service"]) == ("shop", "shop_web")


@pytest.mark.parametrize(
    ("annotations", "name", "shown"),
    [
        ({"nerdctl/name": "web", "nerdctl/namespace": "default"}, "web", {}),
        (
            {"io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.image-name": "app:1"},
            "app",
            {"image": "app:1"},
        ),
    ],
)
def test_containerd_s_containers_are_named_by_their_annotations(
    host: FakeProc, tmp_path: Path, annotations: dict[str, str], name: str, shown: dict[str, str]
) -> None:
    directory = tmp_path / "default" / HEX
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"ociVersion": "1.1.0", "annotations": annotations}))

    facts = find(host, f"/default/{HEX}", containerd_dirs=[tmp_path])

    assert facts.name == name
    assert labels(facts) == {**shown, "runtime": "containerd"}


class Engine(ThreadingUnixStreamServer):
    """An engine's API on a socket: it has one container."""

    daemon_threads = True
    status = 200

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self.asked: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        has_it = self.path == f"/containers/{HEX}/json"
        said = {"Id": HEX, "Name": "/web", "Config": {"Image": "nginx:1", "Labels": COMPOSE}}
        body = json.dumps(said if has_it else {"message": "No such container"}).encode()
        self.send_response_only(self.server.status if has_it or self.server.status != 200 else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "socket"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Engine, Path]]:
    path = tmp_path / "docker.sock"
    server = Engine(path)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server, path
    server.shutdown()
    thread.join()
    server.server_close()


def test_where_files_are_closed_the_engine_names_a_container_by_the_next_look(
    host: FakeProc, engine: tuple[Engine, Path]
) -> None:
    server, path = engine
    engines = ContainerEngines()

    first = find(host, f"/docker/{HEX}", engines, container_sockets=[path])
    engines.wait(10)
    second = find(host, f"/docker/{HEX}", engines, container_sockets=[path])
    find(host, f"/docker/{HEX}", engines, container_sockets=[path])

    assert (first.name, second.name, second.project) == (None, "web", "shop")
    assert server.asked == [f"/containers/{HEX}/json"]


def test_a_container_that_no_engine_has_is_asked_for_once(engine: tuple[Engine, Path]) -> None:
    server, path = engine
    engines = ContainerEngines()

    for _ in range(3):
        assert engines.find("a" * 64, [path]) is None
        engines.wait(10)

    assert len(server.asked) == 1


def test_an_engine_that_fails_is_left_alone_for_a_minute(engine: tuple[Engine, Path]) -> None:
    server, path = engine
    server.status = 500
    now_ns = [0]
    engines = ContainerEngines(monotonic_ns=lambda: now_ns[0])

    for at_s in (0, 30, 61):
        now_ns[0] = at_s * 1_000_000_000
        engines.find(HEX, [path])
        engines.wait(10)

    assert len(server.asked) == 2
    with pytest.raises(Unavailable, match="500"):
        ask_engine(path, HEX)


def test_a_socket_that_is_not_there_is_not_asked(tmp_path: Path) -> None:
    asked: list[Path] = []
    engines = ContainerEngines(lambda path, container: asked.append(path))

    engines.find(HEX, [tmp_path / "none.sock", Path("/nonexistent/x.sock")])
    engines.wait(10)

    assert asked == []


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    parse_docker(text)
    parse_annotations(text)
    parse_listed(text, HEX)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["Name", "Config", "annotations", "id", "names", "metadata", "labels"])


@given(st.dictionaries(KEYS, JSON))
def test_any_document_is_taken(document: dict[str, Any]) -> None:
    for text in (json.dumps(document), json.dumps([{**document, "id": HEX}])):
        parse_docker(text)
        parse_annotations(text)
        parse_listed(text, HEX)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.mark.service("podman")
def test_a_real_podman_s_containers_are_named(host: FakeProc, tmp_path: Path, stack: ExitStack) -> None:
    (tmp_path / "tree").mkdir()
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        tar.add(tmp_path / "tree", "etc")
    short = stack.enter_context(tempfile.TemporaryDirectory(prefix="kwhere-pod-"))
    podman = [str(shutil.which("podman")), "--root", f"{tmp_path}/root", "--runroot", short]
    podman += ["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none"]

    def run(*words: str) -> str:
        done = subprocess.run([*podman, *words], check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("import", "-q", f"{tmp_path}/image.tar", "localhost/empty:1")
    told = [part for key, value in COMPOSE.items() for part in ("--label", f"{key}={value}")]
    container = run("create", "--name", "web", "--net=host", *told, "localhost/empty:1", "/bin/true")

    facts = find(host, f"/machine.slice/libpod-{container}.scope", podman_dirs=[tmp_path / "root"])

    assert (facts.name, facts.project) == ("web", "shop")
    assert labels(facts) == {**SHOWN, "image": "localhost/empty:1"}
    assert os.listdir(tmp_path / "root")
    run("rm", "-f", "web")
