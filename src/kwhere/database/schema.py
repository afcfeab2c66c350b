"""The tables. Times are UTC nanoseconds (BIGINT), energy microjoules (BIGINT), null is "not measured".

A `unit_run` is a unit's run on one node, or that node's `system` or `unallocated`; a `unit` is what a person calls one.
Usage hangs on unit runs and never moves; who owns it is looked up through the unit.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from kwhere.core.terms import Component
from kwhere.database.access_tables import api_tokens
from kwhere.database.account_tables import account_day_amounts, account_day_marks, make_account_days
from kwhere.database.inventory_tables import directory_people, inventory_nodes, inventory_racks, inventory_sources
from kwhere.database.managed_tables import (
    managed_unit_columns,
    manager_nodes,
    manager_states,
    memberships,
    waiting_units,
    written_notes,
)
from kwhere.database.site_tables import audit, choices, leases, report_weeks
from kwhere.database.tables import Key, metadata
from kwhere.database.total_tables import unit_totals
from kwhere.ledger.gpu_uses import SUM_NAMES as GPU_SUMS
from kwhere.ledger.pages import ENERGY_COLUMN_NAMES
from kwhere.ledger.rows import NUMBER_COLUMNS

__all__ = [
    "account_day_amounts",
    "account_day_marks",
    "api_tokens",
    "audit",
    "choices",
    "directory_people",
    "inventory_nodes",
    "inventory_racks",
    "inventory_sources",
    "leases",
    "manager_nodes",
    "manager_states",
    "memberships",
    "metadata",
    "report_weeks",
    "unit_totals",
    "waiting_units",
    "written_notes",
]

PEAK_COLUMNS: tuple[str, ...] = ("memory_peak_bytes", "gpu_memory_peak_bytes")
"""Figures that do not add up: of two, the larger."""
SUM_COLUMNS: tuple[str, ...] = (
    *ENERGY_COLUMN_NAMES,
    *(name.replace("_byte_seconds", "_kib_seconds") for name in NUMBER_COLUMNS if name not in PEAK_COLUMNS),
)
"""The ledger's columns; byte-seconds are kept as KiB-seconds: a terabyte held for a year is too many for 64 bits."""
FIGURE_COLUMNS: tuple[str, ...] = (*SUM_COLUMNS, *PEAK_COLUMNS)
SHARE_NAMES: tuple[str, ...] = ("units_dynamic_uj", "units_idle_uj", "system_uj", "unallocated_uj")
BALANCE_COLUMNS: tuple[str, ...] = tuple(f"{component}_{share}" for component in Component for share in SHARE_NAMES)
"""Per component: dynamic and idle energy of units, energy of `system`, of `unallocated`."""


def _bigints(names: tuple[str, ...], *, nullable: bool = True) -> list[Column[int]]:
    return [
        Column(name, BigInteger, nullable=nullable, server_default=None if nullable else text("0")) for name in names
    ]


