"""Who does the passes: of several servers on one database the one that holds the lease."""

from sqlalchemy import Engine, delete, select

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import bulk, schema
from kwhere.database.engine import writing

_leases = schema.leases


def hold(engine: Engine, name: str, holder: str, now_ns: int, seconds: float) -> bool:
    """Take or renew a lease for `seconds`; return whether `holder` has it now.

    Clocks of the servers should agree to well within `seconds`: a lease is free when it has run out by the asker's.
    """
    until_ns = now_ns + int(seconds * NANOSECONDS_PER_SECOND)
    with writing(engine).begin() as connection:
        bulk.upsert(
            connection, _leases, ("name",), dict.fromkeys(("holder", "until_ns"), bulk.Merge.KEEP), [(name, "", 0)]
        )
        free = (_leases.c.holder == holder) | (_leases.c.until_ns <= now_ns)
        taken = connection.execute(
            _leases.update().where(_leases.c.name == name, free).values(holder=holder, until_ns=until_ns)
        )
        return taken.rowcount == 1


def release(engine: Engine, name: str, holder: str) -> None:
    """Give a lease back, so that another need not wait for its end."""
    with writing(engine).begin() as connection:
        connection.execute(delete(_leases).where(_leases.c.name == name, _leases.c.holder == holder))


def holder_of(engine: Engine, name: str, now_ns: int) -> str | None:
    """Return who holds a lease; None where it is free."""
    query = select(_leases.c.holder).where(_leases.c.name == name, _leases.c.until_ns > now_ns)
    with engine.connect() as connection:
        found: str | None = connection.execute(query).scalar_one_or_none()
    return found
