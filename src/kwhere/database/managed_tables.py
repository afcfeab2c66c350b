"""Tables and columns of what resource managers say: allocations, accounts, nodes, and how far each was read."""

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, String, Table, Text
from sqlalchemy.schema import SchemaItem

from kwhere.database.tables import Key, metadata


def managed_unit_columns() -> tuple[SchemaItem, ...]:
    """Return the columns of `units` that only a manager fills; null: it does not say."""
    return (
        Column("queue", String(255), comment="partition, queue or namespace"),
        Column("user_group", String(255)),
        Column("placed_nodes", Text, comment="JSON list of the manager's names; null: it does not say"),
        Column("allocated_cpus", Double),
        Column("allocated_memory_bytes", BigInteger),
        Column("allocated_gpus", Text, comment="JSON {model: count}"),
        Column("allocated_nodes", Integer),
    )


memberships = Table(
    "memberships",
    metadata,
    Column("user_id", Key, ForeignKey("users.id"), primary_key=True, autoincrement=False),
    Column("project_id", Key, ForeignKey("projects.id"), primary_key=True, autoincrement=False, index=True),
    Column("manager", String(64), primary_key=True),
)
"""Who may charge what, as the manager says now."""

manager_nodes = Table(
    "manager_nodes",
    metadata,
    Column("cluster_id", Key, ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    Column("manager", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("state", String(64), nullable=False),
    Column("is_schedulable", Boolean, nullable=False),
    Column("reason", Text),
    Column("type", Text),
    Column("cpus", Double),
    Column("memory_bytes", BigInteger),
    Column("gpus", Text, nullable=False, comment="JSON {model: count}"),
    Column("allocated_cpus", Double),
    Column("allocated_memory_bytes", BigInteger),
    Column("allocated_gpus", Text, comment="JSON {model: count}"),
    Column("queues", Text, nullable=False, comment="JSON list"),
    Column("seen_ns", BigInteger, nullable=False),
)

manager_states = Table(
    "manager_states",
    metadata,
    Column("cluster_id", Key, ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    Column("manager", String(64), primary_key=True),
    Column("good_until_ns", BigInteger, comment="all before was read and written"),
    Column("facts_ns", BigInteger, comment="when accounts and nodes were read last"),
    Column("error", Text),
    Column("error_since_ns", BigInteger),
)
"""How far each manager was read."""
