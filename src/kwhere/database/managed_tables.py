"""Tables and columns of what resource managers say: allocations, accounts, nodes, and how far each was read."""

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, String, Table, Text, true
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
        Column("job_group", String(255), comment="number of the array or heterogeneous job that it is part of"),
        Column("elapsed_ns", BigInteger, comment="without times of suspension; null: from start to end"),
        Column(
            "is_reported",
            Boolean,
            nullable=False,
            server_default=true(),
            comment="false: only its manager told of it, no agent has; it has no totals then",
        ),
    )


waiting_units = Table(
    "waiting_units",
    metadata,
    Column("cluster_id", Key, ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    Column("manager", String(64), primary_key=True),
    Column("unit", String(512), primary_key=True),
    Column("state", String(32), nullable=False),
    Column("name", Text),
    Column("user_id", Key, ForeignKey("users.id"), index=True),
    Column("project_id", Key, ForeignKey("projects.id"), index=True),
    Column("user_group", String(255)),
    Column("queue", String(255), comment="partition, queue or namespace"),
    Column("reason", Text, comment="why it waits"),
    Column("labels", Text, comment="JSON object"),
    Column("submitted_ns", BigInteger),
    Column("expected_start_ns", BigInteger),
    Column("priority", Double),
    Column("asked_cpus", Double),
    Column("asked_memory_bytes", BigInteger),
    Column("asked_gpus", Text, nullable=False, comment="JSON {model: count}"),
    Column("asked_nodes", Integer),
    Column("tasks", Integer, nullable=False, comment="tasks of an array that it stands for"),
    Column("seen_ns", BigInteger, nullable=False),
)
"""What waits in the queues, as of `manager_states.queue_ns`: it has no run and no usage."""


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
    Column("queue_ns", BigInteger, comment="when its queue was read last"),
    Column("cursor", Text, comment="of a manager that pushes: all before was written"),
    Column("error", Text),
    Column("error_since_ns", BigInteger),
)
"""How far each manager was read."""

written_notes = Table(
    "written_notes",
    metadata,
    Column("unit_id", Key, ForeignKey("units.id"), primary_key=True, autoincrement=False),
    Column("outcome", String(16), nullable=False, comment="written, left, waiting, failed, …"),
    Column("text", Text, comment="what stands there since"),
    Column("error", Text, comment="why it failed last"),
    Column("attempts", Integer, nullable=False),
    Column("changed_ns", BigInteger, nullable=False),
    Column("next_ns", BigInteger, comment="when it is looked at again; null: it is decided"),
)
"""What was written of ended units into their manager's own records."""
_open_note = written_notes.c.next_ns.is_not(None)
Index("ix_written_notes_next", written_notes.c.next_ns, sqlite_where=_open_note, postgresql_where=_open_note)
