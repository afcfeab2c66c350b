"""Tables of the site itself: what was chosen, who decided what, who does the passes."""

from sqlalchemy import BigInteger, Column, String, Table, Text

from kwhere.database.tables import Key, metadata

choices = Table(
    "choices",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False, comment="JSON"),
    Column("changed_ns", BigInteger, nullable=False),
    Column("changed_by", String(255), nullable=False),
)
"""What was chosen on the page, and the server's own marks."""

audit = Table(
    "audit",
    metadata,
    Column("id", Key, primary_key=True),
    Column("at_ns", BigInteger, nullable=False, index=True),
    Column("actor", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False, comment="JSON"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until_ns", BigInteger, nullable=False),
)
"""Two servers on one database: who does the passes."""
