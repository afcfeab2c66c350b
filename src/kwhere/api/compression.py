"""Answers in gzip, for those who take it."""

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send

from kwhere.exposition.negotiation import accepts_gzip

_NAME = b"accept-encoding"


class Compression(GZipMiddleware):
    """Starlette's, which looks for the word `gzip` alone: `gzip;q=0` forbids it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as it is where gzip is forbidden."""
        if scope["type"] == "http" and not accepts_gzip(Headers(scope=scope).get("accept-encoding", "")):
            scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != _NAME]}
        await super().__call__(scope, receive, send)
