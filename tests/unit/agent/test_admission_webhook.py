"""The admission webhook over real HTTPS: reviews, certificates that change, and what someone hostile sends."""

import base64
import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kubernetes_objects import pod
from tests.unit.agent.certificates import Authority

from kwhere.agent import http_app
from kwhere.agent.admission_settings import AdmissionWebhookSettings
from kwhere.agent.admission_webhook import WebhookFace
from kwhere.apps.admission_webhook import build_face
from kwhere.core.errors import ConfigError
from kwhere.resource_managers.kubernetes_stamps import SEAL, USER, Seal

KEY = "0123456789abcdef" * 4


def review(user: str = "alice", uid: str = "u-1") -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "team-a",
            "userInfo": {"username": user},
            "object": pod("p"),
        },
    }


def stamp_in(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    (operation,) = json.loads(base64.b64decode(answer.json()["response"]["patch"]))
    found: dict[str, str] = operation["value"]
    return found


class Hook:
    """A running webhook with its files."""

    def __init__(self, directory: Path, authority: Authority, **tls: str) -> None:
        self.directory = directory
        self.authority = authority
        self.key_file = directory / "key"
        self.key_file.touch(0o600)
        self.key_file.write_text(KEY + "\n")
        self.show("hook-a")
        shutil.copy(authority.ca_file, directory / "client-ca.pem")
        more = "".join(f"  {name}: {value}\n" for name, value in tls.items())
        (directory / "web.yaml").write_text(f"tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n{more}")
        settings = AdmissionWebhookSettings(
            listen_addresses=("127.0.0.1:0",),
            config_file=directory / "web.yaml",
            key_file=self.key_file,
            reload_seconds=0.05,
            max_body_bytes=1 << 16,
        )
        self.face: WebhookFace = build_face(settings)
        self.face.start()

    @property
    def url(self) -> str:
        return self.face.urls[0]

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("https://").rstrip("/").split(":")
        return host, int(port)

    def show(self, name: str) -> None:
        """Put a certificate in place as a renewed secret is: whole files, by a rename."""
        for source, target in zip(self.authority.issue(name), ("tls.crt", "tls.key"), strict=True):
            shutil.copy(source, self.directory / "new")
            (self.directory / "new").rename(self.directory / target)

    def client(self, certificate: tuple[Path, Path] | None = None) -> httpx.Client:
        context = ssl.create_default_context(cafile=str(self.authority.ca_file))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=10)

    def post(self, document: Any = None, **options: Any) -> httpx.Response:
        with self.client() as client:
            return client.post("/stamp", json=review() if document is None else document, **options)

    def shown(self) -> str:
        """Return the name in the certificate that a new connection gets."""
        context = ssl.create_default_context(cafile=str(self.authority.ca_file))
        with (
            socket.create_connection(self.address) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            found: Any = connection.getpeercert()
        return str(found["subject"][0][0][1])


@pytest.fixture
def hook(tmp_path: Path, authority: Authority) -> Iterator[Hook]:
    made = Hook(tmp_path, authority)
    yield made
    made.face.stop()


def test_a_review_is_answered_with_a_sealed_stamp(hook: Hook) -> None:
    answer = hook.post(review("alice@example.org", "u-7"))

    stamp = stamp_in(answer)
    assert answer.json()["response"]["uid"] == "u-7"
    assert answer.headers["content-type"] == "application/json"
    assert stamp[USER] == "alice@example.org"
    assert Seal([KEY]).user_of(stamp, "team-a") == "alice@example.org"


def test_a_renewed_certificate_is_shown_without_a_restart_and_nobody_is_turned_away(hook: Hook) -> None:
    answers: list[int] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                answers.append(hook.post().status_code)
            except httpx.HTTPError:
                answers.append(-1)

    asking = threading.Thread(target=ask)
    asking.start()
    before = hook.shown()
    hook.show("hook-b")
    deadline = time.monotonic() + 10
    while hook.shown() == before and time.monotonic() < deadline:
        time.sleep(0.02)
    after = hook.shown()
    over.set()
    asking.join()

    assert (before, after) == ("hook-a", "hook-b")
    assert set(answers) == {200}


def test_a_wrong_certificate_leaves_the_old_one(hook: Hook) -> None:
    (hook.directory / "tls.crt").write_text("nonsense")
    time.sleep(0.3)

    assert hook.shown() == "hook-a"
    assert hook.post().status_code == 200


def test_a_changed_key_seals_from_then_on(hook: Hook) -> None:
    before = stamp_in(hook.post())
    hook.key_file.write_text(f"{'n' * 64}\n{KEY}\n")
    after = stamp_in(hook.post())

    assert before[SEAL] != after[SEAL]
    assert Seal(["n" * 64]).user_of(after, "team-a") == "alice"


def test_where_a_client_certificate_is_asked_for_nobody_else_gets_a_seal(tmp_path: Path, authority: Authority) -> None:
    made = Hook(
        tmp_path,
        authority,
        client_ca_file="client-ca.pem",
        client_auth_type="RequireAndVerifyClientCert",
        client_allowed_sans="[kube-apiserver]",
    )
    try:
        with made.client(authority.issue("kube-apiserver")) as client:
            good = client.post("/stamp", json=review())
        with made.client(authority.issue("some-pod")) as client:
            other = client.post("/stamp", json=review())
        with pytest.raises(httpx.HTTPError):
            made.post()
    finally:
        made.face.stop()

    assert good.status_code == 200
    assert (other.status_code, "patch" in other.text) == (403, False)


@pytest.mark.parametrize(
    ("method", "path", "body", "media_type", "status"),
    [
        ("POST", "/stamp", b"", "application/json", 400),
        ("POST", "/stamp", b"{}", "application/json", 400),
        ("POST", "/stamp", b'{"apiVersion":', "application/json", 400),
        ("POST", "/stamp", b"[" * 60_000, "application/json", 400),
        ("POST", "/stamp", b"x" * 70_000, "application/json", 413),
        ("POST", "/stamp", b"{}", "text/plain", 415),
        ("GET", "/stamp", b"", "application/json", 405),
        ("POST", "/other", b"{}", "application/json", 404),
        ("GET", "/healthz", b"", "", 200),
    ],
)
def test_what_is_no_review_is_refused_and_the_next_one_is_answered(
    hook: Hook, method: str, path: str, body: bytes, media_type: str, status: int
) -> None:
    with hook.client() as client:
        answer = client.request(method, path, content=body, headers={"content-type": media_type})
        after = client.post("/stamp", json=review())

    assert answer.status_code == status
    assert after.status_code == 200


def test_a_body_that_never_comes_holds_nobody_up(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_app, "_BODY_SECONDS", 0.2)
    context = ssl.create_default_context(cafile=str(hook.authority.ca_file))
    with (
        socket.create_connection(hook.address) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(
            b"POST /stamp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        meanwhile = hook.post().status_code
        status = connection.makefile("rb").readline()

    assert meanwhile == 200
    assert status.startswith(b"HTTP/1.1 408")


def test_the_seal_is_the_only_trace_of_the_key(hook: Hook, capfd: pytest.CaptureFixture[str]) -> None:
    answer = hook.post()
    hook.post({"apiVersion": "nonsense"})

    assert KEY not in answer.text + str(answer.headers)
    assert KEY not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"key_file": None}, "admission_webhook.key_file: expected a file"),
        ({"key_file": "/nowhere/key"}, "admission_webhook.key_file: /nowhere/key: this key cannot be read"),
    ],
)
def test_without_a_key_it_does_not_start(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        build_face(AdmissionWebhookSettings(**changes))


def test_beyond_loopback_it_wants_tls(tmp_path: Path) -> None:
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_text(KEY)
    face = build_face(AdmissionWebhookSettings(listen_addresses=("0.0.0.0:0",), key_file=tmp_path / "key"))

    with pytest.raises(ConfigError, match="can be reached from other machines"):
        face.start()
