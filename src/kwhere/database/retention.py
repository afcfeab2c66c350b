"""What is dropped when it is old. Days, lifetime totals and choices stay."""

from sqlalchemy import Connection, Engine, delete, select

from kwhere.database import schema
from kwhere.database.choices import read_choice, write_choice
from kwhere.database.engine import writing
from kwhere.database.grid import DAY_NS, HOUR_NS, Grid
from kwhere.database.settings import RetentionSettings

_BUCKETS_FROM = "buckets.from_ns"
_HOURS_FROM = "hours.from_ns"


def buckets_from(connection: Connection) -> int:
    """Return the moment (UTC ns) before which 5-minute buckets have been dropped."""
    return _mark(connection, _BUCKETS_FROM)


def hours_from(connection: Connection) -> int:
    """Return the moment (UTC ns) before which hours have been dropped."""
    return _mark(connection, _HOURS_FROM)


def _mark(connection: Connection, key: str) -> int:
    held = read_choice(connection, key)
    return held if isinstance(held, int) else 0


def drop_old(engine: Engine, settings: RetentionSettings, grid: Grid, now_ns: int) -> dict[str, int]:
    """Drop what is past its time, table by table in short transactions; return rows dropped by table.

    Buckets go by whole hours, and only hours that are not waiting to be summed up.
    """
    dropped = {"slots": _drop_slots(engine, now_ns - settings.slots_hours * HOUR_NS)}
    dropped |= _drop_buckets(engine, grid.hour_start(now_ns - settings.buckets_days * DAY_NS))
    dropped |= _drop_hours(engine, grid.day_start(now_ns - settings.hours_days * DAY_NS))
    with writing(engine).begin() as connection:
        old = schema.audit.c.at_ns < now_ns - settings.audit_days * DAY_NS
        dropped["audit"] = connection.execute(delete(schema.audit).where(old)).rowcount
    return dropped


def _drop_hours(engine: Engine, before_ns: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    with writing(engine).begin() as connection:
        if before_ns > hours_from(connection):
            write_choice(connection, _HOURS_FROM, before_ns, before_ns, "retention")
    for table in (schema.usage_hour, schema.node_hour, schema.emissions_hour, schema.figures_hour):
        with writing(engine).begin() as connection:
            counts[table.name] = connection.execute(delete(table).where(table.c.start_ns < before_ns)).rowcount
    return counts


def _drop_slots(engine: Engine, before_ns: int) -> int:
    with writing(engine).begin() as connection:
        return connection.execute(delete(schema.slots).where(schema.slots.c.end_ns < before_ns)).rowcount


def _drop_buckets(engine: Engine, before_ns: int) -> dict[str, int]:
    touched = schema.touched
    with writing(engine).begin() as connection:
        waiting = connection.execute(
            select(touched.c.start_ns).where(touched.c.width == "hour").order_by(touched.c.start_ns).limit(1)
        ).scalar_one_or_none()
        before_ns = min(before_ns, before_ns if waiting is None else waiting)
        if before_ns <= buckets_from(connection):
            return {"usage_5m": 0, "node_5m": 0}
        # First the mark: a late slot that is booked from now on goes to its hour.
        write_choice(connection, _BUCKETS_FROM, before_ns, before_ns, "retention")
        nodes = connection.execute(select(schema.nodes.c.id)).scalars().all()
        counts = {"usage_5m": 0, "node_5m": 0}
        for node_id in nodes:
            for table in (schema.usage_5m, schema.node_5m):
                old = (table.c.node_id == node_id) & (table.c.start_ns < before_ns)
                counts[table.name] += connection.execute(delete(table).where(old)).rowcount
    return counts
