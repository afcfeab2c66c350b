"""Who may charge which project, as managers say now."""

from sqlalchemy import ColumnElement, false, or_, select, tuple_

from kwhere.database import schema
from kwhere.database.place_records import MembershipPage, MembershipRecord
from kwhere.database.reading.paging import decode_cursor, encode_cursor
from kwhere.database.reading.site import Moment

MOST = 1000
_held, _clusters = schema.memberships.c, schema.clusters.c
_users, _projects = schema.users.c, schema.projects.c


def list_memberships(
    moment: Moment, cluster: str | None, user: str | None, project: str | None, after: str | None, limit: int
) -> MembershipPage:
    """Return one page of memberships by cluster, project and user. Raises BadCursor."""
    limit = max(1, min(limit, MOST))
    key = (_clusters.name, _projects.name, _users.name)
    query = (
        select(_clusters.name, _projects.name, _users.name)
        .select_from(schema.memberships)
        .join(schema.users, _users.id == _held.user_id)
        .join(schema.projects, _projects.id == _held.project_id)
        .join(schema.clusters, _clusters.id == _users.cluster_id)
        .where(*_seen(moment))
        .order_by(*key)
        .distinct()
        .limit(limit + 1)
    )
    for column, value in zip(key, (cluster, project, user), strict=True):
        if value is not None:
            query = query.where(column == value)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*decode_cursor(after, (str, str, str))))
    rows = [(row[0], row[1], row[2]) for row in moment.connection.execute(query)]
    managers = _managers(moment, rows[:limit])
    items = tuple(
        MembershipRecord(cluster_name, user_name, project_name, managers[cluster_name, project_name, user_name])
        for cluster_name, project_name, user_name in rows[:limit]
    )
    return MembershipPage(items, encode_cursor(list(rows[limit - 1])) if len(rows) > limit else None)


def _seen(moment: Moment) -> list[ColumnElement[bool]]:
    """One's own memberships, and the members of projects that one may see."""
    sight = moment.sight
    if sight.everything:
        return []
    arms = [
        column.in_(sorted(ids))
        for column, ids in ((_held.user_id, sight.user_ids), (_held.project_id, sight.project_ids))
        if ids
    ]
    return [or_(*arms) if arms else false()]


def _managers(moment: Moment, rows: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Return which managers say so, by cluster, project and user."""
    if not rows:
        return {}
    key = (_clusters.name, _projects.name, _users.name)
    query = (
        select(*key, _held.manager)
        .select_from(schema.memberships)
        .join(schema.users, _users.id == _held.user_id)
        .join(schema.projects, _projects.id == _held.project_id)
        .join(schema.clusters, _clusters.id == _users.cluster_id)
        .where(tuple_(*key) >= tuple_(*rows[0]), tuple_(*key) <= tuple_(*rows[-1]))
        .order_by(_held.manager)
    )
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for cluster, project, user, manager in moment.connection.execute(query):
        found[cluster, project, user] = (*found.get((cluster, project, user), ()), manager)
    return found
