"""uvicorn with what the server needs on top: its TLS, and the names of a client's certificate."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kwhere.access.requests import PEER_NAMES_KEY

STOP_SECONDS = 2


class PeerProtocol(H11Protocol):
    """One connection; tells the application which names its peer's verified certificate has."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the names."""
        super().connection_made(transport)
        names, app = certified_names(transport.get_extra_info("peercert")), self.app

        async def with_names(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, PEER_NAMES_KEY: names}, receive, send)

        self.app = with_names


def certified_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the alternative names of a certificate that TLS has verified; none where there is none."""
    return frozenset(value for _, value in (certificate or {}).get("subjectAltName", ()))


def server_config(app: Any, tls: ssl.SSLContext | None) -> uvicorn.Config:
    """Return uvicorn's configuration; `tls` None: plain HTTP."""
    config = uvicorn.Config(
        app,
        http=PeerProtocol,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        lifespan="off",
    )
    config.load()
    # The context is built from the web config file; uvicorn's own options know less.
    config.ssl = tls
    return config
