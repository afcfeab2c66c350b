"""The HTTP face of dcgm-exporter: a page, a health check and `/metrics`, on a port of its own."""

from collections.abc import Callable
from http import HTTPStatus

from kwhere.agent.http_access import AccessRules, Right
from kwhere.agent.http_app import AnsweringApp
from kwhere.agent.http_messages import Answer, Request, compressed, problem
from kwhere.agent.http_server import ServingFace
from kwhere.agent.http_settings import HttpSettings
from kwhere.agent.web_config import WebConfig
from kwhere.agent.workers import Workers
from kwhere.core.clock import Clock
from kwhere.exposition.text import Format

_PATHS = ("/", "/health", "/metrics")
_METHODS = ("GET", "HEAD")
_PATIENCE_SECONDS = 10.0
_LANDING = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>GPU Exporter</title>
<h1>GPU Exporter</h1>
<p><a href="./metrics">Metrics</a></p>
</html>
"""
_SERVER = ("server", "kwhere dcgm-exporter")
"""Tells this face from the original: an agent that looks for one to learn from must not find itself."""
_HEALTH_HEADERS = (_SERVER, ("x-registry-available", "true"), ("x-reload-in-progress", "false"))


class DcgmApp(AnsweringApp):
    """Answers as dcgm-exporter does; a new counters file is taken up between two scrapes, never during one."""

    def __init__(self, page: Callable[[], bytes], rules: AccessRules, clock: Clock) -> None:
        super().__init__(rules, clock)
        self._page = page
        self._scrapes = Workers(4, _PATIENCE_SECONDS)

    async def answer(self, request: Request, right: Right) -> Answer:
        """Return the answer to a request that may be answered."""
        if request.path not in _PATHS:
            return problem(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(_PATHS)}")
        if request.method not in _METHODS:
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", ("allow", ", ".join(_METHODS)))
        if request.path == "/health":
            return Answer(HTTPStatus.OK, b"OK", "text/plain; charset=utf-8", _HEALTH_HEADERS)
        if request.path == "/":
            return Answer(HTTPStatus.OK, _LANDING, "text/html; charset=utf-8", (_SERVER,))
        body = await self._scrapes.run(self._page)
        return compressed(Answer(HTTPStatus.OK, body, Format.TEXT.value, (_SERVER,)), request.header("accept-encoding"))


class DcgmFace(ServingFace):
    """Serves the face. Like dcgm-exporter it answers everybody, unless a web config file says otherwise."""

    greeting = "dcgm-exporter face answers"

    def __init__(self, settings: HttpSettings, clock: Clock, page: Callable[[], bytes]) -> None:
        """`page` returns the page of `/metrics`; it is called on a worker thread."""
        super().__init__(settings, clock, lambda rules: DcgmApp(page, rules, clock), token=None)

    def is_protected(self, web: WebConfig) -> bool:
        """Return whether strangers may be answered: they may."""
        return True
