"""What a unit is compared with: earlier units of its user that had its name."""

from typing import Any

from sqlalchemy import select

from kwhere.database import schema
from kwhere.database.grid import to_ns
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_records import UNIT_COLUMNS, records_of, unit_join
from kwhere.database.records import UnitRecord

LOOKED_THROUGH = 2000
"""So many of a user's units before it are looked through for its name, the newest first: no list is read whole."""
_units = schema.units.c


def earlier_of_name(moment: Moment, record: UnitRecord, limit: int) -> tuple[UnitRecord, ...]:
    """Return units of the same user, manager and name that started before it, newest first; () where either is None."""
    if record.user is None or record.name is None:
        return ()
    theirs = (
        select(_units.id, _units.name, _units.started_ns, _units.unit, _units.manager)
        .where(_units.user_id == _user_id(record), _units.started_ns < to_ns(record.started_at))
        .where(*moment.sight.units())
        .order_by(_units.started_ns.desc(), _units.id.desc())
        .limit(LOOKED_THROUGH)
        .subquery()
    ).c
    named = (
        select(theirs.id)
        .where(theirs.name == record.name, theirs.manager == record.manager, theirs.unit != record.unit)
        .order_by(theirs.started_ns.desc(), theirs.id.desc())
        .limit(limit)
    )
    ids = list(moment.connection.execute(named).scalars())
    rows = select(*UNIT_COLUMNS).select_from(unit_join()).where(_units.id.in_(ids))
    newest = rows.order_by(_units.started_ns.desc(), _units.id.desc())
    return tuple(records_of(moment, [row._mapping for row in moment.connection.execute(newest)]))


def _user_id(record: UnitRecord) -> Any:
    users, clusters = schema.users.c, schema.clusters.c
    return (
        select(users.id)
        .join(schema.clusters, clusters.id == users.cluster_id)
        .where(clusters.name == record.cluster, users.name == record.user)
        .scalar_subquery()
    )
