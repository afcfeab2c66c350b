"""A Prometheus web config file: TLS and basic authentication, read strictly, unknown keys refused by name.

https://prometheus.io/docs/prometheus/latest/configuration/https/
"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from kwhere.core.errors import ConfigError

MAX_FILE_BYTES = 1 << 20
_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
_MAX_BCRYPT_COST = 17
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)


def _bcrypt_hash(value: str) -> str:
    found = _BCRYPT.fullmatch(value)
    if found is None:
        raise ValueError("expected a bcrypt hash, as `htpasswd -nBC 10 USER` makes it")
    if not 4 <= int(found[1]) <= _MAX_BCRYPT_COST:
        raise ValueError(f"expected a bcrypt cost from 4 to {_MAX_BCRYPT_COST}")
    return value


def _known_header(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if name not in _HEADERS:
            raise ValueError(f"expected one of {', '.join(_HEADERS)}, found {name}")
        if not text.isascii() or not text.isprintable():
            raise ValueError(f"{name}: expected one line of printable ASCII")
    return value


def _client_auth_type(value: str) -> str:
    if value not in _CLIENT_AUTH:
        raise ValueError(f"expected one of {', '.join(_CLIENT_AUTH)} (certificates that nobody verifies are no use)")
    return value


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsServerConfig(_Model):
    """`tls_server_config`; relative paths are relative to the file's directory."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: Annotated[str, AfterValidator(_client_auth_type)] = "NoClientCert"
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Literal["TLS10", "TLS11", "TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS10", "TLS11", "TLS12", "TLS13"] = "TLS13"
    prefer_server_cipher_suites: bool = True


class HttpServerConfig(_Model):
    """`http_server_config`; `http2` is accepted, the agent speaks HTTP/1.1."""

    http2: bool = True
    headers: Annotated[dict[str, str], AfterValidator(_known_header)] = Field(default_factory=dict)


class _File(_Model):
    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig | None = None
    basic_auth_users: dict[str, Annotated[str, AfterValidator(_bcrypt_hash)]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What is in force; without a file: plain HTTP for everyone."""

    tls: ssl.SSLContext | None = None
    client_certificates: Literal["no", "if_given", "required"] = "no"
    client_allowed_sans: tuple[str, ...] = ()
    users: dict[str, str] = field(default_factory=dict)
    """Name → bcrypt hash."""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def is_protected(self) -> bool:
        """Return whether strangers are kept out and the wire is private."""
        return self.tls is not None and (bool(self.users) or self.client_certificates == "required")


def load_web_config(path: Path | None) -> WebConfig:
    """Return what the file says, certificates loaded. Raises ConfigError that names file and key."""
    if path is None:
        return WebConfig()
    file = _parse(path)
    headers = tuple(file.http_server_config.headers.items()) if file.http_server_config else ()
    users = dict(file.basic_auth_users)
    tls = file.tls_server_config
    if tls is None:
        return WebConfig(users=users, headers=headers)
    asked = _CLIENT_AUTH[tls.client_auth_type]
    return WebConfig(
        tls=_ssl_context(path, tls),
        client_certificates="no"
        if asked == ssl.CERT_NONE
        else "required"
        if asked == ssl.CERT_REQUIRED
        else "if_given",
        client_allowed_sans=tls.client_allowed_sans,
        users=users,
        headers=headers,
    )


def watched_files(path: Path | None) -> tuple[Path, ...]:
    """Return the files whose change means another configuration; only the file itself where it cannot be read."""
    if path is None:
        return ()
    try:
        tls = _parse(path).tls_server_config
    except ConfigError:
        return (path,)
    named = (tls.cert_file, tls.key_file, tls.client_ca_file) if tls else ()
    return (path, *(path.parent / item for item in named if item is not None))


def certificate_files(path: Path | None) -> tuple[Path, ...]:
    """Return the server's certificate and key; none where there is no TLS, or the file cannot be read."""
    try:
        tls = _parse(path).tls_server_config if path is not None else None
    except ConfigError:
        return ()
    return () if path is None or tls is None else (path.parent / tls.cert_file, path.parent / tls.key_file)


def _parse(path: Path) -> _File:
    place = f"web.config_file: {path}"
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read ({error.strerror})") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{place}: expected at most {MAX_FILE_BYTES} bytes")
    try:
        tree = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{place}: is no YAML{_yaml_place(error)}") from None
    if not isinstance(tree, dict | None):
        raise ConfigError(f"{place}: expected a mapping, found a {type(tree).__name__}")
    try:
        return _File.model_validate({} if tree is None else tree)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{place}: {sentence}" for sentence in _sentences(error))) from None


def _yaml_place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f": {getattr(error, 'problem', '')} in line {mark.line + 1}" if mark else ""


def _sentences(error: ValidationError) -> list[str]:
    """A sentence per wrong key; what was found is never shown, it may be a hash."""
    found = []
    for item in error.errors(include_input=False, include_url=False):
        key = ".".join(str(part) for part in item["loc"])
        found.append(f"{key}: unknown key" if item["type"] == "extra_forbidden" else f"{key}: {item['msg']}")
    return found


def _ssl_context(path: Path, tls: TlsServerConfig) -> ssl.SSLContext:
    key = f"web.config_file: {path}: tls_server_config"
    _check_clients(key, tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.minimum_version = _VERSIONS[tls.min_version]
        context.maximum_version = _VERSIONS[tls.max_version]
    except ValueError as error:
        raise ConfigError(f"{key}: min_version and max_version: {error}") from error
    _load_certificate(context, key, path.parent / tls.cert_file, path.parent / tls.key_file)
    context.verify_mode = _CLIENT_AUTH[tls.client_auth_type]
    if tls.client_ca_file is not None:
        _load_authority(context, key, path.parent / tls.client_ca_file)
    return context


def _check_clients(key: str, tls: TlsServerConfig) -> None:
    asks = tls.client_auth_type != "NoClientCert"
    if asks and tls.client_ca_file is None:
        raise ConfigError(f"{key}.client_ca_file: expected a file, since client_auth_type is {tls.client_auth_type}")
    if not asks and (tls.client_ca_file is not None or tls.client_allowed_sans):
        raise ConfigError(f"{key}.client_auth_type: expected RequireAndVerifyClientCert or VerifyClientCertIfGiven")
    if list(_VERSIONS).index(tls.min_version) > list(_VERSIONS).index(tls.max_version):
        raise ConfigError(f"{key}.max_version: expected at least min_version, found {tls.max_version}")


def _load_certificate(context: ssl.SSLContext, key: str, cert_file: Path, key_file: Path) -> None:
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{key}: {cert_file} and {key_file}: {_ssl_reason(error)}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a pass phrase")


def _load_authority(context: ssl.SSLContext, key: str, ca_file: Path) -> None:
    try:
        context.load_verify_locations(cafile=ca_file)
    except OSError as error:
        raise ConfigError(f"{key}.client_ca_file: {ca_file}: {_ssl_reason(error)}") from error


def _ssl_reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason.lower().replace("_", " ") if error.reason else "is no certificate in PEM"
    return getattr(error, "strerror", None) or str(error)
