"""The manifest of rights: all that is asked for, and nothing else."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes_api import NODES, PODS, TOKEN, granted, kubernetes
from tests.kubernetes_manifests import by_name, documents
from tests.kubernetes_objects import node, pod

from kwhere.apps.settings import Settings
from kwhere.cli.main import COMMANDS
from kwhere.core.clock import SystemClock
from kwhere.core.errors import Unavailable
from kwhere.core.timespan import Span
from kwhere.resource_managers.kubernetes import KubernetesManager
from kwhere.resource_managers.kubernetes_access import Access
from kwhere.resource_managers.kubernetes_api import KubernetesApi
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.transport.settings import HttpClientSettings


def test_all_that_is_asked_for_is_granted_and_no_more() -> None:
    with kubernetes() as cluster:
        cluster.with_kubeflow()
        cluster.put(NODES, node("n1"))
        cluster.put(PODS, pod("p"))
        settings = KubernetesSettings(manager="kubernetes", cluster="k1")
        clock = SystemClock()
        source = KubernetesApi(Access(cluster.url, HttpClientSettings(), TOKEN), clock)
        manager = KubernetesManager(settings, source, clock)
        list(manager.fetch_units(Span(datetime(2026, 11, 29, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))))
        manager.watch(manager.watch(None).cursor)
        manager.fetch_accounts()
        manager.fetch_nodes()
        manager.close()

        assert cluster.used == granted()


def ask_for_secrets() -> None:
    with kubernetes() as cluster:
        source = KubernetesApi(Access(cluster.url, HttpClientSettings(), TOKEN), SystemClock())
        with suppress(Unavailable):
            source.list_all("/api/v1/secrets")
        source.close()


def test_a_question_beyond_the_manifest_fails_the_test_that_asked() -> None:
    with pytest.raises(AssertionError, match="secrets"):
        ask_for_secrets()


def test_the_role_is_bound_to_the_account_that_has_the_token() -> None:
    bound = next(one for one in documents("rights") if one["kind"] == "ClusterRoleBinding")
    account = next(one for one in documents("rights") if one["kind"] == "ServiceAccount")
    (secret,) = documents("server-token")

    assert bound["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": account["metadata"]["namespace"]}
    ]
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account["metadata"]["name"]}


def test_an_agent_may_ask_its_kubelet_for_pods_and_nothing_else() -> None:
    found = {one["kind"]: one for one in documents("agent-token")}

    assert granted("agent-token") == {("", "nodes/pods", "get")}
    assert found["ClusterRoleBinding"]["roleRef"]["name"] == found["ClusterRole"]["metadata"]["name"]
    assert found["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **_place(found["ServiceAccount"])}]
    assert found["Secret"]["metadata"]["annotations"] == {"kubernetes.io/service-account.name": "kwhere-agent-outside"}


def _place(item: Any) -> dict[str, str]:
    return {"name": item["metadata"]["name"], "namespace": item["metadata"]["namespace"]}


def test_the_webhook_asks_the_api_nothing_and_its_settings_are_accepted() -> None:
    parts = by_name("webhook")
    name = "kwhere-admission-webhook"
    texts = parts["ConfigMap", name]["data"]
    (container,) = parts["Deployment", name]["spec"]["template"]["spec"]["containers"]

    settings = Settings.model_validate(yaml.safe_load(texts["kwhere.yaml"]))

    assert not [kind for kind, _ in parts if kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")]
    assert container["args"][0] in COMMANDS
    assert settings.admission_webhook.listen_addresses == (f":{container['ports'][0]['containerPort']}",)
    tls = yaml.safe_load(texts["web.yaml"])["tls_server_config"]
    files = (settings.admission_webhook.key_file, settings.admission_webhook.config_file, *tls.values())
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(Path(str(file)).parent) for file in files} == mounts
    assert not [
        one for one in mounts for other in mounts if one.startswith(f"{other}/")
    ]  # none can be made in a closed one
    hook = parts["MutatingWebhookConfiguration", name]["webhooks"][0]["clientConfig"]["service"]
    assert hook == {**_place(parts["Service", name]), "path": "/stamp"}
