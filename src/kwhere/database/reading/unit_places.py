"""Where a page of units goes on, by names: an id would tell how many units others have had."""

from collections.abc import Sequence

from sqlalchemy import func, select

from kwhere.database import schema
from kwhere.database.reading.paging import BadCursor
from kwhere.database.reading.site import Moment

_units, _nodes, _clusters = schema.units.c, schema.nodes.c, schema.clusters.c
PLACE_KINDS = (str, str, str, str, str)
"""Cluster, manager, unit, run, and the node where it is one node's own; else empty."""
_SCOPE = func.coalesce(_nodes.name, "")
_NAMED = schema.units.join(schema.clusters, _clusters.id == _units.cluster_id).outerjoin(
    schema.nodes, _nodes.id == _units.scope_node_id
)


def words_of(moment: Moment, unit_id: int) -> list[str]:
    """Return the words that name a unit's place."""
    names = select(_clusters.name, _units.manager, _units.unit, _units.run, _SCOPE)
    row = moment.connection.execute(names.select_from(_NAMED).where(_units.id == unit_id)).one()
    return [str(word) for word in row]


def id_of(moment: Moment, words: Sequence[object]) -> int:
    """Return the id of the unit that words name. Raises BadCursor where it is gone, or not the asker's to see."""
    cluster, manager, unit, run, node = words
    query = (
        select(_units.id)
        .select_from(_NAMED)
        .where(_clusters.name == cluster, _units.manager == manager, _units.unit == unit, _units.run == run)
        .where(node == _SCOPE, *moment.sight.units())
    )
    found: int | None = moment.connection.execute(query.limit(1)).scalar_one_or_none()
    if found is None:
        raise BadCursor("after: the unit that the cursor stands at is no longer in the list; begin it anew")
    return found
