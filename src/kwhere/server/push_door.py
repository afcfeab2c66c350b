"""The server's `POST /ledger`: plain ASGI before the door of pages and API, since agents have tokens of their own."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

import structlog

from kwhere.server.push import UNKNOWN, PushAnswer, PushReceiver, PushRequest

PATH = "/ledger"
CLOCK_HEADER = b"x-clock-utc-ns"
MAX_BODY_BYTES = 16 << 20
_AT_ONCE = 8

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

log = structlog.get_logger(__name__)


class PushDoor:
    """Passes every request but a pushed page on to `app`."""

    def __init__(self, app: App, receiver: PushReceiver) -> None:
        self._app = app
        self._receiver = receiver
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a pushed page."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        await _send(await self._answer(dict(scope["headers"]), receive), send)

    async def _answer(self, headers: dict[bytes, bytes], receive: Receive) -> PushAnswer:
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        if not self._receiver.knows(authorization):
            return UNKNOWN
        body = await _body(receive)
        if body is None:
            return PushAnswer(413, detail=f"expected at most {MAX_BODY_BYTES} bytes")
        request = PushRequest(
            authorization=authorization,
            encoding=headers.get(b"content-encoding", b"").decode("latin-1"),
            clock_text=headers.get(CLOCK_HEADER, b"").decode("latin-1"),
            body=body,
        )
        try:
            async with self._free:
                return await asyncio.to_thread(self._receiver.receive, request)
        except Exception:  # the one runner of a request
            log.exception("pushed page failed")
            return PushAnswer(500, detail="the server could not take the page; its log says why")


async def _body(receive: Receive) -> bytes | None:
    """Return the body; None where it is too large, and then the rest is read and dropped."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return b"".join(parts) if size <= MAX_BODY_BYTES else None


async def _send(answer: PushAnswer, send: Send) -> None:
    if answer.status == HTTPStatus.OK:
        kind, record = b"application/json", {"after": str(answer.after) if answer.after else None}
    else:
        phrase = HTTPStatus(answer.status).phrase
        kind = b"application/problem+json"
        record = {"type": "about:blank", "title": phrase, "detail": answer.detail}
    body = json.dumps(record).encode() + b"\n"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    if answer.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="kwhere ledger"'))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
