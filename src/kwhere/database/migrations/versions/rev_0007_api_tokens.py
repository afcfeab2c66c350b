"""API tokens: random, kept as digests, with an owner, a role and an end."""

from alembic import op
from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, String, Text

revision = "0007"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "api_tokens",
        Column("id", String(16), nullable=False, comment="public part of the token"),
        Column("digest", String(64), nullable=False, comment="SHA-256 of the whole token, which is kept nowhere"),
        Column("owner", String(255), nullable=False),
        Column("role", String(32), nullable=False),
        Column("note", Text, nullable=False, comment="what it is for"),
        Column("created_ns", BigInteger, nullable=False),
        Column("created_by", String(255), nullable=False),
        Column("expires_ns", BigInteger, nullable=False),
        Column("used_ns", BigInteger, comment="when it was used last, to some minutes"),
        Column("revoked_ns", BigInteger),
        PrimaryKeyConstraint("id", name="pk_api_tokens"),
    )
