"""What a client shows and trusts: token, certificate, authorities, and to whom."""

import ipaddress
import ssl
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import httpx

from kwhere.core.errors import ConfigError
from kwhere.transport.secret_names import names_secret
from kwhere.transport.settings import HttpClientSettings

_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Beside those whose names say it."""


def read_token(settings: HttpClientSettings) -> str | None:
    """Return the first line of the token file; None where none is set. Raises ConfigError."""
    if settings.token_file is None:
        return None
    try:
        lines = settings.token_file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"token_file {settings.token_file}: {error}") from error
    if len(lines) != 1:
        raise ConfigError(f"token_file {settings.token_file}: expected one token, found {len(lines)} words")
    return lines[0]


def read_headers(plain: Mapping[str, str], files: Mapping[str, Path], base_url: str) -> dict[str, str]:
    """Return headers by name, those of `files` from the first line of each. Raises ConfigError.

    As a token, what is in a file goes over https or to loopback only.
    """
    for name in plain:
        if name.lower() in _SECRET_HEADERS or names_secret(name):
            raise ConfigError(f"headers.{name}: a secret belongs into a file: header_files.{name}")
    names = [name.lower() for name in (*plain, *files)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"headers: expected each name once, found {name} twice")
    check_base_url(base_url, bearer=bool(files))
    found = {name: _header_value(f"headers.{name}", value) for name, value in plain.items()}
    for name, path in files.items():
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"header_files.{name}: {path}: {error}") from error
        value = lines[0].strip() if lines else ""
        if not value:
            raise ConfigError(f"header_files.{name}: {path}: expected a value in the first line, found none")
        found[name] = _header_value(f"header_files.{name}: {path}", value)
    return found


def _header_value(place: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise ConfigError(f"{place}: expected printable ASCII, found other characters")
    return value


def check_base_url(base_url: str, *, bearer: bool) -> httpx.URL:
    """Return `base_url` parsed. Raises ConfigError where a secret would travel in it, or a token in the clear."""
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigError(f"url: expected http:// or https:// and a host: {error}") from error
    if url.userinfo:
        raise ConfigError(f"url: {url.host}: user and password belong in a file, not in an address")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"url {base_url!r}: expected http:// or https:// and a host")
    if bearer and url.scheme == "http" and not is_loopback(url.host):
        raise ConfigError(f"url {base_url!r}: a token is sent over https, or to loopback only")
    return url


def is_loopback(host: str) -> bool:
    """Return whether `host` (a name or an address) is this machine's loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def build_tls_context(settings: HttpClientSettings) -> ssl.SSLContext:
    """Return a context that verifies the remote and shows our certificate if one is set. Raises ConfigError."""
    if settings.ca_file is None and settings.client_certificate_file is None and settings.client_key_file is None:
        return _system_trust()
    context = _trusting(settings.ca_file)
    if settings.client_key_file is not None and settings.client_certificate_file is None:
        raise ConfigError("client_key_file: is set, but client_certificate_file is not")
    if settings.client_certificate_file is not None:
        try:
            context.load_cert_chain(settings.client_certificate_file, settings.client_key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"client_certificate_file {settings.client_certificate_file}: {error}") from error
    return context


@cache
def _system_trust() -> ssl.SSLContext:
    """Return the context of everyone who set nothing: reading the system's authorities takes tens of milliseconds."""
    return _trusting(None)


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ca_file {ca_file}: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
