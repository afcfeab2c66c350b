"""Who asks, by every way in: which way counts when several are tried, and what each is worth."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.account_site import HandClock
from tests.oidc_provider import OidcProvider

from kwhere.access.doorman import Doorman, Entered, Ways
from kwhere.access.grants import Grants
from kwhere.access.guard import build_rules
from kwhere.access.oidc import OidcProviders
from kwhere.access.principal import Principal, Refusal
from kwhere.access.proxy import TrustedProxy
from kwhere.access.requests import DoorRequest
from kwhere.access.roles import Role
from kwhere.access.settings import AccessSettings, OidcSettings, ProxySettings
from kwhere.core.errors import NotPermitted
from kwhere.database.api_tokens import ApiToken
from kwhere.database.visibility import EVERYTHING, AccountName

OWN = "the-servers-own-token"
API_TOKEN = "kwt_0123abcd_secret"
SECRET = "s" * 40
NOW = datetime(2026, 1, 1, tzinfo=UTC)
COOKIE = "kwhere-token"
SETTINGS = AccessSettings.model_validate(
    {
        "contact": "hpc@example.org",
        "people": [
            {"name": "boss", "roles": ["operator"]},
            {"name": "lead", "roles": ["project manager"], "projects": [{"name": "cfd", "cluster": "c1"}]},
            {"name": "mail@b.example", "accounts": [{"name": "ann", "cluster": "c1"}, {"name": "ann2"}]},
        ],
        "groups": [{"group": "auditors", "roles": ["auditor"]}],
    }
)


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    started = OidcProvider()
    yield started
    started.close()


@pytest.fixture
def doorman(provider: OidcProvider, tmp_path: Path) -> Doorman:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    proxy = TrustedProxy(ProxySettings(secret_file=file, groups_header="X-Forwarded-Groups"))
    oidc = OidcProviders((OidcSettings(issuer=provider.issuer, audience=("kwhere",)),), HandClock(10**18))
    return Doorman(OWN, Ways(Grants(SETTINGS), proxy, _find, oidc))


def _find(text: str) -> ApiToken | None:
    held = ApiToken("0123abcd", "alice", "auditor", "", NOW, "root", NOW, None, None)
    return held if text == API_TOKEN else None


def _ask(doorman: Doorman, **headers: str) -> Entered | Refusal:
    pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return doorman.identify(DoorRequest("GET", "/", "", pairs), COOKIE)


def _principal(found: Entered | Refusal) -> Principal:
    assert isinstance(found, Entered), found
    return found.principal


def test_the_servers_own_token_is_its_operators(doorman: Doorman) -> None:
    for headers in ({"authorization": f"Bearer {OWN}"}, {"cookie": f"{COOKIE}={OWN}"}):
        found = _principal(_ask(doorman, **headers))

        assert (set(found.roles), found.visibility, found.is_person) == ({Role.OPERATOR}, EVERYTHING, False)
        assert found.contact == "hpc@example.org"


def test_an_api_token_is_worth_its_role_and_no_more(doorman: Doorman) -> None:
    found = _principal(_ask(doorman, authorization=f"Bearer {API_TOKEN}"))

    assert (found.name, set(found.roles)) == ("alice", {Role.AUDITOR})
    assert found.sees_everything
    assert not found.may_change
    assert "0123abcd" in found.why
    assert "secret" not in found.why


def test_an_identity_providers_user(doorman: Doorman, provider: OidcProvider) -> None:
    token = provider.token(groups=["auditors", "Auditors "])

    found = _ask(doorman, authorization=f"Bearer {token}")

    assert _principal(found).roles == {Role.USER, Role.AUDITOR}
    assert isinstance(found, Entered)
    assert not found.by_browser


def test_a_proxys_user_and_groups(doorman: Doorman) -> None:
    found = _principal(
        _ask(doorman, x_forwarded_user="alice", x_kwhere_proxy_secret=SECRET, x_forwarded_groups="users,auditors")
    )

    assert (found.name, set(found.roles)) == ("alice", {Role.USER, Role.AUDITOR})


def test_a_proxys_word_counts_before_any_token(doorman: Doorman) -> None:
    named = {"x_forwarded_user": "alice", "x_kwhere_proxy_secret": SECRET}

    assert _principal(_ask(doorman, **named, authorization=f"Bearer {OWN}")).name == "alice"
    spoofed = _ask(doorman, x_forwarded_user="alice", authorization=f"Bearer {OWN}")
    assert isinstance(spoofed, Refusal)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": f"Basic {OWN}"}, 401),
        ({"authorization": f"Bearer {OWN}x"}, 401),
        ({"authorization": "Bearer kwt_0123abcd_other"}, 401),
        ({"authorization": "Bearer a.b.c"}, 401),
        ({"cookie": f"{COOKIE}=a.b.c"}, 401),
        ({"cookie": f"other={OWN}"}, 401),
        ({"authorization": "Bearer nonsense", "cookie": f"{COOKIE}={OWN}"}, 401),
    ],
)
def test_nobody_else(doorman: Doorman, headers: dict[str, str], status: int) -> None:
    found = _ask(doorman, **headers)

    assert isinstance(found, Refusal)
    assert found.status == status


def test_a_token_twice_is_none(doorman: Doorman) -> None:
    pairs = ((b"authorization", f"Bearer {OWN}".encode()),) * 2

    assert isinstance(doorman.identify(DoorRequest("GET", "/", "", pairs), COOKIE), Refusal)


def test_a_token_of_a_provider_is_no_cookie(doorman: Doorman, provider: OidcProvider) -> None:
    assert not doorman.opens(provider.token())
    assert doorman.opens(API_TOKEN)
    assert doorman.opens(OWN)


def test_a_provider_that_is_silent_turns_nobody_away_for_good(doorman: Doorman, provider: OidcProvider) -> None:
    token = provider.token()
    provider.status = 500
    try:
        found = _ask(doorman, authorization=f"Bearer {token}")
    finally:
        provider.status = 200

    assert isinstance(found, Refusal)
    assert (found.status, found.headers) == (503, ((b"retry-after", b"30"),))


@pytest.mark.parametrize(
    ("name", "roles", "sees"),
    [
        ("alice", {Role.USER}, {AccountName("alice")}),
        ("Boss", {Role.USER}, {AccountName("Boss")}),
        ("bos", {Role.USER}, {AccountName("bos")}),
        ("mail@b.example", {Role.USER}, {AccountName("ann", "c1"), AccountName("ann2")}),
        ("lead", {Role.USER, Role.PROJECT_MANAGER}, {AccountName("lead")}),
    ],
)
def test_case_users_3_4_names_are_matched_exactly(name: str, roles: set[Role], sees: set[AccountName]) -> None:
    grants = Grants(SETTINGS)

    found = grants.principal(name, "test", grants.roles_of(name))

    assert (set(found.roles), set(found.visibility.users)) == (roles, sees)
    assert not found.sees_everything


def test_a_manager_sees_the_projects_they_are_in_and_those_they_were_given() -> None:
    grants = Grants(SETTINGS)

    seen = grants.principal("lead", "test", grants.roles_of("lead")).visibility

    assert (set(seen.projects), set(seen.members)) == ({AccountName("cfd", "c1")}, {AccountName("lead")})


def test_a_name_counts_in_the_clusters_that_share_it() -> None:
    grants = Grants(SETTINGS.model_copy(update={"clusters": ("c1", "c2")}))

    seen = {
        name: set(grants.principal(name, "test", [Role.USER]).visibility.users) for name in ("al", "mail@b.example")
    }

    assert seen["al"] == {AccountName("al", "c1"), AccountName("al", "c2")}
    assert seen["mail@b.example"] == {AccountName("ann", "c1"), AccountName("ann2")}


def test_who_lacks_a_role_is_told_which() -> None:
    grants = Grants(SETTINGS)
    alice = grants.principal("alice", "test", grants.roles_of("alice"))

    with pytest.raises(NotPermitted, match="audit log: needs the role auditor or operator, and alice is user"):
        alice.demand("audit log", Role.AUDITOR, Role.OPERATOR)


def test_people_may_stand_for_a_token_off_loopback(tmp_path: Path) -> None:
    settings = AccessSettings(proxy=ProxySettings(client_names=("proxy",)))

    assert build_rules("0.0.0.0", settings, None).token is None
    assert isinstance(Doorman(None, Ways(Grants(settings))).identify(DoorRequest("GET", "/", "", ()), COOKIE), Refusal)


def test_nobody_is_kept_out_of_an_open_server() -> None:
    found = Doorman(None).identify(DoorRequest("GET", "/", "", ()), COOKIE)

    assert _principal(found).may_change
    assert isinstance(found, Entered)
    assert found.by_browser
