"""PUE by time as it is in force, and as it was: what an edit of the settings changes, and what it leaves alone.

Dated entries say what was, so an edit of one is retroactive. The undated `pue_ratio` is what is in force from the
moment it is first seen on; what it was before is remembered.
"""

from sqlalchemy import Connection, Engine

from kwhere.core.errors import ConfigError
from kwhere.database.choices import read_choice, write_choice
from kwhere.database.grid import BUCKET_NS
from kwhere.database.settings import SiteSettings
from kwhere.energy.steps import Steps

_SEEN = "pue.seen"
_IN_FORCE = "pue.in_force"


def dated_pue(site: SiteSettings) -> Steps[float]:
    """Return the dated entries of the settings. Raises ConfigError."""
    try:
        return Steps.of((site.start_ns(entry.since), entry.ratio) for entry in site.pue)
    except ValueError as error:
        raise ConfigError(f"site.pue: {error}") from error


def noted_pue(connection: Connection) -> Steps[float]:
    """Return what `note_pue` noted last; no steps where it never did."""
    return _read(connection, _IN_FORCE)


def pue_in_force(connection: Connection, site: SiteSettings) -> Steps[float]:
    """Return the PUE by time that figures are derived with; that of the settings where none was noted yet."""
    noted = noted_pue(connection)
    return noted if noted.starts_ns else Steps((0,), (site.pue_ratio,)).over(dated_pue(site))


def read_pue(engine: Engine, site: SiteSettings) -> Steps[float]:
    """Return the PUE by time that figures are derived with, in a transaction of its own."""
    with engine.connect() as connection:
        return pue_in_force(connection, site)


def note_pue(connection: Connection, site: SiteSettings, dated: Steps[float], now_ns: int) -> Steps[float]:
    """Note what is in force now and return it: what `pue_ratio` was over time, then the dated entries."""
    seen = _read(connection, _SEEN)
    if not seen.starts_ns:
        seen = Steps((0,), (site.pue_ratio,))
    elif seen.values[-1] != site.pue_ratio:
        # From the next bucket on: the one that has begun keeps what it began with.
        start_ns = max(seen.starts_ns[-1] + BUCKET_NS, -(-now_ns // BUCKET_NS) * BUCKET_NS)
        seen = Steps.of([*seen.pairs(), (start_ns, site.pue_ratio)])
    found = seen.over(dated)
    for key, steps in ((_SEEN, seen), (_IN_FORCE, found)):
        if _read(connection, key) != steps:
            write_choice(connection, key, [list(pair) for pair in steps.pairs()], now_ns, "server")
    return found


def _read(connection: Connection, key: str) -> Steps[float]:
    held = read_choice(connection, key)
    return Steps.of((start_ns, ratio) for start_ns, ratio in held) if isinstance(held, list) else Steps()
