"""Which array or heterogeneous job a unit is part of: found by its number, whole."""

import json

from alembic import op
from sqlalchemy import Column, String, bindparam, column, or_, select, table, update

revision = "0009"
down_revision = "0006"
branch_labels = None
depends_on = None

_GROUP_TAGS = ("array_job", "het_job", "array_id")
_BATCH = 10_000


def upgrade() -> None:
    """Add the column, fill it from what is known of jobs already, and index it."""
    op.add_column(
        "units",
        Column("job_group", String(255), comment="number of the array or heterogeneous job that it is part of"),
    )
    _fill()
    is_grouped = column("job_group").is_not(None)
    op.create_index("ix_units_job_group", "units", ["job_group"], sqlite_where=is_grouped, postgresql_where=is_grouped)


def _fill() -> None:
    connection = op.get_bind()
    units = table("units", column("id"), column("labels"), column("job_group"))
    tagged = or_(*(units.c.labels.like(f'%"{tag}": %') for tag in _GROUP_TAGS))
    change = update(units).where(units.c.id == bindparam("unit_id")).values(job_group=bindparam("number"))
    last = 0
    while True:
        found = connection.execute(
            select(units.c.id, units.c.labels).where(units.c.id > last, tagged).order_by(units.c.id).limit(_BATCH)
        ).all()
        if not found:
            return
        last = found[-1].id
        rows = [{"unit_id": row.id, "number": number[:255]} for row in found if (number := _number(row.labels))]
        if rows:
            connection.execute(change, rows)


def _number(labels: str) -> str | None:
    tags = json.loads(labels)
    return next((tags[tag] for tag in _GROUP_TAGS if isinstance(tags.get(tag), str)), None)
