"""Who has a role here by a team of Grafana: read by its HTTP API, kept in the database, gone when it is too old."""

import json
from collections.abc import Collection, Mapping
from threading import Lock
from urllib.parse import quote

from sqlalchemy import Engine

from kwhere.access.names import checked_name
from kwhere.access.roles import Role
from kwhere.access.settings import GrafanaSettings
from kwhere.core.clock import Clock
from kwhere.core.errors import NotFound, NotPermitted, SourceError
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import audit
from kwhere.database.choices import read_choice, write_choice
from kwhere.database.engine import writing
from kwhere.transport.http import HttpClient

KEY = "access.grafana"
FRESH_NS = 5 * NANOSECONDS_PER_SECOND
"""How long a server goes by the list it read from the database."""
Members = Mapping[str, Collection[str]]
"""By role: names, sorted."""


def fetch_members(client: HttpClient, settings: GrafanaSettings) -> dict[str, list[str]]:
    """Return the members of the teams by role. Raises Unavailable, NotPermitted, NotFound, SourceError.

    https://grafana.com/docs/grafana/latest/developers/http_api/team/
    """
    found: dict[str, set[str]] = {}
    for team in settings.teams:
        names = _members_of(client, _team_id(client, team.team), settings.name_field)
        for role in team.roles:
            found.setdefault(str(role), set()).update(names)
    return {role: sorted(names) for role, names in sorted(found.items())}


def _team_id(client: HttpClient, name: str) -> int:
    path = f"/api/teams/search?name={quote(name, safe='')}"
    document = _ask(client, path)
    teams = document.get("teams") if isinstance(document, dict) else None
    if not isinstance(teams, list):
        raise SourceError(f"access.grafana: {path}: expected an object with `teams`")
    # Grafana's search may be lenient with case; ours is not.
    ids = [team.get("id") for team in teams if isinstance(team, dict) and team.get("name") == name]
    if len(ids) != 1 or not isinstance(ids[0], int):
        raise NotFound(f"access.grafana.teams: {name!r}: expected one team of that name, found {len(ids)}")
    return ids[0]


def _members_of(client: HttpClient, team_id: int, field: str) -> set[str]:
    path = f"/api/teams/{team_id}/members"
    members = _ask(client, path)
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise SourceError(f"access.grafana: {path}: expected a list of members")
    names = set()
    for member in members:
        try:
            names.add(checked_name(str(member.get(field) or "")))
        except ValueError:
            continue  # nobody could come in under such a name
    return names


def _ask(client: HttpClient, path: str) -> object:
    answer = client.get(path)
    if answer.status in (401, 403):
        raise NotPermitted(f"access.grafana: {path.partition('?')[0]}: the token may not read teams ({answer.status})")
    if answer.status != 200:
        raise SourceError(f"access.grafana: {path.partition('?')[0]}: expected status 200, found {answer.status}")
    try:
        document: object = json.loads(answer.body)
    except ValueError as error:
        raise SourceError(f"access.grafana: {path.partition('?')[0]}: expected JSON") from error
    return document


def keep_members(engine: Engine, members: Members, now_ns: int) -> bool:
    """Replace the list that was kept; return whether it is another, which the audit log then tells."""
    with writing(engine).begin() as connection:
        before = _held(read_choice(connection, KEY))[1]
        write_choice(connection, KEY, {"read_ns": now_ns, "members": dict(members)}, now_ns, "grafana")
        if before == members:
            return False
        detail = {
            role: {
                "added": sorted(set(members.get(role, ())) - set(before.get(role, ()))),
                "removed": sorted(set(before.get(role, ())) - set(members.get(role, ()))),
            }
            for role in sorted({*members, *before})
        }
        audit.record(connection, now_ns, "grafana", "change roles", "teams", detail)
    return True


def _held(value: object) -> tuple[int, dict[str, list[str]]]:
    if not isinstance(value, dict):
        return 0, {}
    return int(value.get("read_ns", 0)), dict(value.get("members", {}))


class TeamRoles:
    """Roles by team, as the server that leads read them last. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock, keep_hours: float) -> None:
        self._engine = engine
        self._clock = clock
        self._keep_ns = int(keep_hours * 3600 * NANOSECONDS_PER_SECOND)
        self._lock = Lock()
        self._looked_ns: int | None = None
        self._members: dict[str, list[str]] = {}

    def __call__(self, name: str) -> Collection[Role]:
        """Return the roles of a name; none once the list is too old."""
        with self._lock:
            now_ns = self._clock.utc_ns()
            if self._looked_ns is None or not 0 <= now_ns - self._looked_ns < FRESH_NS:
                with self._engine.connect() as connection:
                    read_ns, members = _held(read_choice(connection, KEY))
                self._members = members if now_ns - read_ns <= self._keep_ns else {}
                self._looked_ns = now_ns
            return [Role(role) for role, names in self._members.items() if name in names]
