"""Where a cluster's API is and what is shown to it: settings, kubeconfig, or the service account of our own pod."""

import base64
import binascii
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import yaml

from kwhere.core.errors import ConfigError
from kwhere.resource_managers.kubernetes_access_settings import ClusterAccess
from kwhere.transport.credentials import build_tls_context, check_base_url
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_BYTES = 1 << 20
Node: TypeAlias = "Mapping[str, object]"


@dataclass(frozen=True, slots=True)
class Access:
    """An API and our credentials for it. Files are read anew each time a client is made: they are renewed."""

    url: str
    http: HttpClientSettings
    token: str | None = field(default=None, repr=False)
    make_tls: Callable[[], ssl.SSLContext] | None = None

    def read_token(self) -> str | None:
        """Return the token in force now. Raises ConfigError where its file cannot be read."""
        if self.http.token_file is None:
            return self.token
        return _read_word(self.http.token_file, "http.token_file")

    def connect(self, token: str | None) -> HttpClient:
        """Return a client that shows `token`. Raises ConfigError."""
        settings = self.http.model_copy(update={"token_file": None})
        return HttpClient(self.url, settings, token=token, tls=self.make_tls() if self.make_tls else None)


def find_access(settings: ClusterAccess, environ: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> Access:
    """Return how the cluster is reached. Raises ConfigError."""
    if settings.url is not None:
        if settings.kubeconfig is not None:
            raise ConfigError("kubeconfig: expected it or url, found both")
        check_base_url(settings.url, bearer=settings.http.token_file is not None)
        return Access(settings.url, settings.http)
    if settings.kubeconfig is not None:
        return read_kubeconfig(settings.kubeconfig, settings.context, settings.http)
    return _in_cluster(settings, environ, account)


def _in_cluster(settings: ClusterAccess, environ: Mapping[str, str], account: Path) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise ConfigError("url: expected url or kubeconfig outside of a cluster (KUBERNETES_SERVICE_HOST is not set)")
    shown = f"[{host}]" if ":" in host else host
    own = {"token_file": settings.http.token_file or account / "token", "ca_file": settings.http.ca_file}
    if own["ca_file"] is None and (account / "ca.crt").exists():
        own["ca_file"] = account / "ca.crt"
    return Access(f"https://{shown}:{port}", settings.http.model_copy(update=own))


def read_kubeconfig(file: Path, context: str | None, http: HttpClientSettings) -> Access:
    """Return what one context of a kubeconfig says. Raises ConfigError.

    Programs that fetch credentials (`exec`, `auth-provider`) are not run, and a server that is not verified is refused.
    """
    place = f"kubeconfig: {file}"
    document = _load(file, place)
    chosen = context or _text(document, "current-context", place)
    if not chosen:
        raise ConfigError(f"{place}: expected a current-context, or the setting `context`, found neither")
    about = _named(document, "contexts", "context", chosen, place)
    cluster = _named(document, "clusters", "cluster", _text(about, "cluster", place), place)
    user_name = _text(about, "user", place)
    user = _named(document, "users", "user", user_name, place) if user_name else {}
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigError(f"{place}: insecure-skip-tls-verify: a server is always verified; set certificate-authority")
    for word in ("exec", "auth-provider", "username"):
        if word in user:
            raise ConfigError(f"{place}: users.{user_name}.{word}: expected token, tokenFile or client-certificate")
    return _access_of(file, cluster, user, http, place)


def _access_of(file: Path, cluster: Node, user: Node, http: HttpClientSettings, place: str) -> Access:
    def named(node: Node, key: str) -> Path | None:
        word = _text(node, key, place)
        return file.parent / word if word else None

    authority = _data(cluster, "certificate-authority-data", place)
    certificate, key = _data(user, "client-certificate-data", place), _data(user, "client-key-data", place)
    changes: dict[str, object] = {
        "ca_file": named(cluster, "certificate-authority") or http.ca_file,
        "client_certificate_file": named(user, "client-certificate") or http.client_certificate_file,
        "client_key_file": named(user, "client-key") or http.client_key_file,
        "token_file": named(user, "tokenFile") or http.token_file,
        "server_name": _text(cluster, "tls-server-name", place) or http.server_name,
        "proxy_url": _text(cluster, "proxy-url", place) or http.proxy_url,
    }
    settings = http.model_copy(update=changes)
    token = _text(user, "token", place) or None

    def make_tls() -> ssl.SSLContext:
        context = build_tls_context(settings) if authority is None else _trusting(authority, place)
        if certificate is not None:
            _show(context, certificate, key or b"", place)
        return context

    url = _text(cluster, "server", place)
    check_base_url(url, bearer=bool(token or settings.token_file))
    make_tls()  # what is wrong in it stops the start
    return Access(url.rstrip("/"), settings, token, make_tls)


def _trusting(authority: bytes, place: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{place}: certificate-authority-data: expected certificates in PEM: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes, place: str) -> None:
    with _in_memory(certificate + b"\n" + key) as file:
        try:
            context.load_cert_chain(file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{place}: client-certificate-data: expected certificate and key: {error}") from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A file that is on no disk: a key is read from files only."""
    descriptor = os.memfd_create("kwhere-kubeconfig")
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _load(file: Path, place: str) -> Node:
    try:
        with file.open("rb") as stream:
            document = yaml.safe_load(stream.read(_MAX_BYTES))
    except OSError as error:
        raise ConfigError(f"{place}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Its own words would quote the file, in which there are secrets.
        raise ConfigError(f"{place}: expected YAML, found something else") from error
    return _mapping(document, place)


def _mapping(value: object, place: str) -> Node:
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected a mapping, found {type(value).__name__}")
    return value


def _named(document: Node, group: str, kind: str, name: str, place: str) -> Node:
    entries = document.get(group)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return _mapping(entry.get(kind), f"{place}: {group}.{name}")
    raise ConfigError(f"{place}: expected {name!r} among its {group}, found none")


def _text(node: Node, key: str, place: str) -> str:
    value = node.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{place}: {key}: expected text, found {type(value).__name__}")
    return value or ""


def _data(node: Node, key: str, place: str) -> bytes | None:
    word = _text(node, key, place)
    try:
        return base64.b64decode(word, validate=True) if word else None
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"{place}: {key}: expected base64, found something else") from error


def _read_word(file: Path, key: str) -> str:
    try:
        found = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: {file}: expected a token, found {type(error).__name__}") from error
    if len(found) != 1:
        raise ConfigError(f"{key}: {file}: expected one token, found {len(found)} words")
    return found[0]
