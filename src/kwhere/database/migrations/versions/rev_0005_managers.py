"""What resource managers say of units, accounts and nodes, and which run of a node is which run of theirs."""

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
)

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Key = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns and make the tables."""
    for added in (
        Column("queue", String(255), comment="partition, queue or namespace"),
        Column("user_group", String(255)),
        Column("placed_nodes", Text, comment="JSON list of the manager's names; null: it does not say"),
        Column("allocated_cpus", Double),
        Column("allocated_memory_bytes", BigInteger),
        Column("allocated_gpus", Text, comment="JSON {model: count}"),
        Column("allocated_nodes", Integer),
    ):
        op.add_column("units", added)
    op.add_column("projects", Column("description", Text))
    op.add_column("projects", Column("parent", String(255)))
    _open_runs()
    _make_memberships()
    _make_manager_nodes()
    op.create_table(
        "manager_states",
        Column("cluster_id", Key, nullable=False),
        Column("manager", String(64), nullable=False),
        Column("good_until_ns", BigInteger, comment="all before was read and written"),
        Column("facts_ns", BigInteger, comment="when accounts and nodes were read last"),
        Column("error", Text),
        Column("error_since_ns", BigInteger),
        PrimaryKeyConstraint("cluster_id", "manager", name="pk_manager_states"),
        ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_manager_states_cluster_id_clusters"),
    )


def _open_runs() -> None:
    op.add_column(
        "unit_runs",
        Column(
            "claim", String(16), comment="claimed or unverified; null: its manager was not asked, or does not know it"
        ),
    )
    op.add_column(
        "unit_runs", Column("unclaimed_since_ns", BigInteger, comment="when its manager first did not know it")
    )
    is_open = column("claim").is_(None) | (column("claim") != "claimed")
    op.create_index("ix_unit_runs_open", "unit_runs", ["manager", "id"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("ix_unit_runs_unit", "unit_runs", ["manager", "unit"])


def _make_memberships() -> None:
    op.create_table(
        "memberships",
        Column("user_id", Key, nullable=False),
        Column("project_id", Key, nullable=False),
        Column("manager", String(64), nullable=False),
        PrimaryKeyConstraint("user_id", "project_id", "manager", name="pk_memberships"),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_memberships_user_id_users"),
        ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_memberships_project_id_projects"),
    )
    op.create_index("ix_memberships_project_id", "memberships", ["project_id"])


def _make_manager_nodes() -> None:
    op.create_table(
        "manager_nodes",
        Column("cluster_id", Key, nullable=False),
        Column("manager", String(64), nullable=False),
        Column("name", String(255), nullable=False),
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
        PrimaryKeyConstraint("cluster_id", "manager", "name", name="pk_manager_nodes"),
        ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_manager_nodes_cluster_id_clusters"),
    )
