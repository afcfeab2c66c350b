import ssl
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.agent.certificates import Authority

from kwhere.agent.web_config import WebConfig, load_web_config, watched_files
from kwhere.core.errors import ConfigError

HASH = "$2y$10$cgFd9SZyp7LJ1J7rrbP1DuZTRyGGJ7PJyZRw9HR6JdxvtnJ7Ejbxe"


def written(directory: Path, text: str) -> Path:
    path = directory / "web.yaml"
    path.write_text(text)
    return path


def test_no_file_is_plain_http_for_everyone() -> None:
    assert load_web_config(None) == WebConfig()
    assert not load_web_config(None).is_protected


def test_empty_file_is_plain_http_for_everyone(tmp_path: Path) -> None:
    assert load_web_config(written(tmp_path, "# nothing yet\n")) == WebConfig()


def test_whole_file(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("node1")
    path = written(
        tmp_path,
        f"""
tls_server_config:
  cert_file: {certificate}
  key_file: {key}
  client_ca_file: {authority.ca_file}
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [server1]
  min_version: TLS13
http_server_config:
  http2: true
  headers:
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
""",
    )

    web = load_web_config(path)

    assert web.tls is not None
    assert web.tls.minimum_version is ssl.TLSVersion.TLSv1_3
    assert web.tls.verify_mode is ssl.CERT_REQUIRED
    assert web.client_certificates == "required"
    assert web.client_allowed_sans == ("server1",)
    assert web.users == {"alice": HASH}
    assert web.headers == (("Strict-Transport-Security", "max-age=31536000"),)
    assert web.is_protected
    assert watched_files(path) == (path, certificate, key, authority.ca_file)


def test_paths_are_relative_to_the_file(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("node1")
    (tmp_path / "node.pem").write_bytes(certificate.read_bytes())
    (tmp_path / "node.key").write_bytes(key.read_bytes())

    web = load_web_config(written(tmp_path, "tls_server_config: {cert_file: node.pem, key_file: node.key}"))

    assert web.tls is not None
    assert web.tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert web.client_certificates == "no"
    assert not web.is_protected


def test_tls_with_users_is_protected(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("node1")
    tls = f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n"

    assert load_web_config(written(tmp_path, f"{tls}basic_auth_users: {{alice: {HASH}}}")).is_protected


def test_users_without_tls_are_not_protected(tmp_path: Path) -> None:
    assert not load_web_config(written(tmp_path, f"basic_auth_users: {{alice: {HASH}}}")).is_protected


WRONG = {
    "unknown key": ("tls_config: {}", r"web\.yaml: tls_config: unknown key"),
    "unknown TLS key": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, cipher: x}",
        r"tls_server_config\.cipher: unknown key",
    ),
    "cipher suites": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, cipher_suites: [x]}",
        r"tls_server_config\.cipher_suites: unknown key",
    ),
    "no key": ("tls_server_config: {cert_file: CERT}", r"tls_server_config\.key_file: Field required"),
    "no such certificate": (
        "tls_server_config: {cert_file: gone.pem, key_file: KEY}",
        r"gone\.pem and .*: No such file",
    ),
    "key of another": ("tls_server_config: {cert_file: CERT, key_file: OTHER}", r"key values mismatch"),
    "no certificate": ("tls_server_config: {cert_file: KEY, key_file: KEY}", r"tls_server_config: .*\.key and"),
    "client auth type": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, client_auth_type: RequireAnyClientCert}",
        r"client_auth_type: .*certificates that nobody verifies are no use",
    ),
    "client auth without authority": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, client_auth_type: RequireAndVerifyClientCert}",
        r"client_ca_file: expected a file",
    ),
    "authority without client auth": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, client_ca_file: CA}",
        r"client_auth_type: expected RequireAndVerifyClientCert",
    ),
    "authority that is none": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, client_ca_file: KEY,"
        " client_auth_type: VerifyClientCertIfGiven}",
        r"client_ca_file: .*: ",
    ),
    "version": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, min_version: SSL30}",
        r"min_version: Input should be",
    ),
    "versions reversed": (
        "tls_server_config: {cert_file: CERT, key_file: KEY, min_version: TLS13, max_version: TLS12}",
        r"max_version: expected at least min_version",
    ),
    "hash": ("basic_auth_users: {alice: plain-secret}", r"basic_auth_users\.alice: .*expected a bcrypt hash"),
    "hash too dear": (f"basic_auth_users: {{alice: {HASH.replace('$10$', '$31$')}}}", r"bcrypt cost from 4 to 17"),
    "users list": ("basic_auth_users: [alice]", r"basic_auth_users: Input should be a valid dictionary"),
    "header": ("http_server_config: {headers: {Set-Cookie: x}}", r"headers: .*found Set-Cookie"),
    "header value": ('http_server_config: {headers: {X-Frame-Options: "a\\nb"}}', r"one line of printable ASCII"),
    "list": ("- a", r"expected a mapping, found a list"),
    "text": ("hello", r"expected a mapping, found a str"),
    "no YAML": ("a: [", r"is no YAML: .* in line 1"),
    "tag": ("a: !!python/object/apply:os.system [true]", r"is no YAML"),
    "binary": ("\0\1\2", r"is no YAML"),
    "large": ("#" * (1 << 20) + "#", r"at most 1048576 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_file_is_refused_by_the_key(tmp_path: Path, authority: Authority, kind: str) -> None:
    text, message = WRONG[kind]
    certificate, key = authority.issue("node1")
    names = {"CERT": certificate, "KEY": key, "OTHER": authority.issue("node2")[1], "CA": authority.ca_file}
    for name, path in names.items():
        text = text.replace(f": {name}", f": {path}")

    with pytest.raises(ConfigError, match=message) as refused:
        load_web_config(written(tmp_path, text))

    assert str(refused.value).startswith("web.config_file: ")
    assert "plain-secret" not in str(refused.value)
    assert HASH[10:] not in str(refused.value)


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read \\(No such file"):
        load_web_config(tmp_path / "gone.yaml")

    with pytest.raises(ConfigError, match="cannot be read \\(Is a directory"):
        load_web_config(tmp_path)


def test_encrypted_key_is_refused(tmp_path: Path, authority: Authority) -> None:
    certificate, _ = authority.issue("node1")
    (tmp_path / "key.pem").write_text(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
        "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    )

    with pytest.raises(ConfigError, match="encrypted; give one without a pass phrase"):
        load_web_config(written(tmp_path, f"tls_server_config: {{cert_file: {certificate}, key_file: key.pem}}"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "web.yaml"
    path.write_bytes(content)

    try:
        web = load_web_config(path)
    except ConfigError:
        return

    assert web == WebConfig()


keys = st.sampled_from(
    ["tls_server_config", "basic_auth_users", "http_server_config", "cert_file", "key_file", "headers", "x"]
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_any_tree_is_read_or_refused(tmp_path: Path, tree: object) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump(tree))

    try:
        web = load_web_config(path)
    except ConfigError:
        return

    assert web.tls is None
    assert web.users == {}
