"""The pass that notes edits of PUE, prices and water, and touches the hours that they change."""

from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.figure_terms import note_terms
from kwhere.database.pue import dated_pue
from kwhere.database.pue_file import read_pue_file
from kwhere.database.settings import SiteSettings
from kwhere.energy.steps import Steps
from kwhere.server.passes import Turn

LOOK_SECONDS = 10

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What tells one state of a file from another; all None: it is not there."""

    modified_ns: int | None = None
    size: int | None = None
    inode: int | None = None


class FigurePass:
    """At start, and whenever the PUE file is another. Where that cannot be read, what was read last stays in force."""

    name = "figures"

    def __init__(self, engine: Engine, site: SiteSettings, clock: Clock) -> None:
        self._engine = engine
        self._site = site
        self._clock = clock
        self._is_noted = False
        self._seen: _Stamp | None = None
        self._look_ns = 0

    def is_due(self) -> bool:
        """Return whether it never ran, or the file has changed; looked at every ten seconds."""
        if not self._is_noted:
            return True
        if self._site.pue_file is None or self._clock.monotonic_ns() < self._look_ns:
            return False
        self._rest()
        return _stamp(self._site.pue_file) != self._seen

    def run(self, turn: Turn) -> None:
        """Note and touch. Raises SourceError for a file that cannot be read, and tries again at the next look."""
        path = self._site.pue_file
        self._seen = None
        seen = None if path is None else _stamp(path)
        dated = dated_pue(self._site) if path is None else read_pue_file(path, self._site.tz)
        hours = note_terms(self._engine, self._site, dated, self._clock.utc_ns())
        self._is_noted, self._seen = True, seen
        self._rest()
        if hours:
            log.info("figures are derived anew", hours=hours)

    def _rest(self) -> None:
        self._look_ns = self._clock.monotonic_ns() + LOOK_SECONDS * NANOSECONDS_PER_SECOND


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return _Stamp()
    return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def check_pue(site: SiteSettings) -> Steps[float]:
    """Return the dated PUE of settings or file. Raises ConfigError: a server does not start on a bad one."""
    if site.pue_file is None:
        return dated_pue(site)
    try:
        return read_pue_file(site.pue_file, site.tz)
    except SourceError as error:
        raise ConfigError(f"site.pue_file: {error}") from error
