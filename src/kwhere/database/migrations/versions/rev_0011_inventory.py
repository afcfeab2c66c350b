"""What a site keeps of its nodes, racks and people."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, PrimaryKeyConstraint, String, Text

revision = "0011"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and make the tables."""
    op.add_column("nodes", Column("retired_by", String(64), comment="null: a person said so"))
    op.create_table(
        "inventory_sources",
        Column("source", String(64), nullable=False),
        Column("position", Integer, nullable=False, comment="where several say a thing differently the lowest counts"),
        Column("read_ns", BigInteger, comment="when it was read last"),
        Column("error", Text),
        Column("error_since_ns", BigInteger),
        PrimaryKeyConstraint("source", name="pk_inventory_sources"),
    )
    op.create_table(
        "inventory_nodes",
        *_listed("node"),
        Column("short", String(255), nullable=False, comment="lower case, up to the first dot: nodes are found by it"),
        Column("rack", String(255)),
        Column("type", String(255)),
        Column("power_limit_watts", Double),
        Column("meter", Text),
        Column("retired_ns", BigInteger),
        PrimaryKeyConstraint("source", "cluster", "node", name="pk_inventory_nodes"),
    )
    op.create_index("ix_inventory_nodes_short", "inventory_nodes", ["short"])
    op.create_table(
        "inventory_racks",
        *_listed("rack"),
        Column("power_limit_watts", Double),
        PrimaryKeyConstraint("source", "cluster", "rack", name="pk_inventory_racks"),
    )
    op.create_table(
        "directory_people",
        *_listed("user_name"),
        Column("full_name", String(255)),
        Column("mail", String(255)),
        Column("language", String(64)),
        Column("opted_out", Boolean),
        PrimaryKeyConstraint("source", "cluster", "user_name", name="pk_directory_people"),
    )
    op.create_index("ix_directory_people_user_name", "directory_people", ["user_name"])


def _listed(item: str) -> tuple[Column[str], Column[str], Column[str]]:
    return (
        Column("source", String(64), nullable=False),
        Column("cluster", String(255), nullable=False, comment="empty: of every cluster"),
        Column(item, String(255), nullable=False),
    )
