"""The directory of people from a real slapd: binding, paging, TLS, what is left out, what fails."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from structlog.testing import capture_logs
from tests import directory_server
from tests.directory_server import BASE, PASSWORD, PEOPLE, READER, Directory, person
from tests.emission_services import HandClock
from tests.unit.agent.certificates import make_authority

from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.core.inventory import Person
from kwhere.inventories.ldap import LdapSettings, LdapSource, people_of

pytestmark = pytest.mark.service("slapd")


def encoded(name: str, value: str | bytes) -> str:
    raw = value if isinstance(value, bytes) else value.encode()
    return f"{name}:: {base64.b64encode(raw).decode()}"


ENTRIES = [
    person("alice", "cn: A", "displayName: Ampère, Alice", "mail: alice@example.org", "preferredLanguage: fr-FR"),
    person("bob", "cn: bob", "mail: bob at home", "mail: bob@example.org", "preferredLanguage: de, en-gb;q=0.8"),
    person("carol", encoded("cn", "Carol \u2713\u00a0 X"), "employeeType: silent"),
    person("eve", "cn: Eve", encoded("mail", "eve@example.org\nBcc: all@example.org")),
    *(person(f"user{number:02d}", f"cn: User {number}") for number in range(20)),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slapd")


@pytest.fixture(scope="module")
def directory(folder: Path) -> Iterator[Directory]:
    certificate, key = make_authority(folder).issue("localhost")
    with directory_server.running(folder / "server", ENTRIES, certificate=certificate, key=key) as found:
        yield found


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", encoding="utf-8")
    return file


def source_of(url: str, secret: Path, **more: Any) -> LdapSource:
    words = {"source": "ldap", "url": url, "start_tls": False, "base_dn": PEOPLE, "bind_dn": READER}
    return LdapSource(LdapSettings.model_validate({**words, "password_file": str(secret), **more}), HandClock())


def people(source: LdapSource) -> dict[str, Person]:
    found = source.read().people
    assert found is not None
    return {each.user: each for each in found}


def test_everybody_comes_page_by_page_with_what_the_directory_says(directory: Directory, secret: Path) -> None:
    with capture_logs() as logs:
        found = people(source_of(directory.url, secret, page_size=7, cluster="c1"))

    assert len(found) == 24
    assert found["alice"] == Person("alice", "c1", "Ampère, Alice", "alice@example.org", "fr-FR")
    assert (found["bob"].mail, found["bob"].language) == ("bob@example.org", "de")
    assert (found["carol"].full_name, found["carol"].mail) == ("Carol ✓ X", None)
    assert found["eve"].mail is None
    assert [(line["event"], line["count"]) for line in logs] == [("values of the directory left out", 2)]


def test_who_opted_out_is_found_by_a_filter(directory: Directory, secret: Path) -> None:
    found = people(source_of(directory.url, secret, opt_out_filter="(employeeType=silent)"))

    assert [login for login, each in found.items() if each.opted_out] == ["carol"]
    assert found["alice"].opted_out is False


def test_a_filter_of_the_site_narrows(directory: Directory, secret: Path) -> None:
    assert set(people(source_of(directory.url, secret, filter="(uid=user1*)"))) == {f"user1{n}" for n in range(10)}


@pytest.mark.parametrize("way", ["ldaps", "start_tls"])
def test_by_tls_the_server_s_certificate_is_checked(directory: Directory, folder: Path, secret: Path, way: str) -> None:
    url = directory.tls_url if way == "ldaps" else directory.url.replace("127.0.0.1", "localhost")
    more = {"start_tls": way == "start_tls"}

    assert people(source_of(url, secret, ca_file=str(folder / "ca.pem"), **more))["alice"].language == "fr-FR"
    for wrong in ({"server_name": "other.example"}, {"ca_file": None}):
        with pytest.raises(Unavailable) as caught:
            source_of(url, secret, **{"ca_file": str(folder / "ca.pem"), **more, **wrong}).read()
        assert caught.value.reason == "remote"


def test_a_wrong_password_is_denied_and_stands_in_no_message(directory: Directory, tmp_path: Path) -> None:
    file = tmp_path / "wrong"
    file.write_text("not-the-password")

    with pytest.raises(Unavailable) as caught:
        source_of(directory.url, file).read()

    assert caught.value.reason == "denied"
    assert "not-the-password" not in str(caught.value)


FAILING: dict[str, tuple[dict[str, Any], type[KwhereError], str]] = {
    "nobody_there": ({"url": "ldap://127.0.0.1:9"}, Unavailable, "127.0.0.1:9"),
    "no_base": ({"base_dn": f"ou=none,{BASE}"}, Unavailable, "no such base_dn"),
    "bad_filter": ({"filter": "(uid=*"}, SourceError, "filter"),
    "anonymous": ({"bind_dn": None, "password_file": None}, Unavailable, "127.0.0.1"),
    "no_secret": ({"password_file": "/nonexistent/x"}, Unavailable, "password_file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAILING)
def test_what_fails_says_what(directory: Directory, secret: Path, kind: str) -> None:
    changed, error, words = FAILING[kind]

    with pytest.raises(error, match=words):
        source_of(**{"url": directory.url, "secret": secret, **changed}).read()


def test_half_a_list_is_no_list(tmp_path: Path, secret: Path) -> None:
    with directory_server.running(tmp_path / "small", ENTRIES, limit=10) as small, pytest.raises(SourceError) as caught:
        source_of(small.url, secret, page_size=500).read()

    assert "cut off" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"url": "http://x"}, "ldap://"),
        ({"url": "ldap://user:pw@x"}, "bind_dn"),
        ({"url": "ldap://ldap.example", "start_tls": False}, "TLS"),
        ({"url": "ldaps://x", "password_file": None}, "both"),
        ({"url": "ldaps://x", "colour": 1}, "Extra inputs"),
    ],
)
def test_settings_that_would_leak_or_fail_are_refused(words: dict[str, Any], message: str) -> None:
    base = {"source": "ldap", "base_dn": "dc=x", "bind_dn": "cn=x", "password_file": "/x"}

    with pytest.raises(ValidationError, match=message):
        LdapSettings.model_validate({**base, **words})


VALUES = st.lists(st.text(max_size=30), max_size=3)
ENTRY = st.dictionaries(st.sampled_from(["uid", "cn", "mail", "gecos", "preferredlanguage", "displayname"]), VALUES)


@given(st.lists(ENTRY, max_size=5))
def test_whatever_a_directory_says_people_are_plain(entries: list[dict[str, list[str]]]) -> None:
    settings = LdapSettings.model_validate({"source": "ldap", "url": "ldaps://x", "base_dn": "dc=x"})

    for found in people_of(entries, settings, None)[0]:
        for word in (found.user, found.full_name, found.mail, found.language):
            assert word is None or (word and word.isprintable() and "\n" not in word)
