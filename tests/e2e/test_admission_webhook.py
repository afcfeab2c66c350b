"""The webhook as a process before an API server: what it stamps is whose the manager says a pod is."""

import base64
import json
import re
import shutil
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.json_patch import patched
from tests.kubernetes_api import NAMESPACES, PODS, PROFILES, TOKEN, FakeKubernetes, kubernetes
from tests.kubernetes_objects import namespace, owned, pod, profile
from tests.unit.agent.certificates import Authority, make_authority

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.resource_managers.kubernetes_stamps import USER
from kwhere.transport.settings import HttpClientSettings

pytestmark = pytest.mark.slow
KEY = "a-key-that-nobody-knows-0123456789"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"


class Cluster:
    """An API server that asks the webhook before it keeps an object, as its configuration says."""

    def __init__(self, directory: Path, kept: FakeKubernetes, authority: Authority) -> None:
        self.kept = kept
        self.roles = RoleProcesses(directory)
        self.address = free_address()
        self.tls = ssl.create_default_context(cafile=str(authority.ca_file))
        self.key_file = Path(self.roles.secret("stamp.key", KEY + "\n"))
        for source, name in zip(authority.issue("hook"), ("tls.crt", "tls.key"), strict=True):
            shutil.copy(source, directory / name)
        (directory / "web.yaml").write_text("tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n")
        section = {
            "listen_addresses": [self.address],
            "config_file": str(directory / "web.yaml"),
            "key_file": str(self.key_file),
        }
        self.roles.configure("admission-webhook", {"admission_webhook": section})

    def answers(self) -> bool:
        with urllib.request.urlopen(f"https://{self.address}/healthz", timeout=2, context=self.tls) as answer:
            return bool(answer.status == 200)

    def create(self, user: str, item: dict[str, Any], kind: tuple[str, str] = ("", "Pod")) -> dict[str, Any]:
        """Return an object as it is kept: stamped, or as it came where the webhook does not answer."""
        asked = {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": kind[0], "version": "v1", "kind": kind[1]},
            "operation": "CREATE",
            "namespace": item["metadata"].get("namespace", "team-a"),
            "userInfo": {"username": user},
            "object": item,
        }
        found: dict[str, Any] = patched(item, self._patch(asked))
        if kind == ("", "Pod"):
            self.kept.put(PODS, found)
        return found

    def _patch(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        question = urllib.request.Request(
            f"https://{self.address}/stamp?timeout=2s",
            json.dumps(review).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(question, timeout=2, context=self.tls) as answer:
                response = json.load(answer)["response"]
        except OSError:
            return []  # failurePolicy: Ignore
        found: list[dict[str, Any]] = json.loads(base64.b64decode(response.get("patch", "W10=")))
        return found

    def users(self) -> dict[str | None, str | None]:
        """Return whose each pod is as the server's manager reads it."""
        settings = KubernetesSettings(manager="kubernetes", cluster="k1", stamp_key_file=self.key_file)
        source = KubernetesApi(Access(self.kept.url, HttpClientSettings(), TOKEN), SystemClock())
        manager = KubernetesManager(settings, source, SystemClock())
        units = list(manager.fetch_units(Span(datetime(2026, 11, 29, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC))))
        manager.close()
        return {unit.name: unit.user for unit in units}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "ca").mkdir()
    with kubernetes() as kept:
        kept.with_kubeflow()
        kept.put(NAMESPACES, namespace("team-a"))
        kept.put(PROFILES, profile("team-a", "owner@example.org"))
        made = Cluster(tmp_path, kept, make_authority(tmp_path / "ca"))
        yield made
        made.roles.kill_all()


def test_pods_are_charged_to_who_made_them_and_to_nobody_by_a_forged_name(cluster: Cluster) -> None:
    forged = {"annotations": {USER: "alice@example.org", f"{USER}-seal": "v1." + "0" * 64}}
    cluster.create("mallory@example.org", pod("before", metadata=dict(forged)))  # the webhook is not there yet
    cluster.roles.start("admission-webhook")
    cluster.roles.wait_until(cluster.answers)

    cluster.create("bob@example.org", pod("bobs"))
    cluster.create("mallory@example.org", pod("forged", metadata=dict(forged)))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {}}
    made = cluster.create(
        "alice@example.org", {"metadata": {"name": "web"}, "spec": {"template": template}}, ("apps", "Deployment")
    )
    about = {**owned("ReplicaSet", "web-7d"), **made["spec"]["template"]["metadata"]}
    cluster.create(CONTROLLER, pod("web-7d-x2", metadata=about))
    cluster.create("system:serviceaccount:kubeflow:ml-pipeline", pod("step"))
    cluster.roles.end("admission-webhook", signal.SIGTERM)
    cluster.create("mallory@example.org", pod("after", metadata=dict(forged)))

    assert cluster.users() == {
        "before": "owner@example.org",
        "bobs": "bob@example.org",
        "forged": "mallory@example.org",
        "web-7d-x2": "alice@example.org",
        "step": "owner@example.org",
        "after": "owner@example.org",
    }
    said = (cluster.roles.directory / "admission-webhook.log").read_text()
    assert len(re.findall("admission-webhook answers", said)) == 1
    assert "admission-webhook ends" in said
    assert KEY not in said
