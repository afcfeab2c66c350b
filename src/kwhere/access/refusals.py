"""How the door says no: a problem (RFC 9457) to programs, a page to people."""

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from html import escape
from typing import Any

from kwhere.access.principal import Refusal
from kwhere.access.requests import DoorRequest

API_PREFIX = "/api/"
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


async def refuse(send: Send, request: DoorRequest, refusal: Refusal) -> None:
    """Answer with the refusal."""
    headers = list(refusal.headers)
    if request.path.startswith(API_PREFIX) or "text/html" not in request.text(b"accept"):
        problem = {"type": "about:blank", "title": refusal.title, "status": refusal.status, "detail": refusal.detail}
        headers.append((b"content-type", b"application/problem+json"))
        await answer(send, refusal.status, headers, json.dumps(problem).encode())
        return
    headers.append((b"content-type", b"text/html; charset=utf-8"))
    await answer(send, refusal.status, headers, _page(refusal).encode())


async def redirect(send: Send, location: str, cookie: str) -> None:
    """Answer with another address and a cookie for it."""
    headers = [(b"location", location.encode("ascii")), (b"set-cookie", cookie.encode("latin-1"))]
    await answer(send, 303, headers, b"")


async def answer(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def _page(refusal: Refusal) -> str:
    # A browser that followed the printed address out of another page holds back the Strict cookie once.
    again = '<p><a href="/">Try again</a>, if you have just come by that address.</p>' if refusal.status == 401 else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(refusal.title)} · kwhere</title><link rel=stylesheet href=/static/style.css>"
        f"<main class=page><h1>{escape(refusal.title)}</h1><p class=prose>{escape(refusal.detail)}.</p>{again}</main>"
    )
