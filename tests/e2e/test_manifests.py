"""The settings that the manifests ship, in processes beside an API server: the ledger goes to the server alone."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.role_processes import RoleProcesses, free_address
from tests.kubernetes_api import NODES, PODS, TOKEN, FakeKubernetes, kubernetes
from tests.kubernetes_manifests import SITE, by_name
from tests.kubernetes_objects import node, pod
from tests.unit.agent.certificates import Authority, make_authority

pytestmark = pytest.mark.slow
OWN = replace(SITE, has_manager=False)
OPERATOR = "token-of-the-operator-0123456789"


class Cluster:
    """One node, its agent and the server, with the files that kubelet would mount."""

    def __init__(self, directory: Path, api: FakeKubernetes, authority: Authority) -> None:
        self.authority = authority
        self.roles = RoleProcesses(directory)
        self.agent, self.server = free_address(), free_address()
        self.port = self.agent.partition(":")[2]
        secret = {"token_file": self.roles.secret("api-token", TOKEN), "ca_file": str(authority.ca_file)}
        manager = {"manager": "kubernetes", "cluster": "k1", "url": api.url, "http": secret, "interval_seconds": 1}
        self._mount("agent", "localhost", {"agent": {"slot_seconds": 1}, "web": {"anonymous_names": True}})
        self._mount("server", "kwhere-server.kwhere.svc", {"resource_managers": [manager]})

    def _mount(self, role: str, name: str, site: dict[str, Any]) -> None:
        """Write a role's ConfigMap, its secrets, and what a site adds."""
        place = self.roles.directory / f"etc-{role}"
        (place / "conf.d").mkdir(parents=True)
        certificate, key = self.authority.issue(name)
        for file, source in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", self.authority.ca_file)):
            (place / file).write_bytes(source.read_bytes())
        (place / "token").write_text(OPERATOR)
        moved = {
            "/etc/kwhere-tls": str(place), "/etc/kwhere-token": str(place), "/etc/kwhere/": f"{place}/",
            "/host/sys": "/sys", '":9810"': f'"{self.agent}"', "kwhere-agent.kwhere.svc:9810": f"localhost:{self.port}",
            "0.0.0.0:9811": self.server, "${NODE_NAME}": "n1",
        }  # fmt: skip
        for file, text in by_name(role, site=OWN)["ConfigMap", f"kwhere-{role}"]["data"].items():
            for shipped, here in moved.items():
                text = text.replace(shipped, here)
            (place / file).write_text(text)
        (place / "conf.d" / "site.yaml").write_text(json.dumps(site))

    def start(self) -> None:
        for role in ("agent", "server"):
            self.roles.start(f"etc-{role}/kwhere", role)

    def ask_agent(self, path: str, shown: str | None = None) -> int:
        """Return the status that the agent answers, with a certificate of this name shown."""
        trust = ssl.create_default_context(cafile=str(self.authority.ca_file))
        if shown is not None:
            trust.load_cert_chain(*self.authority.issue(shown))
        try:
            with urllib.request.urlopen(f"https://localhost:{self.port}{path}", timeout=5, context=trust) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def ask_server(self, path: str) -> Any:
        question = urllib.request.Request(
            f"http://{self.server}/api/v1{path}", headers={"Authorization": f"Bearer {OPERATOR}"}
        )
        with urllib.request.urlopen(question, timeout=10) as answer:
            return json.load(answer)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "ca").mkdir()
    authority = make_authority(tmp_path / "ca")
    with kubernetes(authority.issue("api")) as api:
        api.put(NODES, node("n1"))
        api.put(PODS, pod("web"))
        (tmp_path / "roles").mkdir()
        made = Cluster(tmp_path / "roles", api, authority)
        yield made
        made.roles.kill_all()


def test_the_roles_find_each_other_by_what_is_shipped(cluster: Cluster) -> None:
    cluster.start()
    cluster.roles.wait_until(lambda: [item["state"] for item in cluster.ask_server("/nodes")["items"]] == ["up"])
    cluster.roles.wait_until(lambda: {unit["name"] for unit in cluster.ask_server("/units")["items"]} >= {"web"})

    assert [item["node"] for item in cluster.ask_server("/nodes")["items"]] == ["n1"]
    asked = {
        name: cluster.ask_agent("/ledger", name) for name in (None, "api", "localhost", "kwhere-server.kwhere.svc")
    }
    assert asked == {None: 401, "api": 401, "localhost": 401, "kwhere-server.kwhere.svc": 200}
    assert [cluster.ask_agent(path) for path in ("/healthz", "/metrics")] == [200, 200]
