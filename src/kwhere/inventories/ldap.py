"""The directory of people from an LDAP server: OpenLDAP, 389, FreeIPA, Active Directory."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import structlog
from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.inventory import Inventory, Person, gecos_name, parse_language, parse_mail, plain
from kwhere.inventories.source import InventoryPlugin, SourceSettings
from kwhere.transport.ldap_settings import LdapClientSettings

log = structlog.get_logger(__name__)

T = TypeVar("T")
Entry = Mapping[str, Sequence[str]]
"""Values by attribute, its name in lower case."""


class LdapSettings(SourceSettings, LdapClientSettings):
    """Where people are looked for, and which attribute is what."""

    filter: str = Field(
        default="", description="Filter of people; none: all entries that have the attribute of the login."
    )
    user_attribute: str = Field(
        default="uid", pattern=r"^[A-Za-z][A-Za-z0-9;-]*$", description="Attribute of the login; sAMAccountName in AD."
    )
    full_name_attributes: tuple[str, ...] = Field(
        default=("displayName", "cn", "gecos"), description="Attributes of the full name; the first that says one."
    )
    mail_attributes: tuple[str, ...] = Field(
        default=("mail",), description="Attributes of the mail address; the first that says one."
    )
    language_attributes: tuple[str, ...] = Field(
        default=("preferredLanguage",), description="Attributes of the language; the first that says one."
    )
    opt_out_filter: str | None = Field(
        default=None, min_length=3, description="Filter of those who want no mail, as (memberOf=cn=nomail,…)."
    )


class LdapSource:
    """Asks the directory with one connection per look."""

    def __init__(self, settings: LdapSettings, clock: Clock) -> None:
        """Raises ConfigError where the library is not installed."""
        try:
            from kwhere.transport.ldap import LdapClient
        except ModuleNotFoundError as error:
            raise ConfigError(f"source: ldap needs {error.name}: pip install 'kwhere[ldap]'") from error
        self._settings = settings
        self._client = LdapClient(settings)

    def read(self) -> Inventory:
        """Return everybody the filter lets through."""
        settings = self._settings
        everybody = settings.filter or f"({settings.user_attribute}=*)"
        wanted = (*settings.full_name_attributes, *settings.mail_attributes, *settings.language_attributes)
        entries = self._client.search(everybody, [settings.user_attribute, *wanted])
        silent: set[str] | None = None
        if settings.opt_out_filter is not None:
            both = f"(&{everybody}{settings.opt_out_filter})"
            silent = {
                login
                for entry in self._client.search(both, [settings.user_attribute])
                for login in entry.get(settings.user_attribute.lower(), ())
            }
        people, wrong = people_of(entries, settings, silent)
        if wrong:
            log.warning("values of the directory left out", source=settings.name or settings.source, count=wrong)
        return Inventory(people=people)

    def close(self) -> None:
        """Nothing is held between two looks."""


def people_of(
    entries: Sequence[Entry], settings: LdapSettings, silent: set[str] | None
) -> tuple[tuple[Person, ...], int]:
    """Return a person for each login, the first entry's, and how many values were left out.

    `silent`: who opted out; None where nobody was asked. What is no address or no language is left out: a directory
    is nobody's to mend here.
    """
    found: dict[str, Person] = {}
    wrong = 0
    for entry in entries:
        mail, bad_mail = _first(entry, settings.mail_attributes, lambda _, value: parse_mail(value))
        language, bad_language = _first(entry, settings.language_attributes, lambda _, value: parse_language(value))
        full_name, _ = _first(entry, settings.full_name_attributes, _full_name)
        wrong += bad_mail + bad_language
        for login in map(plain, entry.get(settings.user_attribute.lower(), ())):
            if login is not None:
                opted_out = None if silent is None else login in silent
                found.setdefault(login, Person(login, settings.cluster, full_name, mail, language, opted_out))
    return tuple(found.values()), wrong


def _full_name(attribute: str, value: str) -> str | None:
    return gecos_name(value) if attribute == "gecos" else plain(value)


def _first(entry: Entry, names: Sequence[str], parse: Callable[[str, str], T | None]) -> tuple[T | None, int]:
    """Return the first value that is one, and how many before it were none."""
    wrong = 0
    for name in names:
        for value in entry.get(name.lower(), ()):
            try:
                found = parse(name.lower(), value)
            except ValueError:
                wrong += 1
                continue
            if found is not None:
                return found, wrong
    return None, wrong


plugin = InventoryPlugin("ldap", "People from an LDAP directory.", LdapSettings, LdapSource)
