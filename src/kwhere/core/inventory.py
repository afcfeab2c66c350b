"""What a site keeps of its nodes, racks and people. Times are aware UTC, power is in watts; None: nobody says."""

import math
import re
from dataclasses import dataclass
from datetime import datetime

MOST_WATTS = 100e6
_MAIL = re.compile(r"[^@\s<>,;:\"()\[\]\\]+@[^@\s<>,;:\"()\[\]\\]+")
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})((?:[-_][A-Za-z0-9]{2,8})*)")
_MOST_MAIL = 254
_MOST_LANGUAGE = 35


@dataclass(frozen=True, slots=True)
class InventoryNode:
    """A node as the site's lists have it."""

    name: str
    cluster: str | None = None
    """None: whichever cluster has a node of that name."""
    rack: str | None = None
    type: str | None = None
    power_limit_watts: float | None = None
    meter: str | None = None
    """What meters the node: an outlet of a PDU, a BMC's address, …; shown, not asked."""
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class InventoryRack:
    """A rack and what it may draw."""

    name: str
    cluster: str | None = None
    power_limit_watts: float | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """A user as a directory knows them."""

    user: str
    """The login, as units carry it."""
    cluster: str | None = None
    full_name: str | None = None
    mail: str | None = None
    language: str | None = None
    """A tag as `fr` or `pt-BR`."""
    opted_out: bool | None = None
    """Whether they want no mail; None: the source does not say."""

    @property
    def shown_name(self) -> str:
        """Return what to call them: the full name, else the login."""
        return self.full_name or self.user


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that a source says: each list replaces its last one; None: it does not speak of such."""

    nodes: tuple[InventoryNode, ...] | None = None
    racks: tuple[InventoryRack, ...] | None = None
    people: tuple[Person, ...] | None = None


def plain(word: str | None) -> str | None:
    """Return a word on one line without control characters; None where nothing is left of it."""
    if word is None:
        return None
    kept = "".join(character if character.isprintable() else " " for character in word)
    return " ".join(kept.split()) or None


def gecos_name(word: str, login: str = "") -> str | None:
    """Return the full name in a GECOS field: what stands before the first comma, `&` being the login; None if empty."""
    return plain(word.split(",", 1)[0].replace("&", login.capitalize()))


def parse_mail(word: str | None) -> str | None:
    """Return an address; None for an empty word. Raises ValueError for what is none, or would be more than one."""
    if word is None or not word.strip():
        return None
    found = word.strip()
    if len(found) > _MOST_MAIL or not found.isprintable() or _MAIL.fullmatch(found) is None:
        raise ValueError(f"expected a mail address, found {found[:40]!r}")
    return found


def parse_language(word: str | None) -> str | None:
    """Return the tag in `fr_FR.UTF-8`, `FR` or `fr-fr;q=0.8`; None for an empty word. Raises ValueError."""
    if word is None or not word.strip():
        return None
    tag = re.split(r"[.@;,]", word.strip(), maxsplit=1)[0].strip()
    found = _LANGUAGE.fullmatch(tag)
    if found is None or len(tag) > _MOST_LANGUAGE:
        raise ValueError(f"expected a language such as en or pt-BR, found {word.strip()[:40]!r}")
    parts = [part.upper() if len(part) == 2 else part for part in re.split("[-_]", found[2]) if part]
    return "-".join([found[1].lower(), *parts])


def parse_watts(word: str | None) -> float | None:
    """Return watts; None for an empty word. Raises ValueError for what is no power above 0."""
    if word is None or not word.strip():
        return None
    try:
        found = float(word)
    except ValueError:
        found = math.nan
    if not 0 < found <= MOST_WATTS:
        raise ValueError(f"expected watts above 0, found {word.strip()[:40]!r}")
    return found
