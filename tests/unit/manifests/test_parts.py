"""The shipped manifests: they fit Kubernetes' schema, ask for no more than they need, and their settings are ours."""

import base64
import configparser
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.kubernetes_manifests import SITE, by_name, documents

from kwhere.agent.web_config import TlsServerConfig
from kwhere.apps.settings import Settings
from kwhere.cli.main import COMMANDS, run_root
from kwhere.core.errors import ConfigError
from kwhere.manifests.parts import PARTS, Site, render, template

FOREIGN = ("cert-manager.io/", "networking.istio.io/")
"""Kinds that are not Kubernetes' own."""
UNIT_FILE = Path(__file__).parents[3] / "packaging" / "systemd" / "kwhere-agent.service"
SECRET_WORDS = "secret-of-the-tests-0123456789"
ROLES = {"agent": "DaemonSet", "server": "StatefulSet", "webhook": "Deployment"}
NAMES = {"agent": "kwhere-agent", "server": "kwhere-server", "webhook": "kwhere-admission-webhook"}


def pod_of(part: str) -> Any:
    return by_name(part)[ROLES[part], NAMES[part]]["spec"]["template"]["spec"]


@pytest.mark.parametrize(("version", "strict"), [("1.37", True), ("1.30", True), ("1.27", False)])
@pytest.mark.parametrize("part", PARTS)
def test_each_object_fits_kubernetes_schema(part: str, version: str, strict: bool) -> None:
    for item in documents(part):
        if not item["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(item, version, strict=strict)


@pytest.mark.parametrize("part", PARTS)
def test_all_that_has_a_namespace_is_in_the_one_that_was_asked_for(part: str) -> None:
    text = render([part], Site(**{**_fields(), "namespace": "energy"}))

    places = {item["metadata"].get("namespace") for item in yaml.safe_load_all(text)}
    assert places <= {"energy", None}
    assert "@{" not in text
    assert "kwhere.svc" not in text


def _fields() -> dict[str, Any]:
    return {name: getattr(SITE, name) for name in Site.__slots__}


def test_parts_come_in_the_order_in_which_they_are_applied() -> None:
    kinds = [item["kind"] for item in documents("agent", "rights")]

    assert kinds[0] == "Namespace"
    assert kinds.index("DaemonSet") > kinds.index("ClusterRoleBinding")


@pytest.mark.parametrize("part", ROLES)
def test_a_role_drops_all_it_does_not_need(part: str) -> None:
    pod = pod_of(part)
    (container,) = pod["containers"]
    bounds = {**pod["securityContext"], **container["securityContext"]}

    assert bounds["allowPrivilegeEscalation"] is False
    assert bounds["readOnlyRootFilesystem"] is True
    assert bounds["capabilities"]["drop"] == ["ALL"]
    assert bounds["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "privileged" not in bounds
    assert "hostNetwork" not in pod
    assert pod["automountServiceAccountToken"] is (part == "server")
    writable = {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable <= {"state", "tmp"}
    assert {"requests", "limits"} <= container["resources"].keys()
    if part != "agent":
        assert (bounds["runAsNonRoot"], bounds["runAsUser"]) == (True, 65534)
        assert "hostPID" not in pod
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


@pytest.mark.parametrize(
    ("part", "words", "unit"),
    [
        ("agent", r"\| its memory \|[^|]*\| \*\*([0-9.]+) MiB", 1.0),
        ("webhook", r"`bench/admission.py`; ([0-9]+) MB RSS", 0.954),
        ("server", r"100,000 SLURM jobs of two weeks[^|]*, SQLite \|[^|]*\|[^|]*\*\*([0-9]+) MB\*\*", 0.954),
    ],
    ids=["agent", "webhook", "server"],
)
def test_a_role_asks_for_what_it_was_measured_to_need_case_users_66(part: str, words: str, unit: float) -> None:
    """And its limit, at which it is killed, is far from that."""
    performance = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    measured = re.search(words, performance)
    asked = pod_of(part)["containers"][0]["resources"]
    assert measured

    needed_mib = float(measured[1]) * unit
    limit = asked["limits"]["memory"]
    limit_mib = int(limit[:-2]) * (1024 if limit.endswith("Gi") else 1)
    assert needed_mib < int(asked["requests"]["memory"].removesuffix("Mi"))
    assert limit_mib > 2 * needed_mib
    assert "cpu" not in asked["limits"]


def test_the_agent_has_the_capabilities_that_it_has_under_systemd() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(UNIT_FILE.read_text())
    (container,) = pod_of("agent")["containers"]

    given = {f"CAP_{name}" for name in container["securityContext"]["capabilities"]["add"]}

    assert given == set(unit["Service"]["CapabilityBoundingSet"].split())


@pytest.mark.parametrize("part", ROLES)
def test_the_settings_of_a_role_are_accepted_and_its_files_are_mounted(part: str) -> None:
    pod = pod_of(part)
    (container,) = pod["containers"]
    texts = by_name(part)["ConfigMap", NAMES[part]]["data"]
    words = texts["kwhere.yaml"].replace("${NODE_NAME}", "n1")

    Settings.model_validate(yaml.safe_load(words))

    tls = yaml.safe_load(texts.get("web.yaml", "{}")).get("tls_server_config")
    if tls is not None:
        TlsServerConfig.model_validate(tls)
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    named = {word.strip('[]",') for word in " ".join(texts.values()).split() if word.startswith("/etc/kwhere")}
    assert {str(Path(file).parent) for file in named} <= mounts
    assert not [one for one in mounts for other in mounts if one.startswith(f"{other}/")]  # none in a closed one
    assert container["args"][0] in COMMANDS
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]} | (
        {"state"} if part == "server" else set()
    )


@pytest.mark.parametrize("part", ROLES)
def test_services_and_policies_mean_the_role_s_pods(part: str) -> None:
    parts = by_name(part)
    name = NAMES[part]
    labels = parts[ROLES[part], name]["spec"]["template"]["metadata"]["labels"]
    (port,) = pod_of(part)["containers"][0]["ports"]

    assert parts[ROLES[part], name]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert parts["Service", name]["spec"]["selector"].items() <= labels.items()
    policy = parts["NetworkPolicy", name]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert [one["ports"] for one in policy["ingress"]] == [[{"port": port["containerPort"]}]]


def test_the_server_asks_the_agents_by_the_name_that_their_certificate_has() -> None:
    settings = yaml.safe_load(by_name("server")["ConfigMap", "kwhere-server"]["data"]["kwhere.yaml"])
    (target,) = settings["server"]["targets"]
    certificates = by_name("certificates")
    web = yaml.safe_load(by_name("agent")["ConfigMap", "kwhere-agent"]["data"]["web.yaml"])["tls_server_config"]

    (address,) = target["dns"]
    agent, server = (certificates["Certificate", f"kwhere-{role}"]["spec"] for role in ("agent", "server"))
    assert address.partition(":")[0] in agent["dnsNames"]
    assert web["client_allowed_sans"] == server["dnsNames"]
    assert [spec["secretName"] for spec in (agent, server)] == ["kwhere-agent-tls", "kwhere-server-tls"]


def test_a_site_may_name_the_cluster_s_manager_itself() -> None:
    site = Site(**{**_fields(), "has_manager": False})
    texts = by_name("server", site=site)["ConfigMap", "kwhere-server"]["data"]

    settings = Settings.model_validate(yaml.safe_load(texts["kwhere.yaml"]))

    assert settings.resource_managers == ()
    assert [target.cluster for target in settings.server.targets] == ["k1"]


def test_the_webhook_is_reached_from_the_control_plane_alone() -> None:
    (rule,) = by_name("webhook")["NetworkPolicy", "kwhere-admission-webhook"]["spec"]["ingress"]

    assert rule["from"] == [{"ipBlock": {"cidr": "192.0.2.1/32"}}, {"ipBlock": {"cidr": "2001:db8::/64"}}]


def test_an_authority_stands_where_the_api_server_looks_for_it() -> None:
    pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    (hook,) = [
        one
        for one in documents("webhook", site=Site(**{**_fields(), "ca": pem}))
        if one["kind"] == "MutatingWebhookConfiguration"
    ]

    assert base64.b64decode(hook["webhooks"][0]["clientConfig"]["caBundle"]) == pem


@pytest.mark.parametrize(("part", "lacking"), [
    ("agent", "--image"), ("server", "--cluster"), ("webhook", "--control-plane"), ("kubeflow", "--host"),
])  # fmt: skip
def test_a_part_says_which_option_it_lacks(part: str, lacking: str) -> None:
    with pytest.raises(ConfigError, match=f"manifests {part}: expected .*{lacking}"):
        render([part], Site())


@pytest.mark.parametrize(("changes", "said"), [
    ({"namespace": "Kwhere"}, "--namespace"), ({"namespace": "a: b"}, "--namespace"), ({"image": "a b"}, "--image"),
    ({"image": 'x"\nkind: Secret'}, "--image"), ({"cluster": "k 1"}, "--cluster"), ({"host": "a/b"}, "--host"),
    ({"control_plane": ("10.0.0.1/8",)}, "--control-plane"), ({"control_plane": ("k1",)}, "--control-plane"),
    ({"ca": b"no"}, "--ca-file"), ({"proxy_secret": "short"}, "--proxy-secret-file"),
    ({"ca": b"-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----"}, "--ca-file"),
])  # fmt: skip
def test_what_would_not_be_one_word_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        render(PARTS, Site(**{**_fields(), **changes}))


def test_a_secret_is_not_told_in_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        render(["kubeflow"], Site(host="h", proxy_secret='secret "quoted" 0123456789'))

    assert "quoted" not in str(caught.value)


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True))
def test_a_name_that_looks_like_a_number_or_like_nothing_stays_a_name(word: str) -> None:
    found = documents("agent", "server", site=Site(namespace=word, image=word, cluster=word))

    assert {one["metadata"]["namespace"] for one in found} == {word}
    pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] in ROLES.values()]
    assert {pod["containers"][0]["image"] for pod in pods} == {word}
    (texts,) = (one["data"] for one in found if one["metadata"]["name"] == "kwhere-server" and "data" in one)
    settings = Settings.model_validate(yaml.safe_load(texts["kwhere.yaml"]))
    assert [manager["cluster"] for manager in settings.resource_managers] == [word]


@given(st.sampled_from(["namespace", "image", "cluster", "host", "proxy_secret"]), st.text(max_size=80))
def test_any_word_leaves_the_number_of_objects_as_it_is_or_is_refused(name: str, word: str) -> None:
    try:
        found = documents(*PARTS, site=Site(**{**_fields(), name: word}))
    except ConfigError:
        return

    assert [one["kind"] for one in found] == [one["kind"] for one in documents(*PARTS)]


def test_the_command_prints_what_kubectl_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text(SECRET_WORDS + "\n")

    code = run_root(["manifests", "kubeflow", "--host", "h.example", "--proxy-secret-file", str(tmp_path / "secret")])

    (item,) = yaml.safe_load_all(capsys.readouterr().out)
    assert code == 0
    assert item["spec"]["http"][0]["headers"]["request"]["set"] == {"x-kwhere-proxy-secret": SECRET_WORDS}


def test_without_a_part_the_command_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["manifests"]) == 0

    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PARTS)
    assert all(template(part) for part in PARTS)


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["manifests", "webhook", "--ca-file", "/nonexistent"]) == 2

    assert "--ca-file: /nonexistent" in capsys.readouterr().err
