"""The door to a directory server: one bound connection per look, pages of entries, nothing written ever.

Importing it needs ldap3, which `pip install 'kwhere[ldap]'` brings.
"""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import ldap3
from ldap3.core import exceptions

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.ldap_settings import LdapClientSettings

_PORTS = {"ldap": 389, "ldaps": 636}
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
        place = self._settings.url
        with self._connected() as connection:
            try:
                found = connection.extend.standard.paged_search(
                    self._settings.base_dn,
                    filter_,
                    search_scope=ldap3.SUBTREE,
                    attributes=list(attributes),
                    paged_size=self._settings.page_size,
                    generator=True,
                )
                return list(_entries(found, place))
            except exceptions.LDAPInvalidFilterError as error:
                raise SourceError(f"{place}: filter {filter_!r}: {error}") from error
            except exceptions.LDAPSizeLimitExceededResult as error:
                raise SourceError(f"{place}: expected all entries, found a list that the server cut off") from error
            except exceptions.LDAPExceptionError as error:
                raise _fault(error, place) from error

    @contextmanager
    def _connected(self) -> Iterator[ldap3.Connection]:
        settings, place = self._settings, self._settings.url
        try:
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
            connection.open()
            if settings.start_tls and not settings.is_tls_from_start:
                connection.start_tls()
            connection.bind()
        except (exceptions.LDAPExceptionError, OSError) as error:
            raise _fault(error, place) from error
        try:
            yield connection
        finally:
            connection.unbind()

    def _server(self) -> ldap3.Server:
        settings = self._settings
        parts = urlsplit(settings.url)
        tls = ldap3.Tls(
            validate=ssl.CERT_REQUIRED,
            version=ssl.PROTOCOL_TLS_CLIENT,
            ca_certs_file=None if settings.ca_file is None else str(settings.ca_file),
            valid_names=None if settings.server_name is None else [settings.server_name],
        )
        return ldap3.Server(
            settings.host,
            port=parts.port or _PORTS[parts.scheme.lower()],
            use_ssl=settings.is_tls_from_start,
            tls=tls,
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


def _entries(found: Iterator[Mapping[str, object]], place: str) -> Iterator[Entry]:
    for count, item in enumerate(found):
        if count >= _MOST_ENTRIES:
            raise SourceError(f"{place}: expected at most {_MOST_ENTRIES} entries, found more")
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


def _fault(error: Exception, place: str) -> Unavailable:
    """Return what failed, by its kind; the words of the library name neither password nor filter."""
    name, detail = type(error).__name__, " ".join(str(error).split())[:200]
    if name in ("LDAPInvalidCredentialsResult", "LDAPInappropriateAuthenticationResult"):
        return Unavailable("denied", f"{place}: bind_dn or its password is refused")
    if name in ("LDAPInsufficientAccessRightsResult", "LDAPStrongerAuthRequiredResult"):
        return Unavailable("permission", f"{place}: {detail}")
    if name in ("LDAPSocketReceiveError", "LDAPResponseTimeoutError"):
        return Unavailable("timeout", f"{place}: no answer in time")
    if name == "LDAPNoSuchObjectResult":
        return Unavailable("absent", f"{place}: there is no such base_dn")
    return Unavailable("remote", f"{place}: {detail or name}")
