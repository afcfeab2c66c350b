"""The door to a directory server: one bound connection per look, pages of entries, nothing written ever.

Importing it needs ldap3, which `pip install 'kwhere[ldap]'` brings.
"""

import ssl
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.credentials import build_tls_context
from kwhere.transport.ldap_settings import LdapClientSettings
from kwhere.transport.settings import HttpClientSettings

with warnings.catch_warnings():
    # It asks pyasn1 for names that pyasn1 calls old.
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core import exceptions

_PORTS = {"ldap": 389, "ldaps": 636}
_PAGED_RESULTS = "1.2.840.113556.1.4.319"
_CUT_OFF = (3, 4, 11)
"""Results of a search that a limit of time, size or administration ended (RFC 4511, 4.1.9)."""
_MOST_ENTRIES = 1_000_000

Entry = Mapping[str, Sequence[str]]
"""Values by attribute, its name in lower case; values that are no text are left out."""


class LdapClient:
    """Asks one directory server."""

    def __init__(self, settings: LdapClientSettings) -> None:
        self._settings = settings

    def search(self, filter_: str, attributes: Sequence[str]) -> list[Entry]:
        """Return every entry below the base that `filter_` lets through. Raises Unavailable and SourceError.

        An answer that the server cut off is an error: half a list would make the others disappear.
        """
        place, found = self._settings.url, list[Entry]()
        with self._connected() as connection:
            for page in self._pages(connection, filter_, attributes):
                found += page
                if len(found) > _MOST_ENTRIES:
                    raise SourceError(f"{place}: expected at most {_MOST_ENTRIES} entries, found more")
        return found

    def _pages(self, connection: ldap3.Connection, filter_: str, attributes: Sequence[str]) -> Iterator[list[Entry]]:
        settings, place = self._settings, self._settings.url
        cookie: bytes | None = None
        while cookie != b"":
            try:
                connection.search(
                    settings.base_dn,
                    filter_,
                    search_scope=ldap3.SUBTREE,
                    attributes=list(attributes),
                    paged_size=settings.page_size,
                    paged_cookie=cookie,
                )
            except exceptions.LDAPInvalidFilterError as error:
                raise SourceError(f"{place}: filter {filter_!r}: {error}") from error
            except exceptions.LDAPException as error:
                raise _fault(error, place) from error
            if connection.result["result"] in _CUT_OFF:
                raise SourceError(f"{place}: expected all entries, found a list that the server cut off")
            yield list(_entries(connection.response or ()))
            control = (connection.result.get("controls") or {}).get(_PAGED_RESULTS) or {}
            cookie = (control.get("value") or {}).get("cookie") or b""

    @contextmanager
    def _connected(self) -> Iterator[ldap3.Connection]:
        settings, place = self._settings, self._settings.url
        connection = ldap3.Connection(
            self._server(),
            user=settings.bind_dn,
            password=self._password(),
            receive_timeout=settings.answer_timeout_seconds,
            read_only=True,
            raise_exceptions=True,
            auto_referrals=False,
            check_names=False,
        )
        try:
            try:
                connection.open()
                if settings.start_tls and not settings.is_tls_from_start:
                    connection.start_tls()
                connection.bind()
            except (exceptions.LDAPException, OSError) as error:
                raise _fault(error, place) from error
            yield connection
        finally:
            with suppress(exceptions.LDAPException, OSError):
                connection.unbind()
            if connection.socket is not None:
                connection.socket.close()

    def _server(self) -> ldap3.Server:
        settings = self._settings
        parts = urlsplit(settings.url)
        return ldap3.Server(
            settings.host,
            port=parts.port or _PORTS[parts.scheme.lower()],
            use_ssl=settings.is_tls_from_start,
            tls=_CheckedTls(
                build_tls_context(HttpClientSettings(ca_file=settings.ca_file)), settings.server_name or settings.host
            ),
            get_info=ldap3.NONE,
            connect_timeout=settings.connect_timeout_seconds,
        )

    def _password(self) -> str | None:
        path = self._settings.password_file
        if path is None:
            return None
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            detail = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise Unavailable("secret", f"password_file {path}: {detail}") from None
        if len(lines) != 1 or not lines[0]:
            raise Unavailable("secret", f"password_file {path}: expected one line, found {len(lines)}")
        return lines[0]


class _CheckedTls(ldap3.Tls):
    """The TLS of our other doors: the library's own compares names by a function that Python has given up."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = context
        self._name = name

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        """Make the connection's socket TLS, certificate and name checked."""
        connection.socket = self._context.wrap_socket(
            connection.socket, server_hostname=self._name, do_handshake_on_connect=do_handshake
        )


def _entries(found: Sequence[Mapping[str, object]]) -> Iterator[Entry]:
    for item in found:
        raw = item.get("raw_attributes")
        if item.get("type") == "searchResEntry" and isinstance(raw, Mapping):
            yield {str(name).lower(): _texts(values) for name, values in raw.items()}


def _texts(values: object) -> list[str]:
    found = []
    for value in values if isinstance(values, list) else []:
        try:
            found.append(value.decode("utf-8") if isinstance(value, bytes) else str(value))
        except UnicodeDecodeError:
            continue
    return found


_REASONS = {
    "LDAPInvalidCredentialsResult": ("denied", "bind_dn or its password is refused"),
    "LDAPInappropriateAuthenticationResult": ("denied", "bind_dn or its password is refused"),
    "LDAPInsufficientAccessRightsResult": ("permission", "the search is not permitted"),
    "LDAPStrongerAuthRequiredResult": ("permission", "the server wants TLS or a stronger way in"),
    "LDAPConfidentialityRequiredResult": ("permission", "the server wants TLS"),
    "LDAPNoSuchObjectResult": ("absent", "there is no such base_dn, or it may not be seen"),
    "LDAPSocketReceiveError": ("timeout", "no answer in time"),
    "LDAPResponseTimeoutError": ("timeout", "no answer in time"),
}


def _fault(error: Exception, place: str) -> Unavailable:
    name = type(error).__name__
    reason, detail = _REASONS.get(name, ("remote", " ".join(str(error).split())[:200] or name))
    return Unavailable(reason, f"{place}: {detail}")
