"""uvicorn with what the agent needs on top: who the peer is, a limit on silent connections, no polling."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import Any, Protocol, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kwhere.agent.http_access import AccessRules
from kwhere.agent.http_app import PEER_KEY
from kwhere.agent.http_messages import Peer
from kwhere.agent.listen import is_loopback
from kwhere.agent.web_config import WebConfig

SILENCE_SECONDS = 10.0
"""A connection must bring its first request within this time, TLS handshake included in asyncio's own limit."""

_quiet = logging.getLogger("kwhere.agent.uvicorn")
_quiet.setLevel(logging.CRITICAL)


class RuledApp(Protocol):
    """An ASGI application with the rules that say whom it trusts and how it does TLS."""

    rules: AccessRules

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        ...


class AgentConfig(uvicorn.Config):
    """uvicorn's configuration, which its connections see, and whether its server has been told to end."""

    is_ended = False


class AgentProtocol(H11Protocol):
    """One connection; tells the application who is at its other end."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # a stranger's malformed request is not worth a line of log
        self.logger = _quiet
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the peer."""
        super().connection_made(transport)
        app = cast(RuledApp, self.config.app)
        peer = peer_of(transport, app.rules.web)

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, PEER_KEY: peer}, receive, send)

        self.app = with_peer
        if isinstance(self.config, AgentConfig) and self.config.is_ended:
            # its handshake took longer than the server lasted
            transport.close()
        self._silence = self.loop.call_later(SILENCE_SECONDS, self._end_silence)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        if self._silence is not None:
            self._silence.cancel()
        super().connection_lost(exc)

    def _end_silence(self) -> None:
        first_request: object = self.cycle
        if first_request is None and not self.transport.is_closing():
            self.transport.close()


class AgentServer(uvicorn.Server):
    """Waits for its end instead of looking ten times a second whether it has come."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self._agent_config = config
        self._ended = asyncio.Event()

    async def main_loop(self) -> None:
        """Return when `end` was called."""
        await self._ended.wait()

    def end(self) -> None:
        """Stop accepting and finish; called in the loop's thread."""
        self.should_exit = True
        self._agent_config.is_ended = True
        self._ended.set()


def server_config(app: RuledApp, max_connections: int) -> AgentConfig:
    """Return uvicorn's configuration: HTTP/1.1 only, no log of its own, one second for answers under way at the end."""
    config = AgentConfig(
        app,
        http=AgentProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=max_connections,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    config.load()
    # the context is built from the web config file; uvicorn's own options know less
    config.ssl = app.rules.web.tls
    return config


def peer_of(transport: asyncio.Transport, web: WebConfig) -> Peer:
    """Return who is at the other end of a connection."""
    name = transport.get_extra_info("peername")
    tls = transport.get_extra_info("ssl_object")
    certificate = transport.get_extra_info("peercert") or None
    return Peer(
        is_tls=tls is not None,
        is_local=not isinstance(name, tuple) or is_loopback(str(name[0])),
        is_certified=certificate is not None and is_allowed(certificate, web.client_allowed_sans),
    )


def is_allowed(certificate: Mapping[str, Any], allowed_names: tuple[str, ...]) -> bool:
    """Return whether one of the certificate's alternative names is allowed; all are where none is listed."""
    names = {value for _, value in certificate.get("subjectAltName", ())}
    return not allowed_names or bool(names & set(allowed_names))


def is_tls_error(error: BaseException | None) -> bool:
    """Return whether a handshake failed, which is the other end's affair."""
    return isinstance(error, ssl.SSLError | ConnectionError | TimeoutError)
