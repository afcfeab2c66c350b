"""An owner's units by energy and by end: the owners of ended units beside their totals. Corrections written quicker."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, column

revision = "0014"
down_revision = "0010"
branch_labels = None
depends_on = None

_FOREIGN = {
    "corrections": ("fk_corrections_unit_run_id", "fk_corrections_source_id"),
    "figure_corrections": (
        "fk_figure_corrections_unit_run_id_unit_runs",
        "fk_figure_corrections_kind_id_figure_kinds",
    ),
}
_KEY = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Make the columns, fill them, and make the indexes; leave room in hours' lines; drop corrections' foreign keys."""
    for owner in ("user_id", "project_id"):
        op.add_column(
            "unit_totals",
            Column(f"ended_{owner}", _KEY, comment=f"the unit's {owner.removesuffix('_id')} once it has ended"),
        )
    op.execute(
        "UPDATE unit_totals SET ended_user_id = u.user_id, ended_project_id = u.project_id FROM units u"
        " WHERE u.id = unit_totals.unit_id AND u.ended_ns IS NOT NULL"
        " AND (u.user_id IS NOT NULL OR u.project_id IS NOT NULL)"
    )
    for owner in ("user_id", "project_id"):
        _index(f"ix_unit_totals_ended_{owner}", "unit_totals", [f"ended_{owner}", "energy_uj", "unit_id"])
        op.drop_index(f"ix_units_{owner}", "units")
        _index(f"ix_units_{owner}", "units", [owner, "started_ns", "id"])
        _index(f"ix_units_{owner}_ended", "units", [owner, "ended_ns", "id"])
    for table, constraints in _FOREIGN.items():
        with op.batch_alter_table(table) as changed:
            for name in constraints:
                changed.drop_constraint(name, type_="foreignkey")
    if op.get_bind().dialect.name == "postgresql":
        for table in ("emissions_hour", "figures_hour"):
            op.execute(f"ALTER TABLE {table} SET (fillfactor = 50)")


def _index(name: str, table: str, columns: list[str]) -> None:
    is_known = column(columns[0]).is_not(None)
    op.create_index(name, table, columns, sqlite_where=is_known, postgresql_where=is_known)
