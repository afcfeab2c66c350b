"""The door before API and pages: `Host`, token, origin of a change, security headers. Plain ASGI, no framework."""

import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from kwhere.access.hosts import LOOPBACK_NAMES, allowed_hosts, host_name, host_port, is_loopback
from kwhere.access.settings import AccessSettings
from kwhere.core.errors import ConfigError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
API_PREFIX = "/api/"
OPEN_PREFIX = "/static/"
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What the door asks for. `token` None: nothing (loopback only)."""

    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = LOOPBACK_NAMES
    secure_cookie: bool = False
    cookie_seconds: int = 30 * 86400


def build_rules(listen_host: str, settings: AccessSettings, token: str | None) -> GuardRules:
    """Return the rules for a server on `listen_host`. Raises ConfigError off loopback without a token."""
    require_auth(listen_host, token)
    return GuardRules(
        token=token,
        hosts=allowed_hosts(listen_host, settings.hosts),
        secure_cookie=settings.secure_cookie,
        cookie_seconds=settings.cookie_days * 86400,
    )


def require_auth(listen_host: str, token: str | None) -> None:
    """Refuse to serve strangers: off loopback there must be a token. Raises ConfigError."""
    if token is None and not is_loopback(listen_host):
        raise ConfigError(
            f"access.token_file: expected a token, because {listen_host or 'every address'} can be reached from other "
            "machines; set it, or listen on 127.0.0.1"
        )
    if token is not None and len(token) < 16:
        raise ConfigError(f"access.token_file: expected at least 16 characters, found {len(token)}")


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    title: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Request:
    """The few things of a request that the door looks at."""

    method: str
    path: str
    query: str
    headers: dict[bytes, bytes]

    @property
    def host(self) -> str:
        return self.text(b"host")

    def text(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")


class Guard:
    """ASGI middleware that lets a request pass, sets the cookie, or refuses with a problem or a page."""

    def __init__(self, app: App, rules: GuardRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass `scope` on, or answer in its place."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(
            scope["method"], scope["path"], scope["query_string"].decode("latin-1"), dict(scope["headers"])
        )
        guarded = _with_security_headers(send)
        location = self._entry(request)
        if location is not None:
            await _redirect(guarded, location, self._cookie_header(request))
            return
        refusal = self._refusal(request)
        if refusal is not None:
            await _refuse(guarded, request, refusal)
            return
        await self._app(scope, receive, guarded)

    def _entry(self, request: _Request) -> str | None:
        """Return where to go on where the URL carries the right token: the same place without it."""
        if request.method != "GET" or "token=" not in request.query or request.path.startswith(API_PREFIX):
            return None
        pairs = parse_qsl(request.query, keep_blank_values=True)
        given = next((value for name, value in pairs if name == "token"), None)
        if given is None or not self._is_token(given) or self._host_refusal(request):
            return None
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        path = "/" + quote(request.path.lstrip("/"))
        return f"{path}?{rest}" if rest else path

    def _refusal(self, request: _Request) -> _Refusal | None:
        refusal = self._host_refusal(request)
        if refusal or self._rules.token is None:
            return refusal or _origin_refusal(request)
        scheme, _, given = request.text(b"authorization").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return None
        if self._is_token(_cookie(request)):
            return _origin_refusal(request)
        if request.path.startswith(OPEN_PREFIX) and request.method in SAFE_METHODS:
            return None
        return _Refusal(
            401,
            "Access token needed",
            "open the address that kwhere printed at its start (it ends in /?token=…), or send "
            "`Authorization: Bearer TOKEN`; the token is in the file `token` of the state directory, or where "
            "`access.token_file` says",
        )

    def _host_refusal(self, request: _Request) -> _Refusal | None:
        if host_name(request.host) in self._rules.hosts:
            return None
        return _Refusal(
            421,
            "Foreign Host header",
            f"this server does not answer for {request.host!r}; a name it is to answer for goes into `access.hosts`",
        )

    def _is_token(self, given: str | None) -> bool:
        expected = self._rules.token
        return expected is not None and given is not None and hmac.compare_digest(given.encode(), expected.encode())

    def _cookie_header(self, request: _Request) -> str:
        secure = "; Secure" if self._rules.secure_cookie else ""
        pair = f"{cookie_name(request.host)}={self._rules.token}"
        return f"{pair}; Max-Age={self._rules.cookie_seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"


def cookie_name(host_header: str) -> str:
    """Return the cookie's name: with the port in it, for browsers share cookies between the ports of a host."""
    port = host_port(host_header)
    return f"kwhere-token-{port}" if port else "kwhere-token"


def _cookie(request: _Request) -> str | None:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(request.text(b"cookie"))
    except CookieError:
        return None
    morsel = jar.get(cookie_name(request.host))
    return None if morsel is None else morsel.value


def _origin_refusal(request: _Request) -> _Refusal | None:
    """A change must come from a page of this very server; `Origin` or `Sec-Fetch-Site` says so."""
    if request.method in SAFE_METHODS or request.text(b"sec-fetch-site") == "same-origin":
        return None
    origin = request.text(b"origin")
    if origin in (f"http://{request.host}", f"https://{request.host}"):
        return None
    found = f"it came from {origin!r}" if origin else "it named no origin"
    return _Refusal(403, "Foreign origin", f"a change is taken from this server's own pages only; {found}")


def _with_security_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            present = {name.lower() for name, _ in headers}
            headers += [pair for pair in SECURITY_HEADERS if pair[0] not in present]
            if b"cache-control" not in present:
                headers.append((b"cache-control", b"private, no-store"))
            message["headers"] = headers
        await send(message)

    return wrapped


async def _redirect(send: Send, location: str, cookie: str) -> None:
    headers = [(b"location", location.encode("ascii")), (b"set-cookie", cookie.encode("latin-1"))]
    await _answer(send, 303, headers, b"")


async def _refuse(send: Send, request: _Request, refusal: _Refusal) -> None:
    headers: list[tuple[bytes, bytes]] = []
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="kwhere"'))
    if request.path.startswith(API_PREFIX) or "text/html" not in request.text(b"accept"):
        problem = {"type": "about:blank", "title": refusal.title, "status": refusal.status, "detail": refusal.detail}
        headers.append((b"content-type", b"application/problem+json"))
        await _answer(send, refusal.status, headers, json.dumps(problem).encode())
        return
    headers.append((b"content-type", b"text/html; charset=utf-8"))
    await _answer(send, refusal.status, headers, _page(refusal).encode())


def _page(refusal: _Refusal) -> str:
    # A browser that followed the printed address out of another page holds back the Strict cookie once.
    again = '<p><a href="/">Try again</a>, if you have just come by that address.</p>' if refusal.status == 401 else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(refusal.title)} · kwhere</title><link rel=stylesheet href=/static/style.css>"
        f"<main class=page><h1>{escape(refusal.title)}</h1><p class=prose>{escape(refusal.detail)}.</p>{again}</main>"
    )


async def _answer(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
