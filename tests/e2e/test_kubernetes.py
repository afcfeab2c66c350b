"""A recorded node of a Kubernetes cluster, an agent, a server and an API server: pods have names, makers and users."""

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.kubernetes_api import (
    NAMESPACES,
    NODES,
    NOTEBOOKS,
    PODS,
    PROFILES,
    TOKEN,
    WORKFLOWS,
    FakeKubernetes,
    kubernetes,
)
from tests.kubernetes_objects import container, namespace, node, notebook, owned, pod, profile, workflow
from tests.unit.agent.certificates import make_authority

RECORDED = Path(__file__).parents[1] / "fixtures" / "hosts" / "k8s-v2-systemd" / "cgroup" / "0"
BURSTABLE = "1a2b3c4d-0000-4000-8000-00000000000b"
GUARANTEED = "1a2b3c4d-0000-4000-8000-00000000000f"
BEST_EFFORT = "1a2b3c4d-0000-4000-8000-0000000000be"
pytestmark = pytest.mark.slow
LEDGER_TOKEN = "agent-token-of-the-tests-0123456789"


class World:
    """The node, its agent, the server and the cluster's API."""

    def __init__(self, cluster: FakeKubernetes, directory: Path, ca_file: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.roles = RoleProcesses(directory)
        self.agent, self.server = free_address(), free_address()
        self.roles.state.mkdir(0o700)
        ledger_token = self.roles.secret("agent/ledger-token", LEDGER_TOKEN + "\n")
        self.process = subprocess.Popen(["sleep", "600"])
        self.used: dict[Path, int] = {}
        self._record()
        self.work()
        self.roles.configure(
            "agent",
            {
                "agent": {"slot_seconds": 1, "interval_seconds": 0.2, "node": "n1.cluster.example"},
                "path": {"cgroupfs": str(directory / "cgroup")},
                "units": {"pod_log_dir": str(directory / "pods")},
                "web": {"listen_addresses": [self.agent]},
            },
        )
        target = {
            "name": "g",
            "cluster": "k1",
            "urls": [f"http://{self.agent}"],
            "client": {"token_file": ledger_token},
        }
        api = {"token_file": self.roles.secret("api-token", TOKEN), "ca_file": str(ca_file)}
        manager = {"manager": "kubernetes", "cluster": "k1", "url": cluster.url, "http": api}
        self.roles.configure(
            "server",
            {
                "server": {"listen": self.server, "pull_seconds": 0.5, "targets": [target]},
                "database": {"url": f"sqlite:///{directory}/account.db"},
                "resource_managers": [{**manager, "interval_seconds": 1, "facts_seconds": 1, "tenancy_seconds": 1}],
            },
        )

    def _record(self) -> None:
        """Make the node's cgroups, with a process that runs."""
        shutil.copytree(RECORDED, self.directory / "cgroup")
        for file in (self.directory / "cgroup").rglob("cgroup.procs"):
            file.write_text(f"{self.process.pid}\n" if file.parent.name.startswith("cri-") else "")

    def work(self) -> None:
        """Let every pod have used some more CPU time; files are written in place, since they are held open."""
        for file in (self.directory / "cgroup" / "kubepods.slice").rglob("cpu.stat"):
            self.used[file] = self.used.get(file, 100_000_000) + 20_000
            used_us = self.used[file]
            with file.open("r+b") as opened:
                opened.write(b"usage_usec %d\nuser_usec %d\nsystem_usec 0\n" % (used_us, used_us))
                opened.truncate()

    def start(self) -> None:
        """Start agent and server, and let the pods work."""
        for role in ("agent", "server"):
            self.roles.start(role)
        self.wait_until(lambda: len(self.get("/units")["items"]) >= 3)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds while the pods work."""

        def works_and_holds() -> bool:
            self.work()
            return holds()

        self.roles.wait_until(works_and_holds)

    def end(self) -> None:
        """End all that was started."""
        self.roles.kill_all()
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.server}/api/v1{path}", timeout=10) as answer:
            return json.load(answer)

    def pod(self, uid: str) -> dict[str, Any]:
        """Return a pod's unit, empty while there is none."""
        try:
            found: dict[str, Any] = self.get(f"/units/k1/kubernetes/{uid}")
        except urllib.error.HTTPError:
            return {}
        return found

    def metrics(self) -> list[str]:
        """Return the lines of the server's own metrics that are Kubeflow's."""
        with urllib.request.urlopen(f"http://{self.server}/metrics", timeout=10) as answer:
            return [line for line in answer.read().decode().splitlines() if line.startswith("kubeflow_")]

    def kwhere(self, *words: str) -> str:
        command = [sys.executable, "-m", "kwhere", *words, "--server", f"http://{self.server}"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "ca").mkdir()
    authority = make_authority(tmp_path / "ca")
    with kubernetes(authority.issue("api")) as cluster:
        cluster.with_kubeflow()
        cluster.put(NAMESPACES, namespace("team-a"))
        cluster.put(PROFILES, profile("team-a", "alice@example.org"))
        cluster.put(NOTEBOOKS, notebook("nb", activity="2026-11-29T12:20:00Z"))
        cluster.put(WORKFLOWS, workflow("train-1", "Running", "run-1"))
        cluster.put(NODES, node("n1"))
        limits = container("main", cpu="2", memory="3Gi")
        web = owned("ReplicaSet", "web-7d9f6c5b8", pod_template_hash="7d9f6c5b8")
        cluster.put(PODS, pod("web-7d9f6c5b8-x2x4z", uid=BURSTABLE, metadata=dict(web), spec={"containers": [limits]}))
        cluster.put(PODS, pod("train-worker-0", uid=GUARANTEED, metadata=owned("PyTorchJob", "train")))
        cluster.put(PODS, pod("elsewhere", uid=BEST_EFFORT, node="n2"))
        made = World(cluster, tmp_path, authority.ca_file)
        try:
            made.start()
            yield made
        finally:
            made.end()


def test_pods_have_names_makers_and_users_and_end(world: World) -> None:
    for uid in (GUARANTEED, BURSTABLE):
        world.wait_until(lambda uid=uid: world.pod(uid).get("user") == "alice@example.org")  # type: ignore[misc]
    world.wait_until(lambda: "unverified" in world.pod(BEST_EFFORT).get("quality", ()))

    web, elsewhere = world.pod(BURSTABLE), world.pod(BEST_EFFORT)
    assert (web["name"], web["project"], web["queue"]) == ("web-7d9f6c5b8-x2x4z", "team-a", "team-a")
    assert web["allocation"] == {"cpus": 2.0, "memory_bytes": 3 * 1024**3, "gpus": {}}
    assert (web["labels"]["kube_owner_kind"], web["labels"]["kube_owner"]) == ("Deployment", "web")
    assert world.pod(GUARANTEED)["labels"]["kube_owner_kind"] == "PyTorchJob"
    # The API placed that pod on another node: whoever works under its name here is charged to nobody.
    assert (elsewhere["name"], elsewhere["user"]) == (None, None)
    listed = [json.loads(line) for line in [world.kwhere("units", "--user", "alice@example.org", "--json")]]
    # A pod on a node without an agent is told of too, without any figure.
    assert {each["name"]: each["energy_joules_total"] is None for each in listed[0]["items"]} == {
        "web-7d9f6c5b8-x2x4z": False,
        "train-worker-0": False,
        "elsewhere": True,
    }

    world.wait_until(lambda: any("kubeflow_active_users" in line for line in world.metrics()))
    assert {
        'kubeflow_profile_info{profile="team-a",owner="alice@example.org"} 1',
        'kubeflow_notebook_running{namespace="team-a",name="nb"} 1',
        'kubeflow_notebook_last_activity_timestamp_seconds{namespace="team-a",name="nb"} 1795954800.0',
        'kubeflow_pipeline_runs{namespace="team-a",state="running"} 1',
    } <= set(world.metrics())

    world.cluster.delete(PODS, "train-worker-0", "team-a")
    world.cluster.forget()
    world.wait_until(lambda: world.pod(GUARANTEED)["ended_at"] is not None)

    # Whether its end was heard of before it was forgotten is chance.
    assert world.pod(GUARANTEED)["state"] in ("deleted", "vanished")
