"""Who was active on a cluster of a resource manager: users whose units worked, and users who started work.

Source: "active users" as cluster operators count them; a login is no use of a machine.
"""

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, func, or_, select

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import schema

LEAST_CPU_NS = 180 * NANOSECONDS_PER_SECOND
"""CPU time in an hour above which a unit was active: 5 % of one core."""


def users_at_work(connection: Connection, cluster: str, manager: str, since_ns: int) -> int:
    """Return how many users had a unit that in some hour since then used a GPU, or 5 % of a CPU."""
    units, runs, hours = schema.units, schema.unit_runs, schema.usage_hour
    worked = or_(
        hours.c.cpu_user_ns + hours.c.cpu_system_ns > LEAST_CPU_NS,
        func.coalesce(hours.c.gpu_busy_ns, 0) > 0,
    )
    statement = (
        select(func.count(units.c.user_id.distinct()))
        .join_from(units, runs, runs.c.unit_id == units.c.id)
        .join(hours, hours.c.unit_run_id == runs.c.id)
        .where(*_units_of(cluster, manager), or_(units.c.ended_ns.is_(None), units.c.ended_ns >= since_ns))
        .where(hours.c.start_ns >= since_ns, worked)
    )
    return int(connection.scalar(statement) or 0)


def users_who_began(
    connection: Connection, cluster: str, manager: str, since_ns: int, label: str, words: Sequence[str]
) -> int:
    """Return how many users had a unit begin since then whose `label` is one of `words`."""
    units = schema.units
    labelled = or_(*(units.c.labels.contains(json.dumps({label: word})[1:-1], autoescape=True) for word in words))
    statement = select(func.count(units.c.user_id.distinct())).where(
        *_units_of(cluster, manager), units.c.started_ns >= since_ns, labelled
    )
    return int(connection.scalar(statement) or 0)


def _units_of(cluster: str, manager: str) -> tuple[ColumnElement[bool], ...]:
    units, clusters = schema.units, schema.clusters
    found = select(clusters.c.id).where(clusters.c.name == cluster).scalar_subquery()
    return units.c.cluster_id == found, units.c.manager == manager, units.c.user_id.is_not(None)
