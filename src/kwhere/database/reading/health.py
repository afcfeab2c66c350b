"""Whether the account is in order."""

from collections import Counter

from sqlalchemy import Table, func, select

from kwhere.database import schema
from kwhere.database.cursors import count_stopped
from kwhere.database.grid import from_ns
from kwhere.database.health_records import DatabaseHealth
from kwhere.database.maintenance import current_revision
from kwhere.database.reading.node_list import NODE_COLUMNS, state_of_row
from kwhere.database.reading.site import Moment


def health(moment: Moment) -> DatabaseHealth:
    """Return counts that should be 0, states of nodes, and how far the rollups are."""
    moment.sight.demand_site("health of the server")
    connection = moment.connection
    touched = schema.touched.c
    oldest = connection.execute(select(func.min(touched.start_ns)).where(touched.width == "hour")).scalar_one()
    rows = connection.execute(select(*NODE_COLUMNS))
    return DatabaseHealth(
        revision=current_revision(connection) or "",
        dialect=connection.dialect.name,
        nodes_by_state=dict(Counter(state_of_row(row, moment.now_ns) for row in rows)),
        stopped_journals=count_stopped(connection),
        quarantined_slots=_count(moment, schema.quarantine),
        lost_records=_count(moment, schema.lost),
        oldest_touched_hour_at=None if oldest is None else from_ns(oldest),
    )


def _count(moment: Moment, table: Table) -> int:
    return int(moment.connection.execute(select(func.count()).select_from(table)).scalar_one())
