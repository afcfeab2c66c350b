"""Usage by account and day, summed up once; an owner's units by their start."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    String,
    column,
)

revision = "0010"
down_revision = "0013"
branch_labels = None
depends_on = None

_KEY = BigInteger().with_variant(Integer(), "sqlite")
_NAMES = ("cluster_id", "start_ns", "kind", "manager", "user_id", "project_id", "guest_id")
_FIGURES = (
    "cpu_dynamic_uj cpu_idle_uj dram_dynamic_uj dram_idle_uj gpu_dynamic_uj gpu_idle_uj other_dynamic_uj "
    "other_idle_uj cpu_user_ns cpu_system_ns cpu_allocated_ns memory_allocated_kib_seconds gpu_allocated_ns "
    "memory_kib_seconds gpu_busy_ns gpu_memory_kib_seconds io_read_bytes io_write_bytes io_read_operations "
    "io_write_operations network_receive_bytes network_transmit_bytes throttled_ns gpu_unknown_ns gpu_held_idle_ns "
    "gpu_held_idle_uj "
)


def upgrade() -> None:
    """Make the tables, and mark all that was booked so far."""
    op.create_table(
        "account_days",
        *_key_columns(),
        Column("units", Integer, nullable=False, comment="that have usage on the day"),
        Column("new_units", Integer, nullable=False, comment="of them, those that had none on any day before"),
        *(Column(name, Double) for name in _FIGURES.split()),
        PrimaryKeyConstraint(*_NAMES, name="pk_account_days"),
        ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_account_days_cluster_id_clusters"),
    )
    op.create_table(
        "account_day_amounts",
        *_key_columns(),
        Column("book", String(16), nullable=False, comment="emissions or figures"),
        Column("item_id", _KEY, nullable=False, comment="source of factors, or kind of figure"),
        Column("amount", Double, nullable=False),
        Column("rank", Integer, nullable=False, comment="of the worst quality, 0 the best"),
        PrimaryKeyConstraint(*_NAMES, "book", "item_id", name="pk_account_day_amounts"),
        ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_account_day_amounts_cluster_id_clusters"),
    )
    op.create_table(
        "account_day_marks",
        Column("cluster_id", _KEY, nullable=False),
        Column("from_ns", BigInteger, nullable=False),
        Column("to_ns", BigInteger, nullable=False),
        Column("version", BigInteger, nullable=False, comment="goes up with each mark; a pass clears only what it saw"),
        PrimaryKeyConstraint("cluster_id", "from_ns", "to_ns", name="pk_account_day_marks"),
        ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_account_day_marks_cluster_id_clusters"),
    )
    op.create_index("ix_account_day_marks_to", "account_day_marks", ["cluster_id", "to_ns"])
    op.execute(
        "INSERT INTO account_day_marks (cluster_id, from_ns, to_ns, version)"
        " SELECT n.cluster_id, d.start_ns, max(d.start_ns) + 1, 1 FROM node_day d JOIN nodes n ON n.id = d.node_id"
        " GROUP BY n.cluster_id, d.start_ns"
    )
    for owner in ("user_id", "project_id"):
        is_known = column(owner).is_not(None)
        op.drop_index(f"ix_units_{owner}", "units")
        op.create_index(
            f"ix_units_{owner}", "units", [owner, "started_ns"], sqlite_where=is_known, postgresql_where=is_known
        )


def _key_columns() -> list[Column[int] | Column[str]]:
    return [
        Column("cluster_id", _KEY, nullable=False),
        Column("start_ns", BigInteger, nullable=False, comment="of the day"),
        Column("kind", String(16), nullable=False, comment="unit, system or unallocated"),
        Column("manager", String(64), nullable=False),
        Column("user_id", _KEY, nullable=False, comment="0: none"),
        Column("project_id", _KEY, nullable=False, comment="0: none"),
        Column("guest_id", _KEY, nullable=False, comment="the node, if a host feeds it; else 0"),
    ]
