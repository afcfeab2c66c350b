"""What the API tells of racks, of what the inventory says of nodes, and of people."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class NodeFactsView:
    """What the site's inventory says of a node; null: nobody says."""

    rack: str | None = None
    type: str | None = None
    power_limit_watts: float | None = None
    meter: str | None = None
    """What meters it, in the site's words."""
    retired_at: datetime | None = None
    """The day that is listed; `retired_at` of the node is since when it is taken so."""


NO_FACTS = NodeFactsView()


@dataclass(frozen=True, slots=True)
class RackView:
    """A rack: what its nodes draw now and what it may."""

    cluster: str
    rack: str
    nodes: int
    nodes_up: int
    power_watts: float | None
    """Of nodes that are up; less than the rack draws where `nodes_up` < `nodes`."""
    power_limit_watts: float | None
    limit_is_summed: bool
    """The limit is the sum of its nodes' limits, for want of one of the rack."""


@dataclass(frozen=True, slots=True)
class PersonView:
    """A user as the directory knows them."""

    shown_name: str
    """The full name, else the login."""
    full_name: str | None
    mail: str | None
    language: str | None
    opted_out: bool
    """Whether they want no mail."""
