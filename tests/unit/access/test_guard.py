"""The door before API and pages, asked over HTTP without a network."""

import anyio
import httpx
import pytest

from kwhere.access.guard import Guard, GuardRules, Receive, Scope, build_rules, cookie_name, require_auth
from kwhere.access.refusals import Send
from kwhere.access.settings import AccessSettings
from kwhere.core.errors import ConfigError

TOKEN = "correct-horse-battery"
BASE = "http://127.0.0.1:9811"


async def _inside(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"inside"})


def _ask(
    path: str, *, method: str = "GET", token: str | None = TOKEN, headers: dict[str, str] | None = None
) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=Guard(_inside, GuardRules(token=token)))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(
                method, path, headers={n.encode(): v.encode("latin-1") for n, v in (headers or {}).items()}
            )

    return anyio.run(ask)


def _cookie(value: str = TOKEN) -> dict[str, str]:
    return {"cookie": f"kwhere-token-9811={value}"}


@pytest.mark.parametrize(
    "headers",
    [{"authorization": f"Bearer {TOKEN}"}, {"authorization": f"bearer  {TOKEN} "}, _cookie()],
    ids=["bearer", "bearer in other spelling", "cookie"],
)
def test_the_token_opens(headers: dict[str, str]) -> None:
    assert _ask("/api/v1/units", headers=headers).text == "inside"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        _cookie("wrong"),
        {"cookie": "a=\x01;;="},
        {"cookie": f"kwhere-token={TOKEN}"},
        {"authorization": "Bearer ünicode"},
    ],
)
def test_without_the_token_the_api_answers_a_problem(headers: dict[str, str]) -> None:
    answer = _ask("/api/v1/units", headers=headers)

    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["status"] == 401


def test_without_the_token_a_page_says_where_it_is() -> None:
    answer = _ask("/", headers={"accept": "text/html"})

    assert answer.status_code == 401
    assert "state directory" in answer.text


def test_the_token_in_the_url_becomes_a_cookie_and_leaves_the_url() -> None:
    answer = _ask(f"/units?user=alice&token={TOKEN}&q=a%26b")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/units?user=alice&q=a%26b"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"kwhere-token-9811={TOKEN}; ")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_a_token_in_the_url_never_leads_to_another_host() -> None:
    assert _ask(f"{BASE}//evil.example/ü?token={TOKEN}").headers["location"] == "/evil.example/%C3%BC"


@pytest.mark.parametrize("path", ["/?token=wrong", f"/api/v1/units?token={TOKEN}"])
def test_a_wrong_token_or_one_in_an_api_url_opens_nothing(path: str) -> None:
    assert _ask(path).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9811", "127.0.0.1.evil.example", "a b", ""])
@pytest.mark.parametrize("token", [TOKEN, None])
def test_a_foreign_host_is_refused_even_with_the_token(host: str, token: str | None) -> None:
    answer = _ask(f"/?token={TOKEN}", token=token, headers={"host": host, "authorization": f"Bearer {TOKEN}"})

    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost:9811", "127.0.0.1", "[::1]:9811"])
def test_loopback_names_are_answered(host: str) -> None:
    assert _ask("/", token=None, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": BASE}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:8000"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({}, 403),
    ],
)
@pytest.mark.parametrize("token", [TOKEN, None])
def test_a_change_comes_from_our_own_pages_only(headers: dict[str, str], status: int, token: str | None) -> None:
    assert _ask("/zone", method="POST", token=token, headers={**_cookie(), **headers}).status_code == status


def test_a_change_with_a_bearer_token_needs_no_origin() -> None:
    assert _ask("/zone", method="POST", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_every_answer_carries_the_security_headers() -> None:
    for answer in (_ask("/", token=None), _ask("/"), _ask(f"/?token={TOKEN}")):
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", ""])
def test_off_loopback_without_a_token_nothing_starts(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^access\.token_file"):
        build_rules(host, AccessSettings(), None)


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="16 characters"):
        require_auth("127.0.0.1", "secret")


def test_loopback_may_do_without() -> None:
    assert build_rules("127.0.0.1", AccessSettings(), None).token is None


def test_the_rules_do_not_show_the_token() -> None:
    assert TOKEN not in repr(build_rules("10.0.0.1", AccessSettings(), TOKEN))


def test_two_servers_on_one_host_have_two_cookies() -> None:
    assert cookie_name("127.0.0.1:9811") != cookie_name("127.0.0.1:9821")
