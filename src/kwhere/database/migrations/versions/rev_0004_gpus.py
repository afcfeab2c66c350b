"""GPUs: what was held of them and idle, peaks of their memory, and each run's use by GPU or instance."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Integer, PrimaryKeyConstraint, String, Text

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Key = BigInteger().with_variant(Integer(), "sqlite")
_FIGURES = ("gpu_unknown_ns", "gpu_held_idle_ns", "gpu_held_idle_uj", "gpu_memory_peak_bytes")
_SUMS = (
    "held_ns",
    "allocated_ns",
    "place_ns",
    "unknown_ns",
    "busy_ns",
    "held_idle_ns",
    "energy_uj",
    "held_idle_uj",
)


def upgrade() -> None:
    """Add the columns and make the table."""
    for table in ("run_totals", "usage_5m", "usage_hour", "usage_day"):
        for name in _FIGURES:
            op.add_column(table, Column(name, BigInteger))
    op.create_table(
        "run_gpus",
        Column("unit_run_id", Key, nullable=False),
        Column("device", String(128), nullable=False, comment="uuid"),
        Column("instance", String(128), nullable=False, comment="uuid; empty: the whole device"),
        Column("gpu_index", Integer, nullable=False),
        Column("model", Text, nullable=False),
        Column("profile", String(64), nullable=False, comment="of the instance"),
        Column("source", String(32), nullable=False, comment="how it is known who held it"),
        Column("first_start_ns", BigInteger, nullable=False, comment="start of the first slot with it"),
        Column("newest_end_ns", BigInteger, nullable=False),
        Column("memory_total_bytes", BigInteger),
        Column("idle_since_ns", BigInteger),
        Column("memory_peak_bytes", BigInteger),
        *(Column(name, BigInteger) for name in _SUMS),
        PrimaryKeyConstraint("unit_run_id", "device", "instance", name="pk_run_gpus"),
        ForeignKeyConstraint(["unit_run_id"], ["unit_runs.id"], name="fk_run_gpus_unit_run_id_unit_runs"),
        postgresql_with={"fillfactor": "70"},
    )
