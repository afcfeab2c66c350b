"""Tables of the site itself: what was chosen, who decided what, who does the passes."""

from sqlalchemy import BigInteger, Column, Double, String, Table, Text

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

report_weeks = Table(
    "report_weeks",
    metadata,
    Column("report", String(63), primary_key=True),
    Column("week", String(8), primary_key=True, comment="2026-W53"),
    Column("state", String(16), nullable=False, comment="waiting, written or missed"),
    Column("since_ns", BigInteger, nullable=False, comment="when it was first seen to be due"),
    Column("written_ns", BigInteger),
    Column("file", Text, comment="where it was put"),
    Column("sha256", String(64), comment="of its bytes"),
    Column("completeness_ratio", Double, comment="of the account when it was written"),
)
"""Which week of which report was written: each once."""
