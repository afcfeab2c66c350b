"""Which week of which scheduled report was written."""

from alembic import op
from sqlalchemy import BigInteger, Column, Double, PrimaryKeyConstraint, String, Text

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "report_weeks",
        Column("report", String(63), nullable=False),
        Column("week", String(8), nullable=False, comment="2026-W53"),
        Column("state", String(16), nullable=False, comment="waiting, written or missed"),
        Column("since_ns", BigInteger, nullable=False, comment="when it was first seen to be due"),
        Column("written_ns", BigInteger),
        Column("file", Text, comment="where it was put"),
        Column("sha256", String(64), comment="of its bytes"),
        Column("completeness_ratio", Double, comment="of the account when it was written"),
        PrimaryKeyConstraint("report", "week", name="pk_report_weeks"),
    )
