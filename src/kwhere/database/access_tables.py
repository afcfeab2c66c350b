"""Tables of who may come in."""

from sqlalchemy import BigInteger, Column, String, Table, Text

from kwhere.database.tables import metadata

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", String(16), primary_key=True, comment="public part of the token"),
    Column("digest", String(64), nullable=False, comment="SHA-256 of the whole token, which is kept nowhere"),
    Column("owner", String(255), nullable=False),
    Column("role", String(32), nullable=False),
    Column("note", Text, nullable=False, comment="what it is for"),
    Column("created_ns", BigInteger, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
    Column("used_ns", BigInteger, comment="when it was used last, to some minutes"),
    Column("revoked_ns", BigInteger),
)
