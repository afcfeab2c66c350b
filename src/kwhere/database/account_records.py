"""What the read side returns of users, projects and clusters: frozen records, energy in integer microjoules."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kwhere.database.records import NodeState


class AccountSort(StrEnum):
    """What a list of users or projects can be sorted by."""

    NAME = "name"
    LAST_SEEN_AT = "last_seen_at"


@dataclass(frozen=True, slots=True)
class AccountQuery:
    """A page of users or projects."""

    cluster: str | None = None
    name: str | None = None
    q: str | None = None
    """Part of a name; case does not matter."""
    parent: str | None = None
    """Only projects below it."""
    sort: AccountSort = AccountSort.NAME
    descending: bool = False
    after: str | None = None
    limit: int = 200


ALL_ACCOUNTS = AccountQuery()


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """A user or project of a cluster."""

    cluster: str
    name: str
    units: int
    units_running: int
    energy_total_uj: int
    emissions_grams: float | None
    last_seen_at: datetime | None
    """To the hour; None: a manager lists it, nothing of it was seen yet."""
    description: str | None = None
    parent: str | None = None
    """Of projects, as their manager says."""


@dataclass(frozen=True, slots=True)
class AccountPage:
    """One page of users or projects; `next` is None on the last."""

    items: tuple[AccountRecord, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """A cluster and its totals; of one who does not see everything those of the units that they see."""

    cluster: str
    nodes: int | None
    """None: not for the asker to know."""
    nodes_by_state: Mapping[NodeState, int]
    units_running: int
    power_uw: int | None
    zone: str | None
