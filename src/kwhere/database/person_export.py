"""All that is held of a user, row by row: what a person may ask for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, or_, select

from kwhere.core.errors import NotFound
from kwhere.database import schema

_units, _runs, _users = schema.units.c, schema.unit_runs.c, schema.users.c
_BY_UNIT: Sequence[Table] = (schema.unit_totals, schema.unit_emissions, schema.unit_figures)
_BY_RUN: Sequence[Table] = (
    schema.run_totals,
    schema.run_gpus,
    schema.usage_day,
    schema.emissions_day,
    schema.figures_day,
)
"""Hours and 5-minute buckets are parts of the days."""
_SECRET = frozenset({"digest"})
Line = Mapping[str, object]


def export_user(connection: Connection, cluster: str, user: str) -> Iterator[Line]:
    """Yield every row of a user, its table and columns as the database has them. Raises NotFound.

    Times are UTC nanoseconds (`_ns`), energy microjoules (`_uj`); what is null was not measured, and is left out.
    """
    query = select(_users.id).join(schema.clusters, schema.clusters.c.id == _users.cluster_id)
    found = connection.execute(query.where(schema.clusters.c.name == cluster, _users.name == user)).scalar_one_or_none()
    if found is None:
        raise NotFound(f"user {user}: none in cluster {cluster}")
    for table, statement in _statements(int(found), cluster, user):
        for row in connection.execute(statement):
            yield {"table": table.name, **_told(row._mapping)}


def _told(row: RowMapping) -> dict[str, object]:
    return {name: value for name, value in row.items() if value is not None and name not in _SECRET}


def _statements(user_id: int, cluster: str, user: str) -> Iterator[tuple[Table, Select[Any]]]:
    yield schema.users, select(schema.users).where(_users.id == user_id)
    people = schema.directory_people.c
    listed = select(schema.directory_people).where(people.user_name == user, people.cluster.in_((cluster, "")))
    yield schema.directory_people, listed
    projects = schema.projects.c
    held = select(schema.memberships, projects.name.label("project")).join(
        schema.projects, projects.id == schema.memberships.c.project_id
    )
    yield schema.memberships, held.where(schema.memberships.c.user_id == user_id)
    yield schema.waiting_units, select(schema.waiting_units).where(schema.waiting_units.c.user_id == user_id)
    yield schema.units, select(schema.units).where(_units.user_id == user_id).order_by(_units.id)
    units = select(_units.id).where(_units.user_id == user_id)
    runs = select(_runs.id).where(_runs.unit_id.in_(units))
    yield schema.unit_runs, select(schema.unit_runs).where(_runs.unit_id.in_(units)).order_by(_runs.id)
    for table in _BY_UNIT:
        yield table, select(table).where(table.c.unit_id.in_(units))
    for table in _BY_RUN:
        yield table, select(table).where(table.c.unit_run_id.in_(runs))
    tokens, audit = schema.api_tokens.c, schema.audit.c
    yield schema.api_tokens, select(schema.api_tokens).where(or_(tokens.owner == user, tokens.created_by == user))
    yield schema.audit, select(schema.audit).where(audit.actor == user).order_by(audit.id)
