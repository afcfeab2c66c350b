"""What was written of ended units into their manager's own records."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Integer, PrimaryKeyConstraint, String, Text, text

revision = "0013"
down_revision = "0011"
branch_labels = None
depends_on = None

_KEY = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "written_notes",
        Column("unit_id", _KEY, nullable=False),
        Column("outcome", String(16), nullable=False, comment="written, left, waiting, failed, …"),
        Column("text", Text, comment="what stands there since"),
        Column("error", Text, comment="why it failed last"),
        Column("attempts", Integer, nullable=False),
        Column("changed_ns", BigInteger, nullable=False),
        Column("next_ns", BigInteger, comment="when it is looked at again; null: it is decided"),
        PrimaryKeyConstraint("unit_id", name="pk_written_notes"),
        ForeignKeyConstraint(["unit_id"], ["units.id"], name="fk_written_notes_unit_id_units"),
    )
    open_ = text("next_ns IS NOT NULL")
    op.create_index("ix_written_notes_next", "written_notes", ["next_ns"], sqlite_where=open_, postgresql_where=open_)
