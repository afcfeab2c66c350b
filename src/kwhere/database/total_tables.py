"""Lifetime totals of units: what lists are sorted by. Narrow, for each slot moves them in every index."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Table

from kwhere.database.tables import Key, metadata

unit_totals = Table(
    "unit_totals",
    metadata,
    Column("unit_id", Key, ForeignKey("units.id"), primary_key=True, autoincrement=False),
    Column("newest_end_ns", BigInteger, nullable=False),
    Column("power_uw", BigInteger, comment="over the newest closed slot"),
    Column("power_until_ns", BigInteger, comment="from then on there is no power now"),
    Column("energy_uj", BigInteger, nullable=False),
    Column("cpu_ns", BigInteger, nullable=False),
    Column("gpu_busy_ns", BigInteger),
    Column("ended_user_id", Key, comment="the unit's user once it has ended"),
    Column("ended_project_id", Key, comment="the unit's project once it has ended"),
    postgresql_with={"fillfactor": "70"},
)
"""Owners stand here so that an owner's units have an order by energy; see `ended_owners`."""

ENDED_OWNERS = {"user_id": "ended_user_id", "project_id": "ended_project_id"}
"""By the owner's column of `units` the one here."""

_column, _id = unit_totals.c, unit_totals.c.unit_id
for _sort in ("energy_uj", "cpu_ns"):
    Index(f"ix_unit_totals_{_sort}", _column[_sort], _id)
for _sort in ("power_uw", "gpu_busy_ns"):
    _known = _column[_sort].is_not(None)
    Index(f"ix_unit_totals_{_sort}", _column[_sort], _id, sqlite_where=_known, postgresql_where=_known)
for _owner in ENDED_OWNERS.values():
    _known = _column[_owner].is_not(None)
    _name = f"ix_unit_totals_{_owner}"
    Index(_name, _column[_owner], _column.energy_uj, _id, sqlite_where=_known, postgresql_where=_known)
