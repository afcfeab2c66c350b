"""The agent's ASGI application: routes, methods, access, and the one place where a request catches everything."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import structlog

from kwhere.agent.http_access import AccessRules, Right
from kwhere.agent.http_messages import Answer, Peer, Request, problem
from kwhere.agent.http_pages import Pages
from kwhere.agent.workers import Workers, WorkersBusyError
from kwhere.core.clock import Clock
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND

PEER_KEY = "kwhere.peer"
"""Where the server's protocol leaves a `Peer` in the ASGI scope."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_METHODS = ("GET", "HEAD")
_PATHS = ("/", "/metrics", "/ledger", "/healthz")
_PATIENCE_SECONDS = 10.0
_BODY_SECONDS = 10.0
_FIXED_HEADERS = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("referrer-policy", "no-referrer"),
)

log = structlog.get_logger(__name__)


class BodyTooLongError(Exception):
    """A request brings more than is read."""


class AnsweringApp(ABC):
    """Asks who it is, answers, and survives whatever happens; `rules` may be replaced while it runs."""

    max_body_bytes = 0
    """Longest body that is read; 0: none is."""

    def __init__(self, rules: AccessRules, clock: Clock) -> None:
        self.rules = rules
        self._clock = clock
        self._failures = FailureMemory()
        self._passwords = Workers(1, _PATIENCE_SECONDS)

    @abstractmethod
    async def answer(self, request: Request, right: Right) -> Answer:
        """Return the answer to a request that may be answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = request_of(scope)
        answer = await self._answer_whatever_happens(request, receive)
        await self._send(answer, request, send)

    async def _answer_whatever_happens(self, request: Request, receive: Receive) -> Answer:
        try:
            return await self._answer(request, receive)
        except TimeoutError:
            return problem(HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time", ("connection", "close"))
        except BodyTooLongError:
            return problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"expected at most {self.max_body_bytes} bytes",
                ("connection", "close"),
            )
        except WorkersBusyError:
            return problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered", ("retry-after", "10")
            )
        except Exception as error:  # noqa: BLE001 - one request must not take the process down
            fault = f"{type(error).__name__}: {error}"
            repeats = self._failures.failed(request.path, fault, self._clock.monotonic_ns())
            if repeats is not None:
                log.error("request failed", path=request.path[:100], fault=fault, count=repeats)
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "this could not be answered; the log says why")

    async def _answer(self, request: Request, receive: Receive) -> Answer:
        right = await self._right(request)
        if isinstance(right, Answer):
            return right
        if self.max_body_bytes:
            body = await asyncio.wait_for(read_body(receive, self.max_body_bytes), _BODY_SECONDS)
            request = replace(request, body=body)
        return await self.answer(request, right)

    async def _right(self, request: Request) -> Right | Answer:
        rules = self.rules
        if rules.is_quick(request):
            return rules.judge(request)
        return await self._passwords.run(lambda: rules.judge(request))

    async def _send(self, answer: Answer, request: Request, send: Send) -> None:
        utc_ns = self._clock.utc_ns()
        headers = {
            **dict(_FIXED_HEADERS),
            **{name.lower(): value for name, value in self.rules.web.headers},
            "date": formatdate(utc_ns / NANOSECONDS_PER_SECOND, usegmt=True),
            "x-clock-utc-ns": str(utc_ns),
            "content-type": answer.content_type,
            "content-length": str(len(answer.body)),
            **dict(answer.headers),
        }
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status.value, "headers": encoded})
        body = b"" if request.method == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})


class HttpApp(AnsweringApp):
    """The agent's own pages."""

    def __init__(self, pages: Pages, rules: AccessRules, clock: Clock) -> None:
        super().__init__(rules, clock)
        self._pages = pages
        self._scrapes = Workers(4, _PATIENCE_SECONDS)
        self._pulls = Workers(2, _PATIENCE_SECONDS)

    async def answer(self, request: Request, right: Right) -> Answer:
        """Return the page that was asked for."""
        if request.path not in _PATHS:
            return problem(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(_PATHS)}")
        if request.method not in _METHODS:
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", ("allow", ", ".join(_METHODS)))
        if request.path == "/metrics":
            return await self._scrapes.run(lambda: self._pages.metrics(request, right))
        if request.path == "/ledger":
            refusal = self.rules.judge_ledger(request, right)
            return refusal if refusal is not None else await self._pulls.run(lambda: self._pages.ledger(request))
        return self._pages.healthz() if request.path == "/healthz" else self._pages.landing()


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """Return a request's body; what came until its sender left. Raises BodyTooLongError."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise BodyTooLongError
        if not message.get("more_body", False):
            return bytes(body)


def request_of(scope: Scope) -> Request:
    """Return the request in an ASGI scope."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return Request(
        method=scope["method"],
        path=scope["path"],
        query_string=scope["query_string"].decode("latin-1"),
        headers=headers,
        peer=scope.get(PEER_KEY, Peer()),
        raw_path=bytes(scope.get("raw_path") or b""),
    )
