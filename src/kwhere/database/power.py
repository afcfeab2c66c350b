"""Power now: what is no longer now is cleared, so that lists by power hold the living alone."""

from sqlalchemy import Engine, update

from kwhere.database import schema
from kwhere.database.engine import writing


def fade(engine: Engine, now_ns: int) -> int:
    """Clear the power of units that were silent for three slots; return how many. Readers check the time as well."""
    totals = schema.unit_totals
    stale = totals.c.power_uw.is_not(None) & (totals.c.power_until_ns <= now_ns)
    with writing(engine).begin() as connection:
        return connection.execute(update(totals).where(stale).values(power_uw=None)).rowcount
