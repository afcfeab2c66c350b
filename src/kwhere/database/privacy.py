"""Taking a person out of the account: every sum stays, the name goes."""

import secrets
import zlib

from sqlalchemy import Connection, Engine, delete, select, update

from kwhere.core.errors import NotFound
from kwhere.database import audit, bulk, schema
from kwhere.database.engine import writing
from kwhere.database.identities import search_text
from kwhere.database.person_traces import AccountNames, drop_traces
from kwhere.database.sums import RunNames

_units, _runs = schema.units.c, schema.unit_runs.c
_NOTHING = zlib.compress(b"")


def pseudonymise_user(engine: Engine, cluster: str, user: str, now_ns: int, *, by: str) -> str:
    """Replace a user's name by a random one, which is returned; names and labels of the user's units go too.

    What a directory said of the user goes, and the API tokens of that name end. Slots as they were served hold names:
    of the nodes concerned their lines are emptied, the figures stay. A user who is still active comes back with the
    next slot. Raises NotFound.
    """
    alias = f"user-{secrets.token_hex(6)}"
    with writing(engine).begin() as connection:
        user_id = _find(connection, cluster, user)
        connection.execute(update(schema.users).where(schema.users.c.id == user_id).values(name=alias))
        _rename_units(connection, user_id, user, alias)
        _empty_lines(connection, user_id)
        _forget_person(connection, cluster, user)
        drop_traces(connection, user_id, AccountNames(user, alias), now_ns)
        audit.record(connection, now_ns, by, "pseudonymise user", f"{cluster}/{alias}")
    return alias


def _find(connection: Connection, cluster: str, user: str) -> int:
    users, clusters = schema.users.c, schema.clusters.c
    query = (
        select(users.id)
        .join(schema.clusters, clusters.id == users.cluster_id)
        .where(clusters.name == cluster, users.name == user)
    )
    found: int | None = connection.execute(query).scalar_one_or_none()
    if found is None:
        raise NotFound(f"user {user}: none in cluster {cluster}")
    return found


def _rename_units(connection: Connection, user_id: int, user: str, alias: str) -> None:
    """Process groups are called after their user: their ids and runs are renamed as well."""
    projects = schema.projects.c
    query = (
        select(_units.id, _units.unit, _units.run, projects.name)
        .outerjoin(schema.projects, projects.id == _units.project_id)
        .where(_units.user_id == user_id)
    )
    rows: list[bulk.Row] = []
    for unit_id, unit, run, project in connection.execute(query):
        unit, run = (_without(user, word, alias) for word in (unit, run))
        rows.append((unit_id, unit, run, search_text(unit, RunNames(user=alias, project=project))))
    changes = {"unit": "v.unit", "run": "v.run"}
    named = {**changes, "name": "NULL", "labels": "NULL", "search": "v.search"}
    bulk.update(connection, schema.units, ("id", "unit", "run", "search"), named, "units.id = v.id", rows)
    columns = ("id", "unit", "run", "search")
    runs: list[bulk.Row] = []
    for run_id, unit, run in connection.execute(
        select(_runs.id, _runs.unit, _runs.run)
        .join(schema.units, _units.id == _runs.unit_id)
        .where(_units.user_id == user_id)
    ):
        runs.append((run_id, _without(user, unit, alias), _without(user, run, alias)))
    bulk.update(connection, schema.unit_runs, columns[:3], changes, "unit_runs.id = v.id", runs)


def _without(user: str, word: str, alias: str) -> str:
    return f"{alias}:{word.removeprefix(f'{user}:')}" if word.startswith(f"{user}:") else word


def _empty_lines(connection: Connection, user_id: int) -> None:
    nodes = select(_runs.node_id).join(schema.units, _units.id == _runs.unit_id).where(_units.user_id == user_id)
    for table in (schema.slots, schema.quarantine):
        connection.execute(update(table).where(table.c.node_id.in_(nodes)).values(line=_NOTHING))


def _forget_person(connection: Connection, cluster: str, user: str) -> None:
    """Drop what a directory said of them; of every cluster only where no other cluster has that user."""
    people, users = schema.directory_people.c, schema.users.c
    of = [cluster]
    if connection.execute(select(users.id).where(users.name == user)).first() is None:
        of.append("")
    gone = delete(schema.directory_people).where(people.user_name == user, people.cluster.in_(of))
    connection.execute(gone)
