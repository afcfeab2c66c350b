import base64
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
from tests.unit.agent.certificates import Authority
from tests.unit.agent.faces import TOKEN, Face, FaceMaker, local, trusting
from tests.unit.ledger.journals import append

from kwhere.agent.http_settings import HttpSettings
from kwhere.core.errors import ConfigError

HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
USERS = f"basic_auth_users: {{alice: '{HASH}'}}\n"


class WebFile:
    """A web config file with a server certificate of its own copies."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.path = directory / "web.yaml"
        self.authority = authority
        self.certificate = directory / "node.pem"
        self.key = directory / "node.key"
        self.install("node1")

    def install(self, name: str, authority: Authority | None = None) -> None:
        certificate, key = (authority or self.authority).issue(name)
        self.certificate.write_bytes(certificate.read_bytes())
        self.key.write_bytes(key.read_bytes())

    def write(self, client_auth: str = "NoClientCert", more: str = "", sans: str = "[]") -> Path:
        lines = ["tls_server_config:", f"  cert_file: {self.certificate}", f"  key_file: {self.key}"]
        if client_auth != "NoClientCert":
            lines += [f"  client_ca_file: {self.authority.ca_file}", f"  client_auth_type: {client_auth}"]
            lines += [f"  client_allowed_sans: {sans}"]
        self.path.write_text("\n".join([*lines, more]))
        return self.path


@pytest.fixture
def web_file(tmp_path: Path, authority: Authority) -> WebFile:
    return WebFile(tmp_path, authority)


def test_tls_is_served_with_the_certificate_of_the_file(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write()))

    assert face.url.startswith("https://")
    response = face.get("/metrics", verify=trusting(web_file.authority.ca_file))
    assert response.status_code == 200
    assert face.get("/ledger", token=TOKEN, verify=trusting(web_file.authority.ca_file)).status_code == 200
    with pytest.raises(httpx.ConnectError):
        face.get("/metrics", verify=ssl.create_default_context())


def test_plain_http_on_a_tls_port_is_closed(
    make_face: FaceMaker, web_file: WebFile, capsys: pytest.CaptureFixture[str]
) -> None:
    face = make_face(settings=local(config_file=web_file.write()))

    with pytest.raises(httpx.HTTPError):
        httpx.get(face.url.replace("https", "http"))

    assert face.get("/healthz", verify=trusting(web_file.authority.ca_file)).status_code == 200
    assert "fault" not in capsys.readouterr().out


def test_client_certificate_opens_the_ledger(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write("RequireAndVerifyClientCert")), token=None)
    append(face.journal)
    known = trusting(web_file.authority.ca_file, web_file.authority.issue("server1"))

    assert face.get("/ledger", verify=known).status_code == 200
    assert face.get("/metrics", verify=known).status_code == 200


def test_client_without_or_with_a_foreign_certificate_is_turned_away(
    make_face: FaceMaker, web_file: WebFile, foreign_authority: Authority
) -> None:
    face = make_face(settings=local(config_file=web_file.write("RequireAndVerifyClientCert")))
    ca_file = web_file.authority.ca_file

    for client in (None, foreign_authority.issue("server1")):
        with pytest.raises(httpx.HTTPError):
            face.get("/healthz", token=TOKEN, verify=trusting(ca_file, client))


def test_certificate_if_given_decides_about_the_ledger_alone(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write("VerifyClientCertIfGiven")))
    ca_file = web_file.authority.ca_file

    assert face.get("/metrics", verify=trusting(ca_file)).status_code == 200
    assert face.get("/ledger", verify=trusting(ca_file)).status_code == 401
    assert face.get("/ledger", verify=trusting(ca_file, web_file.authority.issue("server1"))).status_code == 200


def test_only_allowed_names_of_certificates_are_let_in(make_face: FaceMaker, web_file: WebFile) -> None:
    path = web_file.write("RequireAndVerifyClientCert", sans="[server1, server2]")
    face = make_face(settings=local(config_file=path))
    ca_file, issue = web_file.authority.ca_file, web_file.authority.issue

    assert face.get("/ledger", verify=trusting(ca_file, issue("server1"))).status_code == 200
    refused = face.get("/ledger", token=TOKEN, verify=trusting(ca_file, issue("server9")))
    assert refused.status_code == 403


def test_passwords_guard_every_page(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write(more=USERS)))
    trust = trusting(web_file.authority.ca_file)

    for path in ("/", "/metrics", "/healthz", "/ledger", "/nope"):
        refused = face.get(path, verify=trust)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic")
        assert face.get(path, verify=trust, auth=("alice", "wrong")).status_code == 401
    assert face.get("/metrics", verify=trust, auth=("alice", "right")).status_code == 200
    assert face.get("/ledger", verify=trust, auth=("alice", "right")).status_code == 401
    assert face.get("/ledger", verify=trust, token=TOKEN).status_code == 200
    assert face.get("/metrics", verify=trust, token=TOKEN).status_code == 200


def test_password_shows_fresh_energy_and_names(make_face: FaceMaker, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(USERS)
    face = make_face(settings=local(config_file=tmp_path / "web.yaml", anonymous_names=False))

    assert "alice:cfd" in face.get("/metrics", auth=("alice", "right")).text


def test_many_scrapers_with_passwords_are_served(make_face: FaceMaker, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(USERS)
    face = make_face(settings=local(config_file=tmp_path / "web.yaml"))
    statuses: list[int] = []
    guesses = [("alice", word) for word in ("right", "wrong", "right", "worse") * 4]
    threads = [
        threading.Thread(target=lambda auth=auth: statuses.append(face.get("/healthz", auth=auth).status_code))
        for auth in guesses
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200] * 8 + [401] * 8


def test_beyond_loopback_with_tls_and_users(make_face: FaceMaker, web_file: WebFile) -> None:
    path = web_file.write(more=USERS)

    make_face(settings=HttpSettings(listen_addresses=("0.0.0.0:0",), config_file=path))

    web_file.write()
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        make_face(settings=HttpSettings(listen_addresses=("0.0.0.0:0",), config_file=path))


def test_users_alone_do_not_open_the_world(make_face: FaceMaker, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(USERS)

    with pytest.raises(ConfigError, match="can be reached from other machines"):
        make_face(settings=HttpSettings(listen_addresses=("0.0.0.0:0",), config_file=tmp_path / "web.yaml"))


def test_ledger_is_not_served_in_the_clear_beyond_this_machine(make_face: FaceMaker) -> None:
    address = own_address()
    face = make_face(settings=HttpSettings(listen_addresses=(f"{address}:0",), allow_unprotected=True))
    append(face.journal)

    for token in (TOKEN, None):
        response = face.get("/ledger", token=token)
        assert response.status_code == 403
        assert "TLS" in response.json()["detail"]
    assert face.get("/metrics").status_code == 200


def own_address() -> str:
    """An address of this machine that is not loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("no other address than loopback's here")
        address = str(probe.getsockname()[0])
    if address.startswith("127."):
        pytest.skip("no other address than loopback's here")
    return address