clusters = Table(
    "clusters",
    metadata,
    Column("id", Key, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("zone", String(64), comment="zone of emission factors, where it is not the site's"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Key, primary_key=True),
    Column("cluster_id", Key, ForeignKey("clusters.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("parent", String(512), comment="<hypervisor node>/<VM unit> where a host feeds this guest"),
    Column("first_start_ns", BigInteger, comment="start of the oldest slot booked"),
    Column("newest_end_ns", BigInteger, comment="end of the newest slot booked"),
    Column("newest_slot_ns", BigInteger, comment="length of that slot"),
    Column("slot_seconds", Integer),
    Column("pull_ns", BigInteger, comment="last answer"),
    Column("pull_seconds", Double),
    Column("error", Text, comment="why the last pull failed"),
    Column("error_since_ns", BigInteger),
    Column("clock_offset_ns", BigInteger, comment="node's clock less ours"),
    Column("retired_ns", BigInteger),
    Column("retired_by", String(64), comment="null: a person said so"),
    Column("cpus", Integer),
    Column("version", String(64)),
    Column("idle_policy", String(32)),
    Column("methods", Text, comment="JSON {component: [method, source]} of the newest slot"),
    Column("p_max_mw", Text, comment="JSON {component: milliwatts}"),
    *_bigints(BALANCE_COLUMNS),
    UniqueConstraint("cluster_id", "name"),
)
"""Balance columns: those of the newest slot."""

users = Table(
    "users",
    metadata,
    Column("id", Key, primary_key=True),
    Column("cluster_id", Key, ForeignKey("clusters.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("last_seen_ns", BigInteger, nullable=False),
    UniqueConstraint("cluster_id", "name"),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Key, primary_key=True),
    Column("cluster_id", Key, ForeignKey("clusters.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("last_seen_ns", BigInteger, nullable=False),
    Column("description", Text),
    Column("parent", String(255)),
    UniqueConstraint("cluster_id", "name"),
)

units = Table(
    "units",
    metadata,
    Column("id", Key, primary_key=True),
    Column("cluster_id", Key, ForeignKey("clusters.id"), nullable=False),
    Column("manager", String(64), nullable=False),
    Column("unit", String(512), nullable=False),
    Column("run", String(600), nullable=False),
    Column(
        "scope_node_id", Key, nullable=False, server_default=text("0"), comment="0: the manager's run, over all nodes"
    ),
    Column("name", Text),
    Column("user_id", Key, ForeignKey("users.id")),
    Column("project_id", Key, ForeignKey("projects.id")),
    Column("labels", Text, comment="JSON object"),
    Column("search", Text, nullable=False, comment="id, name, user and project, lower case"),
    Column("state", String(32), nullable=False),
    Column("submitted_ns", BigInteger),
    Column("started_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger, comment="null while it runs"),
    *managed_unit_columns(),
    UniqueConstraint("cluster_id", "manager", "unit", "run", "scope_node_id"),
)
Index("ix_units_started", units.c.started_ns, units.c.id)
_ended = units.c.ended_ns.is_not(None)
Index("ix_units_ended", units.c.ended_ns, units.c.id, sqlite_where=_ended, postgresql_where=_ended)
for _owner in ("user_id", "project_id"):
    _known = units.c[_owner].is_not(None)
    for _name, _time in ((f"ix_units_{_owner}", "started_ns"), (f"ix_units_{_owner}_ended", "ended_ns")):
        Index(_name, units.c[_owner], units.c[_time], units.c.id, sqlite_where=_known, postgresql_where=_known)
_grouped = units.c.job_group.is_not(None)
Index("ix_units_job_group", units.c.job_group, sqlite_where=_grouped, postgresql_where=_grouped)
NAME_INDEXED = 600
"""So many signs of a name fit into an index of PostgreSQL, whatever they are."""
_is_short = text(f"length(name) <= {NAME_INDEXED}")
Index("ix_units_name", units.c.name, sqlite_where=_is_short, postgresql_where=_is_short)
_unreported = units.c.is_reported.is_(False)
Index("ix_units_unreported", units.c.id, sqlite_where=_unreported, postgresql_where=_unreported)
_live = units.c.ended_ns.is_(None)
Index("ix_units_live", units.c.cluster_id, sqlite_where=_live, postgresql_where=_live)

unit_runs = Table(
    "unit_runs",
    metadata,
    Column("id", Key, primary_key=True),
    Column("node_id", Key, ForeignKey("nodes.id"), nullable=False),
    Column("kind", String(16), nullable=False, comment="unit, system or unallocated"),
    Column("manager", String(64), nullable=False, server_default=""),
    Column("unit", String(512), nullable=False, server_default=""),
    Column("run", String(600), nullable=False, server_default=""),
    Column("node_name", String(255), comment="where several slurmd share the host"),
    Column("methods", Text, comment="JSON {component: [method, source]} of its newest slot"),
    Column("unit_id", Key, ForeignKey("units.id"), index=True),
    Column("started_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    Column("claim", String(16), comment="claimed or unverified; null: its manager was not asked, or does not know it"),
    Column("unclaimed_since_ns", BigInteger, comment="when its manager first did not know it"),
    UniqueConstraint("node_id", "run", "unit", "manager", "kind"),
)
_live = unit_runs.c.ended_ns.is_(None)
Index("ix_unit_runs_live", unit_runs.c.node_id, sqlite_where=_live, postgresql_where=_live)
_open = unit_runs.c.claim.is_(None) | (unit_runs.c.claim != "claimed")
Index("ix_unit_runs_open", unit_runs.c.manager, unit_runs.c.id, sqlite_where=_open, postgresql_where=_open)
Index("ix_unit_runs_unit", unit_runs.c.manager, unit_runs.c.unit)

run_totals = Table(
    "run_totals",
    metadata,
    Column("unit_run_id", Key, ForeignKey("unit_runs.id"), primary_key=True, autoincrement=False),
    Column("newest_end_ns", BigInteger, nullable=False),
    Column("power_uw", BigInteger),
    Column("power_until_ns", BigInteger),
    Column("flags", Integer, nullable=False, comment="bits, see flags.py"),
    *_bigints(FIGURE_COLUMNS),
    postgresql_with={"fillfactor": "60"},
)
"""Lifetime totals of each run; no index but the key, so that PostgreSQL updates it in place."""

run_gpus = Table(
    "run_gpus",
    metadata,
    Column("unit_run_id", Key, ForeignKey("unit_runs.id"), primary_key=True, autoincrement=False),
    Column("device", String(128), primary_key=True, comment="uuid"),
    Column("instance", String(128), primary_key=True, comment="uuid; empty: the whole device"),
    Column("gpu_index", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("profile", String(64), nullable=False, comment="of the instance"),
    Column("source", String(32), nullable=False, comment="how it is known who held it"),
    Column("first_start_ns", BigInteger, nullable=False, comment="start of the first slot with it"),
    Column("newest_end_ns", BigInteger, nullable=False),
    Column("memory_total_bytes", BigInteger),
    Column("idle_since_ns", BigInteger),
    Column("memory_peak_bytes", BigInteger),
    *_bigints(GPU_SUMS),
    postgresql_with={"fillfactor": "70"},
)
"""Lifetime totals of each run by GPU or instance that it held."""

cursors = Table(
    "cursors",
    metadata,
    Column("epoch", String(64), primary_key=True),
    Column("node_id", Key, ForeignKey("nodes.id"), nullable=False, index=True),
    Column("journal", String(64), nullable=False, comment="first epoch we read of the journal it belongs to"),
    Column("seq", BigInteger, nullable=False),
    Column("digest", String(64), comment="of slot `seq`; at seq 0 of the epoch before; null: unknown"),
    Column("finished", Boolean, nullable=False, comment="read to its end: a later epoch has begun"),
    Column("target", Text, nullable=False, comment="who serves it"),
    Column("machine_id", String(128), nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("first_start_ns", BigInteger),
    Column("newest_end_ns", BigInteger),
    Column("opened_ns", BigInteger, nullable=False),
    Column("stopped", Text, comment="why it is no longer read; null while it is"),
    Column("facts", Text, comment="JSON of what its newest page said: how to read its lines"),
)
Index("ix_cursors_machine", cursors.c.machine_id, cursors.c.boot_id)

slots = Table(
    "slots",
    metadata,
    Column("epoch", String(64), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("node_id", Key, ForeignKey("nodes.id"), nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("flags", Integer, nullable=False, server_default=text("0")),
    Column("line", LargeBinary, nullable=False, comment="as served, zlib"),
    Column("controls", Text, nullable=False, comment="JSON {component: [uj, span_ns, method, source]}"),
    *_bigints(BALANCE_COLUMNS),
)
Index("ix_slots_node", slots.c.node_id, slots.c.end_ns)
Index("ix_slots_end", slots.c.end_ns)


def _usage(name: str, fillfactor: int = 100) -> Table:
    table = Table(
        name,
        metadata,
        Column("unit_run_id", Key, ForeignKey("unit_runs.id"), primary_key=True),
        Column("start_ns", BigInteger, primary_key=True),
        Column("node_id", Key, ForeignKey("nodes.id"), nullable=False),
        Column("flags", Integer, nullable=False, server_default=text("0")),
        *_bigints(FIGURE_COLUMNS),
        postgresql_with={"fillfactor": str(fillfactor)},
    )
    Index(f"ix_{name}_node", table.c.node_id, table.c.start_ns)
    return table


# A bucket is added to five times and more: with room on its page PostgreSQL does so in place.
usage_5m = _usage("usage_5m", 60)
usage_hour = _usage("usage_hour")
usage_day = _usage("usage_day")


def _node_usage(name: str) -> Table:
    table = Table(
        name,
        metadata,
        Column("node_id", Key, ForeignKey("nodes.id"), primary_key=True),
        Column("start_ns", BigInteger, primary_key=True),
        Column("accounted_ns", BigInteger, nullable=False, comment="time of the bucket that slots cover"),
        Column("measured_uj", BigInteger, nullable=False, comment="energy whose method is not modelled"),
        *_bigints(BALANCE_COLUMNS),
    )
    Index(f"ix_{name}_start", table.c.start_ns)
    return table


account_days = make_account_days(SUM_COLUMNS)
node_5m = _node_usage("node_5m")
node_hour = _node_usage("node_hour")
node_day = _node_usage("node_day")

touched = Table(
    "touched",
    metadata,
    Column("width", String(8), primary_key=True, comment="hour or day"),
    Column("node_id", Key, ForeignKey("nodes.id"), primary_key=True),
    Column("start_ns", BigInteger, primary_key=True),
    Column("version", BigInteger, nullable=False, comment="goes up with each touch; a pass clears only what it saw"),
    Column("cause", String(16), nullable=False, comment="slots or factor"),
)
"""Hours and days that a pass must compute anew."""

lost = Table(
    "lost",
    metadata,
    Column("id", Key, primary_key=True),
    Column("node_id", Key, ForeignKey("nodes.id"), nullable=False, index=True),
    Column("epoch", String(64), nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, comment="null: the rest of the epoch, of unknown length"),
    Column("start_ns", BigInteger),
    Column("end_ns", BigInteger),
    Column("recorded_ns", BigInteger, nullable=False),
    UniqueConstraint("epoch", "first_seq"),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("epoch", String(64), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("node_id", Key, ForeignKey("nodes.id"), nullable=False, index=True),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("residual_uj", BigInteger, nullable=False, comment="what it is off balance by, all components"),
    Column("line", LargeBinary, nullable=False),
    Column("recorded_ns", BigInteger, nullable=False),
)

factor_sources = Table(
    "factor_sources",
    metadata,
    Column("id", Key, primary_key=True),
    Column("provider", String(64), nullable=False),
    Column("zone", String(64), nullable=False),
    Column("basis", String(16), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("system", String(16), nullable=False),
    Column("reporting", Boolean, nullable=False, comment="of the site's provider, or stood in for it"),
    UniqueConstraint("provider", "zone", "basis", "scope", "system"),
)

factors = Table(
    "factors",
    metadata,
    Column("id", Key, primary_key=True),
    Column("source_id", Key, ForeignKey("factor_sources.id"), nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("grams_per_kwh", Double, nullable=False),
    Column("published_ns", BigInteger, nullable=False),
    Column("quality", String(16), nullable=False),
    Column("source", Text, nullable=False),
    Column("recorded_ns", BigInteger, nullable=False),
    UniqueConstraint("source_id", "start_ns", "end_ns", "published_ns"),
)
"""Later publications stand beside earlier ones; the newest in force at a moment wins."""


def _emissions(name: str, fillfactor: int = 100) -> Table:
    table = Table(
        name,
        metadata,
        Column("unit_run_id", Key, ForeignKey("unit_runs.id"), primary_key=True),
        Column("start_ns", BigInteger, primary_key=True),
        Column("source_id", Key, ForeignKey("factor_sources.id"), primary_key=True),
        Column("grams", Double, nullable=False),
        Column("quality", String(16), nullable=False, comment="the worst used"),
        Column("node_id", Key, ForeignKey("nodes.id"), nullable=False),
        Column("computed_ns", BigInteger, nullable=False),
        postgresql_with={"fillfactor": str(fillfactor)},
    )
    Index(f"ix_{name}_node", table.c.node_id, table.c.start_ns)
    return table


# The lines of an hour change together: with room on their page for all of them PostgreSQL does so in place.
emissions_hour = _emissions("emissions_hour", 50)
emissions_day = _emissions("emissions_day")

unit_emissions = Table(
    "unit_emissions",
    metadata,
    Column("unit_id", Key, ForeignKey("units.id"), primary_key=True),
    Column("source_id", Key, ForeignKey("factor_sources.id"), primary_key=True),
    Column("grams", Double, nullable=False),
    Column("quality", String(16), nullable=False),
)

corrections = Table(
    "corrections",
    metadata,
    Column("id", Key, primary_key=True),
    Column("unit_run_id", Key, nullable=False, index=True),
    Column("start_ns", BigInteger, nullable=False, comment="of the hour"),
    Column("source_id", Key, nullable=False),
    Column("old_grams", Double, nullable=False),
    Column("new_grams", Double, nullable=False),
    Column("cause", String(16), nullable=False, comment="slots or factor"),
    Column("basis", String(16), nullable=False, comment="computed from 5-minute `buckets` or from `hours`"),
    Column("recorded_ns", BigInteger, nullable=False),
)
"""Copies of lines that have those foreign keys: to look each up once more took half of a re-computation's time."""

figure_kinds = Table(
    "figure_kinds",
    metadata,
    Column("id", Key, primary_key=True),
    Column("kind", String(16), nullable=False, comment="cost or water"),
    Column("measure", String(16), nullable=False, comment="currency, or litres"),
    UniqueConstraint("kind", "measure"),
)
"""What is derived from energy beside grams."""


def _figures(name: str, fillfactor: int = 100) -> Table:
    table = Table(
        name,
        metadata,
        Column("unit_run_id", Key, ForeignKey("unit_runs.id"), primary_key=True),
        Column("start_ns", BigInteger, primary_key=True),
        Column("kind_id", Key, ForeignKey("figure_kinds.id"), primary_key=True),
        Column("amount", Double, nullable=False),
        Column("quality", String(16), nullable=False, comment="whole, or partial: no price was in force at times"),
        Column("node_id", Key, ForeignKey("nodes.id"), nullable=False),
        Column("computed_ns", BigInteger, nullable=False),
        postgresql_with={"fillfactor": str(fillfactor)},
    )
    Index(f"ix_{name}_node", table.c.node_id, table.c.start_ns)
    return table


figures_hour = _figures("figures_hour", 50)
figures_day = _figures("figures_day")

unit_figures = Table(
    "unit_figures",
    metadata,
    Column("unit_id", Key, ForeignKey("units.id"), primary_key=True),
    Column("kind_id", Key, ForeignKey("figure_kinds.id"), primary_key=True),
    Column("amount", Double, nullable=False),
    Column("quality", String(16), nullable=False),
)

figure_corrections = Table(
    "figure_corrections",
    metadata,
    Column("id", Key, primary_key=True),
    Column("unit_run_id", Key, nullable=False, index=True),
    Column("start_ns", BigInteger, nullable=False, comment="of the hour"),
    Column("kind_id", Key, nullable=False),
    Column("old_amount", Double, nullable=False),
    Column("new_amount", Double, nullable=False),
    Column("cause", String(16), nullable=False, comment="slots, pue or cost"),
    Column("basis", String(16), nullable=False, comment="computed from 5-minute `buckets` or from `hours`"),
    Column("recorded_ns", BigInteger, nullable=False),
)
