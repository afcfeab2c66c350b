"""A Redfish proxy for nodes without a route to their BMC: a fixed list of targets, a few resources, GET alone.

The node's name in the path picks an entry of the list; no header, path or query leads anywhere else. Nothing that a
caller sends travels on, and nothing of the BMC but a JSON object comes back.
"""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import structlog

from kwhere.agent.http_access import AccessRules, Right
from kwhere.agent.http_app import AnsweringApp
from kwhere.agent.http_messages import Answer, Request, problem
from kwhere.agent.http_server import ServingFace
from kwhere.agent.redfish_targets import Outcome, RedfishTarget
from kwhere.agent.web_config import WebConfig
from kwhere.core.clock import Clock
from kwhere.core.failure_memory import FailureMemory

_MAX_PATH = 1024
_PATH = re.compile(r"/([A-Za-z0-9][A-Za-z0-9._-]*)((?:/[A-Za-z0-9._~:@+-]+)+/?)")
_DOTS = re.compile(r"/\.{1,2}(?:/|$)")
_STATUS = {
    "not_found": HTTPStatus.NOT_FOUND,
    "timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "busy": HTTPStatus.SERVICE_UNAVAILABLE,
}

log = structlog.get_logger(__name__)


class RedfishProxy(AnsweringApp):
    """The ASGI application; `rules` may be replaced while it runs."""

    def __init__(
        self, targets: Mapping[str, RedfishTarget], resources: Sequence[str], rules: AccessRules, clock: Clock
    ) -> None:
        super().__init__(rules, clock)
        self._targets = targets
        self._resources = [re.compile(expression) for expression in resources]
        self._silences = FailureMemory()

    async def answer(self, request: Request, right: Right) -> Answer:
        """Return what a node's BMC says, to a caller that is known."""
        if request.raw_path == b"/healthz" and request.method == "GET":
            return Answer(HTTPStatus.OK, b'{"status": "ok"}\n', "application/json")
        if not right.is_authenticated:
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "a token, a password or a client certificate is needed here",
                ("www-authenticate", 'Bearer realm="kwhere redfish-proxy"'),
            )
        if request.method != "GET":
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET", ("allow", "GET"))
        wanted = parse_target(request.raw_path, request.query_string)
        if wanted is None:
            return problem(HTTPStatus.BAD_REQUEST, "expected /NODE/redfish/v1/…, plainly written, without a query")
        node, path = wanted
        target = self._targets.get(node)
        if target is None:
            return problem(HTTPStatus.NOT_FOUND, "this node is not on the proxy's list", reason="unlisted")
        if not any(resource.fullmatch(path.rstrip("/")) for resource in self._resources):
            return problem(HTTPStatus.FORBIDDEN, "this resource is not one that the proxy asks for")
        return self._told(node, await target.get(path))

    def _told(self, node: str, outcome: Outcome) -> Answer:
        if not outcome.reason:
            if self._silences.recovered(node):
                log.info("bmc answers again", node=node)
            return Answer(HTTPStatus.OK, outcome.body, "application/json")
        fault = f"{outcome.reason}: {outcome.detail}"
        repeats = self._silences.failed(node, fault, self._clock.monotonic_ns())
        if repeats is not None:
            log.warning("bmc gave no answer", node=node, fault=fault, count=repeats)
        wait = outcome.retry_after_seconds
        headers = () if wait is None else (("retry-after", str(max(1, round(wait)))),)
        status = _STATUS.get(outcome.reason, HTTPStatus.BAD_GATEWAY)
        return problem(status, f"the BMC of {node} gave no answer: {outcome.reason}", *headers, reason=outcome.reason)


def parse_target(raw_path: bytes, query: str) -> tuple[str, str] | None:
    """Return node and path of `/NODE/redfish/v1/…`; None for anything that could be read in more than one way.

    No percent sign, backslash, semicolon, empty or dotted segment, no byte beyond ASCII, no query.
    """
    if query or len(raw_path) > _MAX_PATH or not raw_path.isascii():
        return None
    found = _PATH.fullmatch(raw_path.decode("ascii"))
    if found is None or _DOTS.search(found[0]) or not found[2].startswith("/redfish/v1/"):
        return None
    return found[1], found[2]


class ProxyFace(ServingFace):
    """Serves the proxy. Every caller is asked who it is; TLS keeps what it shows."""

    greeting = "redfish-proxy answers"
    protection = "set web.config_file with TLS"

    def is_protected(self, web: WebConfig) -> bool:
        """Return whether tokens and passwords travel encrypted."""
        return web.tls is not None
