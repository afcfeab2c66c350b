"""A real `kwhere server` with people: HTTPS, a proxy proven by its certificate, API tokens, an identity provider."""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.account_site import Site, worked_case
from tests.databases import sqlite_engine
from tests.journals import HandJournal
from tests.oidc_provider import OidcProvider
from tests.role_process import RoleProcess
from tests.unit.agent.certificates import Authority, make_authority

from kwhere.cli.main import run_root

pytestmark = pytest.mark.slow
OWN = "the-servers-own-token"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def authority(place: Path) -> Authority:
    return make_authority(place)


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    started = OidcProvider()
    yield started
    started.close()


@pytest.fixture(scope="module")
def url(place: Path, authority: Authority, provider: OidcProvider) -> Iterator[str]:
    (place / "state").mkdir()
    engine = sqlite_engine(place / "state" / "kwhere.db")
    Site(engine).take(worked_case(HandJournal()))
    engine.dispose()
    (place / "token").write_text(OWN)
    certificate, key = authority.issue("server.example")
    web = place / "web.yaml"
    web.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}, client_ca_file: {authority.ca_file},"
        " client_auth_type: VerifyClientCertIfGiven}\n"
    )
    configuration = f"""
server: {{listen: "127.0.0.1:0", web_config_file: {web}}}
access:
  token_file: {place / "token"}
  contact: hpc@example.org
  proxy: {{user_header: kubeflow-userid, client_names: [proxy.example]}}
  oidc: [{{issuer: "{provider.issuer}", audience: [kwhere]}}]
  people: [{{name: eve, roles: [auditor]}}]
"""
    server = RoleProcess("server", place, configuration)
    found = re.search(r"https://127[^\"]+/", server.read_until("server answers"))
    assert found
    yield found[0]
    server.end()


def _ask(url: str, authority: Authority, path: str, name: str | None = None, **headers: str) -> httpx.Response:
    context = ssl.create_default_context(cafile=authority.ca_file)
    if name is not None:
        context.load_cert_chain(*authority.issue(name))
    with httpx.Client(verify=context, timeout=20, trust_env=False) as client:
        return client.get(f"{url}{path}", headers={key.replace("_", "-"): value for key, value in headers.items()})


def _units(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {item["unit"] for item in answer.json()["items"]}


def test_a_proxy_is_proven_by_its_certificate_alone(url: str, authority: Authority) -> None:
    named = {"kubeflow_userid": "alice"}

    assert _units(_ask(url, authority, "api/v1/units", "proxy.example", **named)) == {"a"}
    assert _ask(url, authority, "api/v1/units", "other.example", **named).status_code == 403
    assert _ask(url, authority, "api/v1/units", **named).status_code == 403
    assert _ask(url, authority, "api/v1/units").status_code == 401


def test_the_servers_own_token_sees_everything(url: str, authority: Authority) -> None:
    assert _units(_ask(url, authority, "api/v1/units", authorization=f"Bearer {OWN}")) == {"a", "b"}


def test_an_identity_providers_token_is_its_users(url: str, authority: Authority, provider: OidcProvider) -> None:
    token = provider.token(preferred_username="bob")

    assert _units(_ask(url, authority, "api/v1/units", authorization=f"Bearer {token}")) == {"b"}
    assert _ask(url, authority, "api/v1/units", authorization=f"Bearer {token}x").status_code == 401


def test_a_token_made_beside_the_running_server_opens_it_until_it_is_revoked(
    url: str, authority: Authority, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(place / "state")]
    assert run_root(["server", "token", "create", "bob", *state]) == 0
    token = capsys.readouterr().out.strip()

    before = _units(_ask(url, authority, "api/v1/units", authorization=f"Bearer {token}"))
    assert run_root(["server", "token", "revoke", token, *state]) == 0
    after = _ask(url, authority, "api/v1/units", authorization=f"Bearer {token}")

    assert before == {"b"}
    assert after.status_code == 401
    assert "revoked" in after.json()["detail"]


def test_an_auditors_look_is_told_and_metrics_are_kept_from_users(url: str, authority: Authority) -> None:
    eve = {"kubeflow_userid": "eve"}
    page = _ask(url, authority, "units/c1/slurm/b", "proxy.example", accept="text/html", **eve)
    log = _ask(url, authority, "api/v1/audit", "proxy.example", **eve).json()["items"]

    assert "you see it because" in page.text
    assert ("eve", "read unit") in [(line["actor"], line["action"]) for line in log]
    assert _ask(url, authority, "metrics", "proxy.example", **eve).status_code == 200
    alice = _ask(url, authority, "metrics", "proxy.example", kubeflow_userid="alice")
    assert alice.status_code == 403
    assert "ask hpc@example.org" in alice.json()["detail"]
    assert "set-cookie" not in page.headers
