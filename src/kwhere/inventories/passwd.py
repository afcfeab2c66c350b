"""People's full names from the passwd database, by the name service switch (SSSD, LDAP, files) or from one file."""

import pwd
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import Unavailable
from kwhere.core.inventory import Inventory, Person, gecos_name, plain
from kwhere.inventories.csv_file import read_text
from kwhere.inventories.source import InventoryPlugin, SourceSettings

_FIELDS = 7


class PasswdSettings(SourceSettings):
    """Which passwd database."""

    file: Path | None = Field(
        default=None, description="File in the format of /etc/passwd; none: what the name service switch lists."
    )


class PasswdSource:
    """Full names from GECOS fields; it knows no mail."""

    def __init__(self, settings: PasswdSettings, clock: Clock) -> None:
        self._settings = settings

    def read(self) -> Inventory:
        """Return everybody listed."""
        file = self._settings.file
        entries = _switch() if file is None else passwd_entries(read_text(file))
        return Inventory(people=people_of(entries, self._settings.cluster))

    def close(self) -> None:
        """Nothing is held."""


def passwd_entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield login and GECOS field of each line that is one; comments and lines for NIS are passed over."""
    for line in text.split("\n"):
        fields = line.split(":")
        if len(fields) == _FIELDS and fields[0] and fields[0][0] not in "#+-":
            yield fields[0], fields[4]


def people_of(entries: Iterable[tuple[str, str]], cluster: str | None) -> tuple[Person, ...]:
    """Return a person per login, the first entry's."""
    found: dict[str, Person] = {}
    for word, gecos in entries:
        login = plain(word)
        if login is not None:
            found.setdefault(login, Person(login, cluster, gecos_name(gecos, login)))
    return tuple(found.values())


def _switch() -> list[tuple[str, str]]:
    try:
        return [(entry.pw_name, entry.pw_gecos) for entry in pwd.getpwall()]
    except OSError as error:
        raise Unavailable("remote", f"name service switch: {error.strerror}") from error


plugin = InventoryPlugin("passwd", "Full names from the passwd database.", PasswdSettings, PasswdSource)
