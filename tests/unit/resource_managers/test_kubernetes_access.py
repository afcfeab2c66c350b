"""Addresses and credentials: settings, kubeconfig, service account."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.emission_services import HandClock
from tests.kubernetes_api import PODS, TOKEN, kubernetes
from tests.kubernetes_objects import pod
from tests.unit.agent.certificates import Authority, make_authority

from kwhere.core.errors import ConfigError
from kwhere.resource_managers.kubernetes import build
from kwhere.resource_managers.kubernetes_access import find_access, read_kubeconfig
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.transport.settings import HttpClientSettings

OURS = HttpClientSettings()


def settings(**keys: Any) -> KubernetesSettings:
    return KubernetesSettings(manager="kubernetes", cluster="k1", **keys)


def kubeconfig(directory: Path, cluster: Any, user: Any, **changes: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "other", "cluster": {}}, {"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        **changes,
    }
    file = directory / "config"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def test_a_pod_finds_its_own_cluster(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.crt").write_bytes(authority.ca_file.read_bytes())

    found = find_access(settings(), {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)

    assert found.url == "https://[fd00::1]:6443"
    assert found.read_token() == TOKEN
    assert found.http.ca_file == tmp_path / "ca.crt"


def test_outside_of_a_cluster_an_address_is_needed() -> None:
    with pytest.raises(ConfigError, match="url: expected url or kubeconfig outside of a cluster"):
        find_access(settings(), {})


@pytest.mark.parametrize("inline", [False, True])
def test_a_kubeconfig_with_files_or_with_data(authority: Authority, tmp_path: Path, inline: bool) -> None:
    certificate, key = authority.issue("kwhere")
    if inline:
        trust = {"certificate-authority-data": encoded(authority.ca_file)}
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key), "token": TOKEN}
    else:
        (tmp_path / "ca.pem").write_bytes(authority.ca_file.read_bytes())
        trust = {"certificate-authority": "ca.pem"}  # relative to the kubeconfig
        user = {"client-certificate": str(certificate), "client-key": str(key), "token": TOKEN}
    with kubernetes(authority.issue("api")) as cluster:
        cluster.put(PODS, pod("p"))
        file = kubeconfig(tmp_path, {"server": cluster.url, **trust}, user)
        access = read_kubeconfig(file, None, OURS)
        with access.connect(access.read_token()) as client:
            answer = client.get(PODS)

    assert answer.status == 200
    assert TOKEN not in repr(access)


@pytest.mark.parametrize(
    ("cluster", "user", "changes", "message"),
    [
        ({"server": "https://a", "insecure-skip-tls-verify": True}, {}, {}, "a server is always verified"),
        ({"server": "https://a"}, {"exec": {"command": "aws"}}, {}, "users.u.exec: expected token"),
        ({"server": "https://a"}, {"auth-provider": {}}, {}, "users.u.auth-provider: expected token"),
        ({"server": "https://a"}, {"username": "x", "password": "sesame"}, {}, "users.u.username: expected token"),
        ({"server": "http://a"}, {"token": "sesame"}, {}, "a token is sent over https"),
        ({"server": ""}, {}, {}, "expected http:// or https://"),
        ({"server": 7}, {}, {}, "server: expected text, found int"),
        ({"server": "https://a", "certificate-authority-data": "%%"}, {}, {}, "expected base64"),
        ({"server": "https://a", "certificate-authority-data": "bm9uZQ=="}, {}, {}, "expected certificates in PEM"),
        ({"server": "https://a"}, {"client-certificate-data": "c2VzYW1l"}, {}, "expected certificate and key"),
        ({"server": "https://a"}, {}, {"current-context": ""}, "expected a current-context"),
        ({"server": "https://a"}, {}, {"current-context": "gone"}, "expected 'gone' among its contexts"),
        ({"server": "https://a"}, {}, {"users": None}, "expected 'u' among its users"),
        ("none", {}, {}, "clusters.c: expected a mapping, found str"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    tmp_path: Path, cluster: Any, user: Any, changes: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=r"url|kubeconfig") as caught:
        read_kubeconfig(kubeconfig(tmp_path, cluster, user, **changes), None, OURS)

    assert message in str(caught.value)
    assert "sesame" not in str(caught.value)


@given(st.binary(max_size=80) | st.sampled_from([b"current-context: a\ncontexts: [", b"a: &a [*a]", b"[]", b"{}"]))
def test_any_file_is_a_kubeconfig_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)

    with pytest.raises(ConfigError):
        read_kubeconfig(file, None, OURS)


def test_a_token_file_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    http = HttpClientSettings(token_file=tmp_path / "none")

    with pytest.raises(ConfigError, match=r"http\.token_file"):
        build(settings(url="https://api.example", http=http), HandClock())


def test_address_and_kubeconfig_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected it or url, found both"):
        find_access(settings(url="https://api.example", kubeconfig=tmp_path / "config"))
