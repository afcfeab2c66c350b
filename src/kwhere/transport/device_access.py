"""What a device is shown and what is believed of it: user and password, its certificate."""

import base64
import hashlib
import hmac
import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwhere.core.errors import ConfigError, Unavailable
from kwhere.transport.credentials import build_tls_context
from kwhere.transport.device_settings import DeviceClientSettings

_MAX_SECRET_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a device and the password, which no text shows."""

    username: str
    password: str = field(repr=False)

    def basic(self) -> str:
        """Return the value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode("ascii")


def read_login(settings: DeviceClientSettings) -> Login | None:
    """Return user and password as they are now; None where none are set.

    Raises Unavailable(`credentials`) that names where the password should be, never what it is.
    """
    if settings.username is None:
        return None
    if settings.password_file is not None:
        return Login(settings.username, _first_line(settings.password_file))
    name = str(settings.password_environment)
    password = os.environ.get(name, "")
    if not password:
        raise Unavailable("credentials", f"password_environment {name}: is not set or empty")
    return Login(settings.username, password)


def read_bearer(settings: DeviceClientSettings) -> str | None:
    """Return the token of `token_file`; None where none is set. Raises Unavailable(`credentials`)."""
    if settings.token_file is None:
        return None
    token = _first_line(settings.token_file)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Unavailable("credentials", f"{settings.token_file}: expected one token of printable characters")
    return token


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_SECRET_BYTES)
        line = content.decode().split("\n", 1)[0].removesuffix("\r")
    except OSError as error:
        raise Unavailable("credentials", f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unavailable("credentials", f"{path}: expected text in UTF-8") from None
    if not line:
        raise Unavailable("credentials", f"{path}: expected a first line, found none")
    return line


class _DeviceContext(ssl.SSLContext):
    """Believes the one certificate with this digest, any without one. Nothing is sent before it was seen."""

    sha256: str | None = None

    def wrap_socket(self, sock: socket.socket, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Return the encrypted socket. Raises SSLCertVerificationError for any other certificate."""
        wrapped = super().wrap_socket(sock, *args, **kwargs)
        certificate = wrapped.getpeercert(binary_form=True) or b""
        if self.sha256 and not hmac.compare_digest(hashlib.sha256(certificate).hexdigest(), self.sha256):
            wrapped.close()
            raise ssl.SSLCertVerificationError("the certificate is not the one that tls_sha256 names")
        return wrapped


def device_tls(settings: DeviceClientSettings) -> ssl.SSLContext:
    """Return the context for a device: verified, pinned, or not verified at all. Raises ConfigError."""
    if settings.tls_verify and settings.tls_sha256 is None:
        return build_tls_context(settings)
    context = _DeviceContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sha256 = settings.tls_sha256
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.client_certificate_file is not None:
        try:
            context.load_cert_chain(settings.client_certificate_file, settings.client_key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"client_certificate_file {settings.client_certificate_file}: {error}") from error
    return context
