"""The pass that reads Grafana's teams."""

import structlog
from sqlalchemy import Engine

from kwhere.access.grafana_teams import fetch_members, keep_members
from kwhere.access.settings import GrafanaSettings
from kwhere.core.clock import Clock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.server.passes import Turn
from kwhere.transport.http import HttpClient

log = structlog.get_logger(__name__)


class GrafanaPass:
    """Reads the members of the teams every interval; a read that fails leaves the list as it was."""

    name = "grafana"

    def __init__(self, engine: Engine, settings: GrafanaSettings, clock: Clock) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._due_ns = 0

    def is_due(self) -> bool:
        """Return whether the interval is over."""
        return self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Read them. Raises what the read raises; it is tried again after the interval."""
        interval_ns = int(self._settings.interval_seconds * NANOSECONDS_PER_SECOND)
        self._due_ns = self._clock.monotonic_ns() + interval_ns
        with HttpClient(self._settings.url, self._settings.client) as client:
            members = fetch_members(client, self._settings)
        if turn.goes_on() and keep_members(self._engine, members, self._clock.utc_ns()):
            log.info("roles by Grafana's teams have changed", **{role: len(names) for role, names in members.items()})
