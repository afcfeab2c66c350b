"""Which zone the grams of each cluster were last derived for: where that changes, all its hours are touched."""

from sqlalchemy import Connection, Engine, select

from kwhere.database import schema
from kwhere.database.booking import touch
from kwhere.database.choices import read_choice, write_choice
from kwhere.database.engine import writing

_KEY = "factors.zones"
Zones = dict[int, str | None]
"""Zone by cluster id."""


def zones_derived(connection: Connection) -> Zones:
    """Return what was noted last; a cluster that never was is absent."""
    held = read_choice(connection, _KEY)
    return {int(cluster_id): zone for cluster_id, zone in held.items()} if isinstance(held, dict) else {}


def forget_zones(connection: Connection, now_ns: int) -> None:
    """Let the next `note_zones` touch every hour: another provider reports."""
    write_choice(connection, _KEY, {}, now_ns, "server")


def note_zones(engine: Engine, zones: Zones, now_ns: int) -> int:
    """Touch all hours of the nodes whose zone is another than noted, then note it; return how many hours.

    Node by node in short transactions: cut off anywhere, the next call does it again.
    """
    with engine.connect() as connection:
        derived = zones_derived(connection)
        moved = [cluster for cluster, zone in zones.items() if cluster not in derived or derived[cluster] != zone]
        nodes = connection.execute(select(schema.nodes.c.id).where(schema.nodes.c.cluster_id.in_(moved))).scalars()
        node_ids = list(nodes) if moved else []
    count = sum(_touch_all(engine, node_id) for node_id in node_ids)
    if derived != zones:
        with writing(engine).begin() as connection:
            written = {str(cluster): zone for cluster, zone in zones.items()}
            write_choice(connection, _KEY, written, now_ns, "server")
    return count


def _touch_all(engine: Engine, node_id: int) -> int:
    usage = schema.node_hour.c
    with writing(engine).begin() as connection:
        starts = set(connection.execute(select(usage.start_ns).where(usage.node_id == node_id)).scalars())
        touch(connection, node_id, "hour", starts, "factor")
    return len(starts)
