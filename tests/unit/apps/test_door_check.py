"""What the door's settings name is read before anything starts, and `kwhere config check` reads it too."""

from pathlib import Path

import pytest
from tests.unit.agent.certificates import Authority, make_authority

from kwhere.apps.configuration import load
from kwhere.apps.door_check import check_door
from kwhere.apps.settings import Settings
from kwhere.cli.main import run_root
from kwhere.core.errors import ConfigError

HASH = "$2b$10$" + "a" * 53


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


def _check(place: Path, text: str) -> object:
    file = place / "kwhere.yaml"
    file.write_text(text)
    return check_door(load(Settings, file))


def _web(place: Path, authority: Authority, more: str = "", beside: str = "") -> Path:
    certificate, key = authority.issue("server.example")
    file = place / "web.yaml"
    file.write_text(f"tls_server_config: {{cert_file: {certificate}, key_file: {key}{more}}}\n{beside}")
    return file


def test_without_any_of_it_there_is_no_tls(tmp_path: Path) -> None:
    assert _check(tmp_path, "") is None


def test_tls_is_built_from_the_file(tmp_path: Path, authority: Authority) -> None:
    assert _check(tmp_path, f"server: {{web_config_file: {_web(tmp_path, authority)}}}") is not None


@pytest.mark.parametrize(
    ("more", "beside"),
    [
        ("", f"basic_auth_users: {{alice: {HASH}}}"),
        ("", "http_server_config: {headers: {X-Frame-Options: deny}}"),
        (
            ", client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [p.example]",
            "",
        ),
    ],
)
def test_what_would_not_be_heeded_is_refused(tmp_path: Path, authority: Authority, more: str, beside: str) -> None:
    web = _web(tmp_path, authority, more.replace("ca.pem", str(authority.ca_file)), beside)

    with pytest.raises(ConfigError, match=r"server\.web_config_file: .*access"):
        _check(tmp_path, f"server: {{web_config_file: {web}}}")


def test_certificates_prove_nothing_without_tls(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"access\.proxy\.client_names: needs server\.web_config_file"):
        _check(tmp_path, "access: {proxy: {client_names: [p.example]}}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("access: {proxy: {}}", "anybody could name anybody"),
        (
            "access: {proxy: {secret_file: /nonexistent}}",
            "access.proxy.secret_file: /nonexistent: this secret cannot be read",
        ),
        ("access: {proxy: {client_names: [p]}}", "needs server.web_config_file"),
        ("access: {proxy: {client_names: [p], user_header: x_user}}", "access.proxy.user_header"),
        ("access: {people: [{name: 'al ice'}]}", "holds a space"),
        ("access: {people: [{name: a, roles: [root]}]}", "access.people.0.roles.0"),
        ("access: {people: [{name: a}, {name: a}]}", "is there twice"),
        ("access: {oidc: [{issuer: i, audience: [a], algorithms: [HS256]}]}", "access.oidc.0.algorithms.0"),
        ("access: {oidc: [{issuer: i, audience: []}]}", "access.oidc.0.audience"),
        ("access: {grafana: {url: 'http://g', teams: []}}", "access.grafana.teams"),
        ("access: {operators: [a]}", "access.operators: unknown key"),
    ],
)
def test_config_check_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    file = tmp_path / "kwhere.yaml"
    file.write_text(text)

    assert run_root(["config", "check", str(file)]) == 2
    assert told in capsys.readouterr().err