def served_name(face: Face, ca_file: Path) -> str:
    host, port = face.url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=5) as connection,
        trusting(ca_file).wrap_socket(connection, server_hostname="127.0.0.1") as secure,
    ):
        certificate = secure.getpeercert()
    assert certificate
    names: Any = certificate["subjectAltName"]
    return next(str(value) for kind, value in names if kind == "DNS")


def test_renewed_certificate_is_served(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write()))
    ca_file = web_file.authority.ca_file
    assert served_name(face, ca_file) == "node1"
    assert not face.face.reload()

    web_file.install("node-renewed")

    assert face.face.reload()
    assert not face.face.reload()
    assert served_name(face, ca_file) == "node-renewed"
    assert face.get("/metrics", verify=trusting(ca_file)).status_code == 200


def test_new_passwords_are_in_force(make_face: FaceMaker, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(USERS)
    face = make_face(settings=local(config_file=path))
    assert face.get("/healthz", auth=("alice", "right")).status_code == 200

    path.write_text(USERS.replace(HASH, bcrypt.hashpw(b"newer", bcrypt.gensalt(4)).decode()))

    assert face.face.reload()
    assert face.get("/healthz", auth=("alice", "right")).status_code == 401
    assert face.get("/healthz", auth=("alice", "newer")).status_code == 200


def test_wrong_new_file_is_told_once_and_the_old_one_stays(
    make_face: FaceMaker, web_file: WebFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = web_file.write(more=USERS)
    face = make_face(settings=local(config_file=path))
    trust = trusting(web_file.authority.ca_file)
    good = path.read_text()

    path.write_text(good + "unknown: 1\n")

    assert not face.face.reload()
    assert not face.face.reload()
    assert capsys.readouterr().out.count("unknown key") == 1
    assert face.get("/healthz", verify=trust, auth=("alice", "right")).status_code == 200
    path.unlink()
    assert not face.face.reload()
    assert face.get("/healthz", verify=trust).status_code == 401
    path.write_text(good + "\n")
    assert face.face.reload()


def test_half_written_certificate_leaves_the_old_one(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write()))
    whole = web_file.certificate.read_bytes()

    web_file.certificate.write_bytes(whole[:200])

    assert not face.face.reload()
    assert served_name(face, web_file.authority.ca_file) == "node1"


def test_reload_never_opens_what_was_protected(make_face: FaceMaker, web_file: WebFile) -> None:
    path = web_file.write(more=USERS)
    face = make_face(settings=HttpSettings(listen_addresses=("0.0.0.0:0",), config_file=path))

    web_file.write()

    assert not face.face.reload()
    port = face.url.rpartition(":")[2]
    trust = trusting(web_file.authority.ca_file)
    with httpx.Client(verify=trust) as client:
        assert client.get(f"https://127.0.0.1:{port}/healthz").status_code == 401


def test_tls_may_be_switched_on_while_running(make_face: FaceMaker, web_file: WebFile) -> None:
    web_file.path.write_text("")
    face = make_face(settings=local(config_file=web_file.path))
    assert face.get("/healthz").status_code == 200

    web_file.write()

    assert face.face.reload()
    assert face.url.startswith("https://")
    assert face.get("/healthz", verify=trusting(web_file.authority.ca_file)).status_code == 200


def test_old_tls_is_refused(make_face: FaceMaker, web_file: WebFile) -> None:
    face = make_face(settings=local(config_file=web_file.write()))
    old = trusting(web_file.authority.ca_file)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    assert face.get("/healthz", verify=old).status_code == 200
    web_file.path.write_text(web_file.path.read_text().replace("  key_file", "  min_version: TLS13\n  key_file"))
    assert face.face.reload()
    with pytest.raises(httpx.HTTPError):
        face.get("/healthz", verify=old)


def test_password_is_not_logged(make_face: FaceMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "web.yaml").write_text(USERS)
    face = make_face(settings=local(config_file=tmp_path / "web.yaml"))
    secret = base64.b64encode(b"alice:right").decode()

    face.get("/healthz", auth=("alice", "right"))
    face.get("/nope?token=right", auth=("alice", "wrong"))

    out, err = capsys.readouterr()
    assert secret not in out + err
    assert "right" not in out + err
