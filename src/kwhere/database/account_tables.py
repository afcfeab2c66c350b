"""Usage by account and day, summed up once: what a month of all projects is read from."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, String, Table

from kwhere.database.tables import Key, metadata

ACCOUNT_KEY = ("cluster_id", "start_ns", "kind", "manager", "user_id", "project_id", "guest_id")


def _key_columns() -> list[Column[int] | Column[str]]:
    return [
        Column("cluster_id", Key, ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
        Column("start_ns", BigInteger, primary_key=True, autoincrement=False, comment="of the day"),
        Column("kind", String(16), primary_key=True, comment="unit, system or unallocated"),
        Column("manager", String(64), primary_key=True),
        Column("user_id", Key, primary_key=True, autoincrement=False, comment="0: none"),
        Column("project_id", Key, primary_key=True, autoincrement=False, comment="0: none"),
        Column("guest_id", Key, primary_key=True, autoincrement=False, comment="the node, if a host feeds it; else 0"),
    ]


def make_account_days(figures: Sequence[str]) -> Table:
    """Return the table of sums; `figures` are the columns of usage that add up, in double precision here."""
    return Table(
        "account_days",
        metadata,
        *_key_columns(),
        Column("units", Integer, nullable=False, comment="that have usage on the day"),
        Column("new_units", Integer, nullable=False, comment="of them, those that had none on any day before"),
        *(Column(name, Double) for name in figures),
    )


account_day_amounts = Table(
    "account_day_amounts",
    metadata,
    *_key_columns(),
    Column("book", String(16), primary_key=True, comment="emissions or figures"),
    Column("item_id", Key, primary_key=True, autoincrement=False, comment="source of factors, or kind of figure"),
    Column("amount", Double, nullable=False),
    Column("rank", Integer, nullable=False, comment="of the worst quality, 0 the best"),
)
"""Grams, cost and water of the same accounts."""

account_day_marks = Table(
    "account_day_marks",
    metadata,
    Column("cluster_id", Key, ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    Column("from_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("to_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False, comment="goes up with each mark; a pass clears only what it saw"),
)
"""Spans whose days are read from their units until a pass has summed them up anew."""
Index("ix_account_day_marks_to", account_day_marks.c.cluster_id, account_day_marks.c.to_ns)
