"""What sources of inventory and directory say, written down: a list replaces the one before, a failure keeps it."""

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection, Engine, Table, delete, select, update

from kwhere.core.inventory import Inventory, InventoryNode, Person
from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.engine import writing
from kwhere.database.grid import to_ns
from kwhere.database.node_names import short_name
from kwhere.database.retirements import apply_retirements
from kwhere.database.storable import ACCOUNT_LENGTH, ERROR_LENGTH, cut, fits

ANY_CLUSTER = ""
_LISTS = (schema.inventory_nodes, schema.inventory_racks, schema.directory_people)


def write_inventory(engine: Engine, source: str, position: int, found: Inventory, now_ns: int) -> None:
    """Replace what a source said by what it says now, in one transaction; idempotent."""
    with writing(engine).begin() as connection:
        _note(connection, source, position)
        if found.nodes is not None:
            _replace(connection, schema.inventory_nodes, source, (_node_row(source, node) for node in found.nodes))
        if found.racks is not None:
            racks = ((source, rack.cluster or ANY_CLUSTER, rack.name, rack.power_limit_watts) for rack in found.racks)
            _replace(connection, schema.inventory_racks, source, racks)
        if found.people is not None:
            known = _known_users(connection)
            people = (_person_row(source, person) for person in found.people if _is_known(person, known))
            _replace(connection, schema.directory_people, source, people)
        table = schema.inventory_sources
        good = {"read_ns": now_ns, "error": None, "error_since_ns": None}
        connection.execute(update(table).where(table.c.source == source).values(**good))
        apply_retirements(connection, now_ns)


def note_inventory_error(engine: Engine, source: str, position: int, error: str, now_ns: int) -> None:
    """Note why a source could not be read, and since when; what it said last stands."""
    table = schema.inventory_sources
    with writing(engine).begin() as connection:
        _note(connection, source, position)
        mine = table.c.source == source
        connection.execute(update(table).where(mine).values(error=cut(error, ERROR_LENGTH)))
        first = mine & table.c.error_since_ns.is_(None)
        connection.execute(update(table).where(first).values(error_since_ns=now_ns))


def forget_other_sources(engine: Engine, kept: Collection[str], now_ns: int) -> None:
    """Drop what sources said that are configured no longer."""
    table = schema.inventory_sources
    with writing(engine).begin() as connection:
        gone = sorted(set(connection.execute(select(table.c.source)).scalars()) - set(kept))
        if not gone:
            return
        for each in (*_LISTS, table):
            connection.execute(delete(each).where(each.c.source.in_(gone)))
        apply_retirements(connection, now_ns)


def _note(connection: Connection, source: str, position: int) -> None:
    row = (source, position)
    bulk.upsert(connection, schema.inventory_sources, ("source",), {"position": Merge.NEW}, [row])


def _replace(connection: Connection, table: Table, source: str, rows: Iterable[bulk.Row]) -> None:
    columns = [column.name for column in table.columns]
    latest = {row[:3]: row for row in rows if _fits(row)}
    connection.execute(delete(table).where(table.c.source == source))
    bulk.insert(connection, table, columns, list(latest.values()))


def _fits(row: Sequence[object]) -> bool:
    """A name that cannot be a key is nobody's."""
    return all(word == ANY_CLUSTER or fits(str(word)) for word in row[1:3])


def _node_row(source: str, node: InventoryNode) -> bulk.Row:
    retired_ns = None if node.retired_at is None else to_ns(node.retired_at)
    return (
        *(source, node.cluster or ANY_CLUSTER, node.name, short_name(node.name)),
        *(_cut(node.rack), _cut(node.type), node.power_limit_watts, _cut(node.meter), retired_ns),
    )


def _person_row(source: str, person: Person) -> bulk.Row:
    return (
        *(source, person.cluster or ANY_CLUSTER, person.user),
        *(_cut(person.full_name), _cut(person.mail), _cut(person.language), person.opted_out),
    )


def _cut(word: str | None) -> str | None:
    return cut(word, ACCOUNT_LENGTH)


def _known_users(connection: Connection) -> set[tuple[str, str]]:
    users, clusters = schema.users.c, schema.clusters.c
    query = select(clusters.name, users.name).join(schema.clusters, clusters.id == users.cluster_id)
    found = {(cluster, name) for cluster, name in connection.execute(query)}
    return found | {(ANY_CLUSTER, name) for _, name in found}


def _is_known(person: Person, known: set[tuple[str, str]]) -> bool:
    return (person.cluster or ANY_CLUSTER, person.user) in known
