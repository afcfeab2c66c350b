"""What pages said of an epoch, for whoever sends its slots on."""

from alembic import op
from sqlalchemy import Column, Text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("cursors", Column("facts", Text, comment="JSON of what its newest page said: how to read its lines"))
