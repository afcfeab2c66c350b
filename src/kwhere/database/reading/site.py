"""What every reading needs of the site: grid, zone, the reporting source of factors, whom sums leave out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from kwhere.database import schema
from kwhere.database.choices import read_site_choice
from kwhere.database.grid import Grid
from kwhere.database.settings import SiteSettings
from kwhere.database.visibility import Sight


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading: its connection, its now, its site."""

    connection: Connection
    now_ns: int
    site: SiteSettings
    sight: Sight
    """Whose units this reading may tell of; every question that touches units asks it."""

    @property
    def grid(self) -> Grid:
        """Return the grid of the site's hours and days."""
        return Grid(self.site.tz)


def zone_of_site(connection: Connection, site: SiteSettings) -> str | None:
    """Return the zone of emission factors: chosen on the page, else set, else proposed."""
    choice = read_site_choice(connection)
    if choice.zone is not None and not choice.zone_proposed:
        return choice.zone
    return site.zone or choice.zone


def zones_by_cluster(connection: Connection, site: SiteSettings) -> dict[int, str | None]:
    """Return the zone of each cluster by its id."""
    fallback = zone_of_site(connection, site)
    clusters = schema.clusters.c
    rows = connection.execute(select(clusters.id, clusters.name, clusters.zone))
    return {row.id: row.zone or site.cluster_zones.get(row.name) or fallback for row in rows}


def reporting_sources(connection: Connection) -> frozenset[int]:
    """Return ids of the sources whose grams are the site's: of no bucket more than one."""
    sources = schema.factor_sources.c
    return frozenset(connection.execute(select(sources.id).where(sources.reporting)).scalars())


def left_out_nodes(connection: Connection, within: Collection[int] | None = None) -> frozenset[int]:
    """Return ids of guests whose host is accounted too: sums over these clusters (all: None) already hold them.

    A guest's host is the node of that name in its own cluster, else the only one of that name. A guest of a guest
    counts as its hosts do. Nodes that name one another in a circle are no guests.
    """
    nodes = schema.nodes.c
    if connection.execute(select(nodes.id).where(nodes.parent.is_not(None)).limit(1)).first() is None:
        return frozenset()
    rows = connection.execute(select(nodes.id, nodes.cluster_id, nodes.name, nodes.parent)).all()
    named: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        named.setdefault(row.name, []).append((row.cluster_id, row.id))
    cluster_of = {row.id: row.cluster_id for row in rows}
    host_of = {row.id: host for row in rows if row.parent and (host := _host_of(row, named)) is not None}
    return frozenset(
        guest
        for guest in host_of
        if any(within is None or cluster_of[host] in within for host in _hosts_above(guest, host_of))
    )


def left_out_of(moment: Moment, within: Collection[int] | None = None) -> frozenset[int]:
    """Return ids of guests that the asker's sums leave out: those whose machine is a unit that the asker sees.

    A guest's energy is its machine's owner's; who does not see the machine would find their own units nowhere.
    """
    found = left_out_nodes(moment.connection, within)
    if moment.sight.everything or not found:
        return found
    nodes, units = schema.nodes.c, schema.units.c
    parents = moment.connection.execute(select(nodes.id, nodes.parent).where(nodes.id.in_(sorted(found))))
    machine_of = {row.id: (row.parent or "").partition("/")[2] for row in parents}
    machines = select(units.unit).where(units.unit.in_(sorted(set(machine_of.values()))), *moment.sight.units())
    seen = set(moment.connection.execute(machines).scalars())
    return frozenset(guest for guest, machine in machine_of.items() if machine in seen)


def _host_of(guest: Any, named: Mapping[str, Sequence[tuple[int, int]]]) -> int | None:
    """Return the id of the node that a guest names as its host."""
    found = named.get(guest.parent.split("/", 1)[0], ())
    own = [node_id for cluster_id, node_id in found if cluster_id == guest.cluster_id]
    if own:
        return own[0]
    return found[0][1] if len(found) == 1 else None


def _hosts_above(guest: int, host_of: Mapping[int, int]) -> list[int]:
    """Return a guest's host, its host's host, …; none where that leads back to one of them."""
    above: list[int] = []
    node: int | None = host_of[guest]
    while node is not None:
        if node == guest or node in above:
            return []
        above.append(node)
        node = host_of.get(node)
    return above
