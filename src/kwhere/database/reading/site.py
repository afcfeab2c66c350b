"""What every reading needs of the site: grid, zone, the reporting source of factors, whom sums leave out."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from kwhere.database import schema
from kwhere.database.choices import read_site_choice
from kwhere.database.grid import Grid
from kwhere.database.settings import SiteSettings


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading: its connection, its now, its site."""

    connection: Connection
    now_ns: int
    site: SiteSettings

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


def left_out_nodes(connection: Connection) -> frozenset[int]:
    """Return ids of guests whose host is accounted too: its sums already hold them."""
    nodes = schema.nodes.c
    guests = connection.execute(select(nodes.id, nodes.cluster_id, nodes.parent).where(nodes.parent.is_not(None))).all()
    if not guests:
        return frozenset()
    hosts = {(row.cluster_id, row.name) for row in connection.execute(select(nodes.cluster_id, nodes.name))}
    return frozenset(row.id for row in guests if (row.cluster_id, row.parent.split("/", 1)[0]) in hosts)
