"""Tables of what a site keeps of its nodes, racks and people; each source's list stands beside the others'."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, String, Table, Text

from kwhere.database.tables import metadata

inventory_sources = Table(
    "inventory_sources",
    metadata,
    Column("source", String(64), primary_key=True),
    Column("position", Integer, nullable=False, comment="where several say a thing differently the lowest counts"),
    Column("read_ns", BigInteger, comment="when it was read last"),
    Column("error", Text),
    Column("error_since_ns", BigInteger),
)


def _listed(item: str) -> tuple[Column[str], Column[str], Column[str]]:
    """Return the key: whose list, of which cluster, what it is called there."""
    return (
        Column("source", String(64), primary_key=True),
        Column("cluster", String(255), primary_key=True, comment="empty: of every cluster"),
        Column(item, String(255), primary_key=True),
    )


inventory_nodes = Table(
    "inventory_nodes",
    metadata,
    *_listed("node"),
    Column("short", String(255), nullable=False, comment="lower case, up to the first dot: nodes are found by it"),
    Column("rack", String(255)),
    Column("type", String(255)),
    Column("power_limit_watts", Double),
    Column("meter", Text),
    Column("retired_ns", BigInteger),
)
Index("ix_inventory_nodes_short", inventory_nodes.c.short)

inventory_racks = Table(
    "inventory_racks",
    metadata,
    *_listed("rack"),
    Column("power_limit_watts", Double),
)

directory_people = Table(
    "directory_people",
    metadata,
    *_listed("user_name"),
    Column("full_name", String(255)),
    Column("mail", String(255)),
    Column("language", String(64)),
    Column("opted_out", Boolean),
)
Index("ix_directory_people_user_name", directory_people.c.user_name)
"""Of people who used something here alone: the account keeps no copy of a directory."""
