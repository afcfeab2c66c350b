"""The owners of ended units, kept beside their totals: an owner's units then stand in the order of energy.

Of a unit that lives they are null: each slot moves its totals, in every index that holds them, and the few that live
are found by their owner and sorted on the spot. Whoever ends or wakes a unit, or gives it another owner, calls
`settle_owners` in the same transaction. What a reader may see is asked of `units`, never of these.
"""

from collections.abc import Collection

from sqlalchemy import Connection, case, or_, select, update

from kwhere.database import schema
from kwhere.database.chunks import chunks
from kwhere.database.total_tables import ENDED_OWNERS

_units, _runs, _totals = schema.units.c, schema.unit_runs.c, schema.unit_totals.c
HELD = {held: case((_units.ended_ns.is_not(None), _units[owner]), else_=None) for owner, held in ENDED_OWNERS.items()}
"""What the columns of `unit_totals` hold, as expressions over the unit's row."""
_DIFFERS = or_(*(_totals[held].is_distinct_from(owner) for held, owner in HELD.items()))
_SETTLE = update(schema.unit_totals).where(_totals.unit_id == _units.id, _DIFFERS).values(HELD)


def settle_owners(connection: Connection, unit_ids: Collection[int]) -> None:
    """Write the owners of these units beside their totals where they have ended, and take them away where they live."""
    for ids in chunks(sorted(unit_ids)):
        connection.execute(_SETTLE.where(_totals.unit_id.in_(ids)))


def settle_owners_of_runs(connection: Connection, run_ids: Collection[int]) -> None:
    """Do so for the units of these runs."""
    for ids in chunks(sorted(run_ids)):
        unit_ids = select(_runs.unit_id).where(_runs.id.in_(ids))
        connection.execute(_SETTLE.where(_totals.unit_id.in_(unit_ids)))
