"""What waits in queues, how far a manager that pushes was heard, and units that no agent reported."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    String,
    Text,
    column,
    true,
)

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

Key = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns and make the table."""
    op.add_column("manager_states", Column("queue_ns", BigInteger, comment="when its queue was read last"))
    op.add_column("manager_states", Column("cursor", Text, comment="of a manager that pushes: all before was written"))
    op.add_column(
        "units", Column("elapsed_ns", BigInteger, comment="without times of suspension; null: from start to end")
    )
    _tell_reported()
    _make_waiting_units()


def _tell_reported() -> None:
    op.add_column(
        "units",
        Column(
            "is_reported",
            Boolean,
            nullable=False,
            server_default=true(),
            comment="false: only its manager told of it, no agent has; it has no totals then",
        ),
    )
    op.execute(
        "UPDATE units SET is_reported = false WHERE scope_node_id = 0"
        " AND NOT EXISTS (SELECT 1 FROM unit_totals t WHERE t.unit_id = units.id)"
    )
    is_not = column("is_reported", Boolean).is_(False)
    op.create_index("ix_units_unreported", "units", ["id"], sqlite_where=is_not, postgresql_where=is_not)


def _make_waiting_units() -> None:
    op.create_table(
        "waiting_units",
        Column("cluster_id", Key, nullable=False),
        Column("manager", String(64), nullable=False),
        Column("unit", String(512), nullable=False),
        Column("state", String(32), nullable=False),
        Column("name", Text),
        Column("user_id", Key),
        Column("project_id", Key),
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
        PrimaryKeyConstraint("cluster_id", "manager", "unit", name="pk_waiting_units"),
        ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_waiting_units_cluster_id_clusters"),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_waiting_units_user_id_users"),
        ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_waiting_units_project_id_projects"),
    )
    for owner in ("user_id", "project_id"):
        op.create_index(f"ix_waiting_units_{owner}", "waiting_units", [owner])
