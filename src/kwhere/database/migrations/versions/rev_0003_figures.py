"""Figures beside grams: cost and water by the hour, by the day, by unit, and what was corrected of them."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
)

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

Key = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "figure_kinds",
        Column("id", Key, nullable=False),
        Column("kind", String(16), nullable=False, comment="cost or water"),
        Column("measure", String(16), nullable=False, comment="currency, or litres"),
        PrimaryKeyConstraint("id", name="pk_figure_kinds"),
        UniqueConstraint("kind", "measure", name="uq_figure_kinds_kind_measure"),
    )
    for name in ("figures_hour", "figures_day"):
        _make_figures(name)
    op.create_table(
        "unit_figures",
        Column("unit_id", Key, nullable=False),
        Column("kind_id", Key, nullable=False),
        Column("amount", Double, nullable=False),
        Column("quality", String(16), nullable=False),
        PrimaryKeyConstraint("unit_id", "kind_id", name="pk_unit_figures"),
        ForeignKeyConstraint(["unit_id"], ["units.id"], name="fk_unit_figures_unit_id_units"),
        ForeignKeyConstraint(["kind_id"], ["figure_kinds.id"], name="fk_unit_figures_kind_id_figure_kinds"),
    )
    _make_corrections()
    # Older versions let a later cause hide `slots`; only that one has usage summed up anew.
    op.execute("UPDATE touched SET cause = 'slots'")


def _make_figures(name: str) -> None:
    op.create_table(
        name,
        Column("unit_run_id", Key, nullable=False),
        Column("start_ns", BigInteger, nullable=False),
        Column("kind_id", Key, nullable=False),
        Column("amount", Double, nullable=False),
        Column("quality", String(16), nullable=False, comment="whole, or partial: no price was in force at times"),
        Column("node_id", Key, nullable=False),
        Column("computed_ns", BigInteger, nullable=False),
        PrimaryKeyConstraint("unit_run_id", "start_ns", "kind_id", name=f"pk_{name}"),
        ForeignKeyConstraint(["unit_run_id"], ["unit_runs.id"], name=f"fk_{name}_unit_run_id_unit_runs"),
        ForeignKeyConstraint(["kind_id"], ["figure_kinds.id"], name=f"fk_{name}_kind_id_figure_kinds"),
        ForeignKeyConstraint(["node_id"], ["nodes.id"], name=f"fk_{name}_node_id_nodes"),
    )
    op.create_index(f"ix_{name}_node", name, ["node_id", "start_ns"])


def _make_corrections() -> None:
    op.create_table(
        "figure_corrections",
        Column("id", Key, nullable=False),
        Column("unit_run_id", Key, nullable=False),
        Column("start_ns", BigInteger, nullable=False, comment="of the hour"),
        Column("kind_id", Key, nullable=False),
        Column("old_amount", Double, nullable=False),
        Column("new_amount", Double, nullable=False),
        Column("cause", String(16), nullable=False, comment="slots, pue or cost"),
        Column("basis", String(16), nullable=False, comment="computed from 5-minute `buckets` or from `hours`"),
        Column("recorded_ns", BigInteger, nullable=False),
        PrimaryKeyConstraint("id", name="pk_figure_corrections"),
        ForeignKeyConstraint(["unit_run_id"], ["unit_runs.id"], name="fk_figure_corrections_unit_run_id_unit_runs"),
        ForeignKeyConstraint(["kind_id"], ["figure_kinds.id"], name="fk_figure_corrections_kind_id_figure_kinds"),
    )
    op.create_index("ix_figure_corrections_unit_run_id", "figure_corrections", ["unit_run_id"])
