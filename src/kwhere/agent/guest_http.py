"""HTTP for guests: `GET /guest` with a guest's token answers that guest's own entry, and there is nothing else here."""

import asyncio
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import structlog

from kwhere.agent.guest_choice import named_units
from kwhere.agent.guest_feeds import Told
from kwhere.agent.guest_settings import GuestSettings
from kwhere.agent.guest_tokens import GuestTokens
from kwhere.agent.http_access import AccessRules
from kwhere.agent.http_app import request_of
from kwhere.agent.http_messages import Answer, Request, problem
from kwhere.agent.http_protocol import AgentServer, server_config
from kwhere.agent.listen import address_of, close_sockets, is_local, open_sockets
from kwhere.agent.web_config import load_web_config
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.meters.guest_entry import PATH

MAX_CONNECTIONS = 256
_START_SECONDS = 10.0
_STOP_SECONDS = 1.8

log = structlog.get_logger(__name__)


class GuestPages:
    """The ASGI application: one page, whose content the token decides. Runs on the loop's thread."""

    def __init__(self, settings: GuestSettings, told: Callable[[], Told], rules: AccessRules, clock: Clock) -> None:
        self.rules = rules
        """What the server takes its TLS from."""
        files = {key: vm.token_file for key, vm in settings.vms.items() if vm.token_file is not None}
        self._tokens = GuestTokens(files, clock)
        self._settings = settings
        self._told = told

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        answer = self.answer(request_of(scope))
        headers = {
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "content-type": answer.content_type,
            "content-length": str(len(answer.body)),
            **dict(answer.headers),
        }
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status.value, "headers": encoded})
        await send({"type": "http.response.body", "body": answer.body if scope["method"] != "HEAD" else b""})

    def answer(self, request: Request) -> Answer:
        """Return the entry of the guest whose token the request carries."""
        scheme, _, token = request.header("authorization").partition(" ")
        owner = self._tokens.owner_of(token.strip()) if scheme.lower() == "bearer" else None
        if owner is None:
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "this needs the token of a guest as `Authorization: Bearer`",
                ("www-authenticate", 'Bearer realm="kwhere guest"'),
            )
        if request.path != PATH:
            return problem(HTTPStatus.NOT_FOUND, f"expected {PATH}")
        if request.method not in ("GET", "HEAD"):
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", ("allow", "GET, HEAD"))
        told = self._told()
        unit = named_units(self._settings, told.units.values()).get(owner)
        if unit is None:
            return problem(HTTPStatus.NOT_FOUND, "this guest does not run here now")
        return Answer(HTTPStatus.OK, told.entries[unit.key.unit], "application/json")


class GuestHttp:
    """Serves from `start` to `stop`, in a thread of its own."""

    def __init__(self, settings: GuestSettings, told: Callable[[], Told], clock: Clock) -> None:
        """Raises ConfigError: the TLS file."""
        self._settings = settings
        self._web = load_web_config(settings.web_config_file)
        self._pages = GuestPages(settings, told, AccessRules(self._web, None), clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: AgentServer | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self.addresses: tuple[str, ...] = ()

    def start(self) -> None:
        """Listen and serve. Raises ConfigError: a taken address, tokens in the clear."""
        sockets = open_sockets(self._settings.listen_addresses)
        self.addresses = tuple(map(address_of, sockets))
        if self._web.tls is None and not all(map(is_local, sockets)):
            close_sockets(sockets)
            raise ConfigError(
                "agent.guests.listen_addresses: other machines can reach them and tokens would travel in the clear:"
                " set agent.guests.web_config_file with TLS"
            )
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(sockets)), name="guests", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise ConfigError(f"agent.guests.listen_addresses: {', '.join(self.addresses)}: the server did not start")
        log.info("guests are answered", addresses=self.addresses)

    def stop(self) -> None:
        """End; answers under way get one second."""
        if self._loop is not None and self._server is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._server.end)
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    async def _serve(self, sockets: list[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = AgentServer(server_config(self._pages, MAX_CONNECTIONS))
        self._ready.set()
        await self._server.serve(sockets)
        close_sockets(sockets)
