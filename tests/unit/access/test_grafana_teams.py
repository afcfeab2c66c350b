"""Roles by Grafana's teams, read over real HTTP: replaced, never merged; kept while it is silent, but not for ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select
from tests.account_site import HandClock
from tests.databases import engine
from tests.grafana_server import TOKEN, GrafanaServer, member

from kwhere.access.grafana_teams import TeamRoles, fetch_members, keep_members
from kwhere.access.roles import Role
from kwhere.access.settings import GrafanaSettings
from kwhere.core.errors import KwhereError, NotFound, NotPermitted, SourceError
from kwhere.database import schema
from kwhere.server.grafana_pass import GrafanaPass
from kwhere.transport.http import HttpClient

__all__ = ["engine"]
NOW = 1_700_000_000_000_000_000


class Always:
    """A turn that goes on."""

    def goes_on(self) -> bool:
        return True


@pytest.fixture(scope="module")
def shared() -> Iterator[GrafanaServer]:
    server = GrafanaServer()
    yield server
    server.close()


@pytest.fixture
def grafana(shared: GrafanaServer) -> GrafanaServer:
    shared.broken = None
    shared.teams = {"HPC admins": [member("alice", "a@b.example"), member("bob")], "hpc admins": [member("mallory")]}
    return shared


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("grafana") / "token"
    file.write_text(TOKEN)
    return file


def _settings(grafana: GrafanaServer, token_file: Path, **changes: object) -> GrafanaSettings:
    words: dict[str, object] = {
        "url": grafana.url,
        "client": {"token_file": token_file},
        "teams": [{"team": "HPC admins"}],
        **changes,
    }
    return GrafanaSettings.model_validate(words)


def _fetch(settings: GrafanaSettings) -> dict[str, list[str]]:
    with HttpClient(settings.url, settings.client) as client:
        return fetch_members(client, settings)


def test_the_members_of_a_team_have_its_roles(grafana: GrafanaServer, token_file: Path) -> None:
    grafana.teams["auditors & more/?"] = [member("carol")]
    teams = [{"team": "HPC admins"}, {"team": "auditors & more/?", "roles": ["auditor", "user"]}]

    found = _fetch(_settings(grafana, token_file, teams=teams))

    assert found == {"operator": ["alice", "bob"], "auditor": ["carol"], "user": ["carol"]}


def test_a_member_may_be_known_by_mail(grafana: GrafanaServer, token_file: Path) -> None:
    assert _fetch(_settings(grafana, token_file, name_field="email")) == {"operator": ["a@b.example"]}


def test_names_that_are_none_are_nobodys(grafana: GrafanaServer, token_file: Path) -> None:
    grafana.teams["HPC admins"] = [member(name) for name in ("", "1000", "al ice", "bob\n", "dave")] + [{}]

    assert _fetch(_settings(grafana, token_file)) == {"operator": ["dave"]}


def test_a_team_that_is_not_there_is_told(grafana: GrafanaServer, token_file: Path) -> None:
    with pytest.raises(NotFound, match="Hpc Admins"):
        _fetch(_settings(grafana, token_file, teams=[{"team": "Hpc Admins"}]))


def test_a_token_without_rights_is_told(grafana: GrafanaServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("wrong")

    with pytest.raises(NotPermitted, match="401"):
        _fetch(_settings(grafana, file))


@pytest.mark.parametrize("broken", [500, 302, b"", b"[]", b"{}", b'{"teams": 7}', b'{"teams": [{"name": 1}]}', b"\xff"])
def test_nonsense_is_told(grafana: GrafanaServer, token_file: Path, broken: bytes | int) -> None:
    grafana.broken = broken

    with pytest.raises((SourceError, NotFound)):
        _fetch(_settings(grafana, token_file))


@given(st.binary(max_size=60))
def test_any_answer_is_read_or_told(shared: GrafanaServer, token_file: Path, body: bytes) -> None:
    shared.broken = body

    with pytest.raises(KwhereError):
        _fetch(_settings(shared, token_file))


def test_case_ceems_540_who_left_the_team_has_left_the_role(
    engine: Engine, grafana: GrafanaServer, token_file: Path
) -> None:
    clock = HandClock(NOW)
    roles = TeamRoles(engine, clock, keep_hours=24)
    read = GrafanaPass(engine, _settings(grafana, token_file), clock)
    read.run(Always())
    before = list(roles("alice"))
    grafana.teams["HPC admins"] = [member("bob")]
    clock.now_ns += 300 * 10**9

    assert read.is_due()
    read.run(Always())

    assert (before, list(roles("alice")), list(roles("bob"))) == ([Role.OPERATOR], [], [Role.OPERATOR])
    with engine.connect() as connection:
        details = connection.execute(select(schema.audit.c.detail).order_by(schema.audit.c.id)).scalars().all()
    assert details == [
        '{"operator": {"added": ["alice", "bob"], "removed": []}}',
        '{"operator": {"added": [], "removed": ["alice"]}}',
    ]


def test_the_list_counts_while_grafana_is_silent_but_not_for_ever(engine: Engine) -> None:
    clock = HandClock(NOW)
    keep_members(engine, {"operator": ["alice"]}, NOW)
    roles = TeamRoles(engine, clock, keep_hours=1)
    held = []
    for seconds in (0, 3600, 3606):
        clock.now_ns = NOW + seconds * 10**9
        held.append(list(roles("alice")))

    assert held == [[Role.OPERATOR], [Role.OPERATOR], []]


def test_the_name_of_an_admin_within_another_is_no_admin(engine: Engine) -> None:
    keep_members(engine, {"operator": ["alice"]}, NOW)
    roles = TeamRoles(engine, HandClock(NOW), keep_hours=1)

    assert [list(roles(name)) for name in ("ali", "alicea", "ALICE", "", "malice")] == [[], [], [], [], []]


def test_the_same_list_again_is_no_news(engine: Engine) -> None:
    assert keep_members(engine, {"operator": ["alice"]}, NOW)
    assert not keep_members(engine, {"operator": ["alice"]}, NOW + 1)
