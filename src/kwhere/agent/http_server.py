"""The agent's HTTP face: sockets, a thread with an event loop, TLS and passwords that follow their files."""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from kwhere.agent.http_access import AccessRules
from kwhere.agent.http_app import HttpApp
from kwhere.agent.http_pages import HttpParts, Pages
from kwhere.agent.http_protocol import AgentServer, RuledApp, is_tls_error, server_config
from kwhere.agent.http_settings import HttpSettings
from kwhere.agent.listen import address_of, close_sockets, is_local, open_sockets, systemd_sockets
from kwhere.agent.web_config import WebConfig, certificate_files, load_web_config, watched_files
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.failure_memory import FailureMemory

_START_SECONDS = 10.0
Fingerprint = tuple[tuple[str, int, int, int], ...]

log = structlog.get_logger(__name__)


class ServingFace:
    """Serves an application from `start` to `stop`, in a thread of its own."""

    greeting = "agent answers"
    protection = "set web.config_file with TLS and users or required client certificates, or web.allow_unprotected"

    def __init__(
        self,
        settings: HttpSettings,
        clock: Clock,
        build_app: Callable[[AccessRules], RuledApp],
        *,
        token: str | None,
        handed_over: Sequence[socket.socket] = (),
    ) -> None:
        """`token` is one that the rules know; `handed_over` sockets listen already, in place of the settings'."""
        self._settings = settings
        self._handed_over = tuple(handed_over)
        self._clock = clock
        self._build_app = build_app
        self._token = token
        self._sockets: list[socket.socket] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: AgentServer | None = None
        self._app: RuledApp | None = None
        self._serving_tls: ssl.SSLContext | None = None
        self._ready = threading.Event()
        self._stopping = False
        self._seen: Fingerprint = ()
        self._failures = FailureMemory()

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the addresses it answers at, as URLs; `unix:PATH` for a path."""
        scheme = "https" if self._app and self._app.rules.web.tls else "http"
        addresses = [address_of(listening) for listening in self._sockets]
        return tuple(name if name.startswith("unix:") else f"{scheme}://{name}/" for name in addresses)

    def start(self) -> None:
        """Listen and serve. Raises ConfigError: web config, taken address, strangers let in unasked."""
        file = self._settings.config_file
        self._seen = _fingerprint(file)
        web = load_web_config(file)
        self._sockets = self._open_sockets()
        try:
            self._check_protection(web)
        except ConfigError:
            self._close_sockets()
            raise
        self._app = self._build_app(AccessRules(web, self._token))
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise ConfigError(f"web.listen_addresses: {', '.join(self.urls)}: the server did not start")
        log.info(self.greeting, urls=self.urls)

    def stop(self, timeout_seconds: float = 1.8) -> None:
        """End within the timeout; answers under way get one second."""
        self._stopping = True
        self._end_server()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        self._close_sockets()

    def reload(self) -> bool:
        """Read the web config again if it or a certificate changed; return whether another one is in force.

        A wrong one is logged and the old one stays.
        """
        assert self._app is not None
        seen = _fingerprint(self._settings.config_file)
        if seen == self._seen:
            return False
        try:
            web = load_web_config(self._settings.config_file)
            self._check_protection(web)
        except ConfigError as error:
            self._tell(str(error))
            return False
        only_certificate = _changed(self._seen, seen) <= {
            str(file) for file in certificate_files(self._settings.config_file)
        }
        self._seen = seen
        self._failures.recovered("web config")
        needs_new_server = web.tls is not None or self._app.rules.web.tls is not None
        self._app.rules = AccessRules(web, self._token)
        if only_certificate and self._serving_tls is not None and web.tls is not None:
            _show_instead(self._serving_tls, web.tls)
        elif needs_new_server:
            self._ready.clear()
            self._end_server()
            self._ready.wait(_START_SECONDS)
        log.info("web config read again", file=str(self._settings.config_file))
        return True

    def _open_sockets(self) -> list[socket.socket]:
        if self._handed_over:
            return [listening.dup() for listening in self._handed_over]  # the next face may be handed them again
        if self._settings.systemd_socket:
            return systemd_sockets(os.environ)
        return open_sockets(self._settings.listen_addresses, next_free_port=self._settings.next_free_port)

    def _close_sockets(self) -> None:
        are_ours = not (self._handed_over or self._settings.systemd_socket)
        close_sockets(self._sockets, remove_paths=are_ours)
        self._sockets = []

    def is_protected(self, web: WebConfig) -> bool:
        """Return whether other machines may be answered under this web config."""
        return web.is_protected or self._settings.allow_unprotected

    def _check_protection(self, web: WebConfig) -> None:
        if self.is_protected(web):
            return
        for listening in self._sockets:
            if not is_local(listening):
                raise ConfigError(
                    f"web.listen_addresses: {address_of(listening)} can be reached from other machines:"
                    f" {self.protection}"
                )

    def _end_server(self) -> None:
        """End the server of the moment; unless stopping, the next one takes over the same sockets."""
        loop, server = self._loop, self._server
        if loop is not None and server is not None and not loop.is_closed():
            loop.call_soon_threadsafe(server.end)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        watch = asyncio.create_task(self._watch())
        while not self._stopping:
            await self._serve_once()
        watch.cancel()

    async def _serve_once(self) -> None:
        assert self._app is not None
        self._serving_tls = self._app.rules.web.tls
        self._server = AgentServer(server_config(self._app, self._settings.max_connections))
        # duplicates: the server closes what it is given, connections wait on the originals for the next one
        duplicates = [listening.dup() for listening in self._sockets]
        if self._stopping:
            self._server.end()
        # the sockets listen already: a connection made from now on is answered by this server
        self._ready.set()
        await self._server.serve(duplicates)

    async def _watch(self) -> None:
        if self._settings.config_file is None:
            return
        while True:
            await asyncio.sleep(self._settings.reload_seconds)
            await asyncio.to_thread(self.reload)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if not isinstance(error, BaseException | None) or not is_tls_error(error):
            self._tell(f"{context.get('message')}: {error!r}")

    def _tell(self, fault: str) -> None:
        repeats = self._failures.failed("web config", fault, self._clock.monotonic_ns())
        if repeats is not None:
            log.error("http face has a fault, goes on as before", fault=fault, count=repeats)


class HttpFace(ServingFace):
    """The agent's own face."""

    def __init__(self, settings: HttpSettings, parts: HttpParts, *, handed_over: Sequence[socket.socket] = ()) -> None:
        """Build the face; `handed_over` are sockets that already listen and stand for the settings' addresses."""

        def app(rules: AccessRules) -> HttpApp:
            return HttpApp(Pages(parts, anonymous_names=settings.anonymous_names), rules, parts.clock)

        super().__init__(settings, parts.clock, app, token=parts.ledger_token, handed_over=handed_over)


def _show_instead(serving: ssl.SSLContext, renewed: ssl.SSLContext) -> None:
    """Show the certificate of `renewed` to whoever connects from now on; handshakes under way go on as they began."""

    def choose(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = renewed

    serving.sni_callback = choose  # asked at every greeting, one without a server's name too


def _changed(before: Fingerprint, now: Fingerprint) -> set[str]:
    """Return the paths of the files that are another, or are watched now and were not before."""
    return {mark[0] for mark in set(before) ^ set(now)}


def _fingerprint(file: Path | None) -> Fingerprint:
    """Return what tells a changed file from the one read; one that is gone counts as changed."""
    marks = []
    for path in watched_files(file):
        try:
            found = path.stat()
            marks.append((str(path), found.st_ino, found.st_size, found.st_mtime_ns))
        except OSError:
            marks.append((str(path), 0, 0, 0))
    return tuple(marks)
