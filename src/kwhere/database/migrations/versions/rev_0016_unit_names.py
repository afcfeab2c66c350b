"""Units by their whole name: pods, notebooks, jobs."""

from alembic import op
from sqlalchemy import text

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index; names that would not fit into one are searched for."""
    is_short = text("length(name) <= 600")
    op.create_index("ix_units_name", "units", ["name"], sqlite_where=is_short, postgresql_where=is_short)
