"""The door before API and pages: `Host`, who asks, origin of a change, security headers. Plain ASGI, no framework."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from kwhere.access.doorman import Doorman, Entered
from kwhere.access.hosts import LOOPBACK_NAMES, allowed_hosts, host_name, host_port, is_loopback
from kwhere.access.principal import PRINCIPAL_KEY, Principal, Refusal
from kwhere.access.refusals import API_PREFIX, Message, Send, redirect, refuse
from kwhere.access.requests import DoorRequest
from kwhere.access.roles import Role
from kwhere.access.settings import AccessSettings
from kwhere.core.errors import ConfigError, NotPermitted

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
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
    require_auth(listen_host, token, settings)
    return GuardRules(
        token=token,
        hosts=allowed_hosts(listen_host, settings.hosts),
        secure_cookie=settings.secure_cookie,
        cookie_seconds=settings.cookie_days * 86400,
    )


def require_auth(listen_host: str, token: str | None, settings: AccessSettings | None = None) -> None:
    """Refuse to serve strangers: off loopback people must come in by something. Raises ConfigError."""
    if token is None and not is_loopback(listen_host) and not (settings and settings.names_people):
        raise ConfigError(
            f"access.token_file: expected a token, because {listen_host or 'every address'} can be reached from other "
            "machines; set it, access.proxy or access.oidc, or listen on 127.0.0.1"
        )
    if token is not None and len(token) < 16:
        raise ConfigError(f"access.token_file: expected at least 16 characters, found {len(token)}")


class Guard:
    """ASGI middleware that lets a request pass with its principal, sets the cookie, or refuses."""

    def __init__(self, app: App, rules: GuardRules, doorman: Doorman | None = None) -> None:
        """Without `doorman` the rules' token is the only way in."""
        self._app = app
        self._rules = rules
        self._doorman = doorman or Doorman(rules.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass `scope` on, or answer in its place."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = DoorRequest.of(scope)
        guarded = _with_security_headers(send)
        refusal = self._host_refusal(request)
        if refusal is not None:
            await refuse(guarded, request, refusal)
            return
        token = await self._token_in_url(request)
        if token is not None:
            await redirect(guarded, _without_token(request), self._cookie_header(request, token))
            return
        found = await self._identify(request)
        if isinstance(found, Refusal):
            if not _is_open(request):
                await refuse(guarded, request, found)
                return
            await self._app(scope, receive, guarded)
            return
        refusal = _origin_refusal(request) if found.by_browser else None
        refusal = refusal or _change_refusal(request, found.principal)
        if refusal is not None:
            await refuse(guarded, request, refusal)
            return
        await self._app({**scope, PRINCIPAL_KEY: found.principal}, receive, guarded)

    async def _identify(self, request: DoorRequest) -> Entered | Refusal:
        name = cookie_name(request.host)
        if self._doorman.is_quick(request, name):
            return self._doorman.identify(request, name)
        return await asyncio.to_thread(self._doorman.identify, request, name)

    async def _token_in_url(self, request: DoorRequest) -> str | None:
        """Return the right token that a page's URL carries; it goes into a cookie and out of the URL."""
        if request.method != "GET" or "token=" not in request.query or request.path.startswith(API_PREFIX):
            return None
        given = next((value for name, value in _pairs(request) if name == "token"), None)
        if given is None or not await asyncio.to_thread(self._doorman.opens, given):
            return None
        return given

    def _host_refusal(self, request: DoorRequest) -> Refusal | None:
        if host_name(request.host) in self._rules.hosts:
            return None
        return Refusal(
            421,
            "Foreign Host header",
            f"this server does not answer for {request.host!r}; a name it is to answer for goes into `access.hosts`",
        )

    def _cookie_header(self, request: DoorRequest, token: str) -> str:
        secure = "; Secure" if self._rules.secure_cookie else ""
        pair = f"{cookie_name(request.host)}={token}"
        return f"{pair}; Max-Age={self._rules.cookie_seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"


def cookie_name(host_header: str) -> str:
    """Return the cookie's name: with the port in it, for browsers share cookies between the ports of a host."""
    port = host_port(host_header)
    return f"kwhere-token-{port}" if port else "kwhere-token"


def _pairs(request: DoorRequest) -> list[tuple[str, str]]:
    return parse_qsl(request.query, keep_blank_values=True)


def _without_token(request: DoorRequest) -> str:
    """Return where to go on: the same place without the token."""
    rest = urlencode([(name, value) for name, value in _pairs(request) if name != "token"])
    path = "/" + quote(request.path.lstrip("/"))
    return f"{path}?{rest}" if rest else path


def _is_open(request: DoorRequest) -> bool:
    """Return whether anybody may have it: the pages' style and script, which tell nothing."""
    return request.path.startswith(OPEN_PREFIX) and request.method in SAFE_METHODS


def _origin_refusal(request: DoorRequest) -> Refusal | None:
    """A change must come from a page of this very server; `Origin` or `Sec-Fetch-Site` says so."""
    if request.method in SAFE_METHODS or request.text(b"sec-fetch-site") == "same-origin":
        return None
    origin = request.text(b"origin")
    if origin in (f"http://{request.host}", f"https://{request.host}"):
        return None
    found = f"it came from {origin!r}" if origin else "it named no origin"
    return Refusal(403, "Foreign origin", f"a change is taken from this server's own pages only; {found}")


def _change_refusal(request: DoorRequest, principal: Principal) -> Refusal | None:
    """Who may only look changes nothing, whatever the route."""
    if request.method in SAFE_METHODS:
        return None
    try:
        principal.demand("a change", Role.OPERATOR)
    except NotPermitted as error:
        return Refusal(403, "Not permitted", f"{error}; ask {principal.contact}")
    return None


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
