"""What the directory says, on a user's page."""

import pytest
from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock

from kwhere.database.inventory_records import PersonRecord
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages


def page_of(*people: PersonRecord) -> str:
    account = FakeAccount(known_people=people)
    sources = Sources(account=account, clock=FixedClock(), time_zone="Europe/Paris", version="0.1.0")
    return AsgiClient(let_in(build_pages(sources))).get("/users/alice").text


def test_a_user_s_page_shows_the_name_and_the_address() -> None:
    page = page_of(PersonRecord("local", "alice", "Alice <A>", "alice@example.org", "fr", opted_out=True))

    assert "Alice &lt;A&gt;" in page
    assert "alice@example.org" in page
    assert "wants no mail" in page


@pytest.mark.parametrize("people", [(), (PersonRecord("local", "alice"),)])
def test_who_is_in_no_directory_has_a_page_as_before(people: tuple[PersonRecord, ...]) -> None:
    page = page_of(*people)

    assert "alice" in page
    assert "wants no mail" not in page
    assert "None" not in page
