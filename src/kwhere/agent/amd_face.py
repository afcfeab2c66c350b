"""The HTTP face of AMD's device-metrics-exporter: `/metrics` in its names, on a port of its own."""

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

_PATIENCE_SECONDS = 10.0
_SERVER = ("server", "kwhere amd-exporter")


class AmdApp(AnsweringApp):
    """Answers `/metrics`, as AMD's exporter does."""

    def __init__(self, page: Callable[[], bytes], rules: AccessRules, clock: Clock) -> None:
        super().__init__(rules, clock)
        self._page = page
        self._scrapes = Workers(4, _PATIENCE_SECONDS)

    async def answer(self, request: Request, right: Right) -> Answer:
        """Return the answer to a request that may be answered."""
        if request.path != "/metrics":
            return problem(HTTPStatus.NOT_FOUND, "expected /metrics")
        if request.method not in ("GET", "HEAD"):
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", ("allow", "GET, HEAD"))
        body = await self._scrapes.run(self._page)
        return compressed(Answer(HTTPStatus.OK, body, Format.TEXT.value, (_SERVER,)), request.header("accept-encoding"))


class AmdFace(ServingFace):
    """Serves the face. Like AMD's exporter it answers everybody, unless a web config file says otherwise."""

    greeting = "face of AMD's exporter answers"

    def __init__(self, settings: HttpSettings, clock: Clock, page: Callable[[], bytes]) -> None:
        """`page` returns the page of `/metrics`; it is called on a worker thread."""
        super().__init__(settings, clock, lambda rules: AmdApp(page, rules, clock), token=None)

    def is_protected(self, web: WebConfig) -> bool:
        """Return whether strangers may be answered: they may."""
        return True
