"""A Redfish proxy for nodes without a route to their BMC: a fixed list of targets, a few resources, GET alone.

The node's name in the path picks an entry of the list; no header, path or query leads anywhere else. Nothing that a
caller sends travels on, and nothing of the BMC but a JSON object comes back.
"""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog

from kwhere.agent.http_access import AccessRules, Right
from kwhere.agent.http_app import request_of
from kwhere.agent.http_messages import Answer, Request, problem
from kwhere.agent.http_server import ServingFace
from kwhere.agent.redfish_targets import Outcome, RedfishTarget
from kwhere.agent.web_config import WebConfig
from kwhere.agent.workers import Workers, WorkersBusyError
from kwhere.core.clock import Clock
from kwhere.core.failure_memory import FailureMemory

_PATIENCE_SECONDS = 10.0
_MAX_PATH = 1024
_PATH = re.compile(r"/([A-Za-z0-9][A-Za-z0-9._-]*)((?:/[A-Za-z0-9._~:@+-]+)+/?)")
_DOTS = re.compile(r"/\.{1,2}(?:/|$)")
_STATUS = {
    "not_found": HTTPStatus.NOT_FOUND,
    "timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "busy": HTTPStatus.SERVICE_UNAVAILABLE,
}
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

log = structlog.get_logger(__name__)


class RedfishProxy:
    """The ASGI application; `rules` may be replaced while it runs."""

    def __init__(
        self, targets: Mapping[str, RedfishTarget], resources: Sequence[str], rules: AccessRules, clock: Clock
    ) -> None:
        self.rules = rules
        self._targets = targets
        self._resources = [re.compile(expression) for expression in resources]
        self._clock = clock
        self._failures = FailureMemory()
        self._passwords = Workers(1, _PATIENCE_SECONDS)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        raw_path = bytes(scope.get("raw_path") or b"")
        answer = await self._answer_whatever_happens(request_of(scope), raw_path)
        headers = {
            **_HEADERS,
            "content-type": answer.content_type,
            "content-length": str(len(answer.body)),
            **dict(answer.headers),
        }
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status.value, "headers": encoded})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _answer_whatever_happens(self, request: Request, raw_path: bytes) -> Answer:
        try:
            return await self._answer(request, raw_path)
        except WorkersBusyError:
            return problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many passwords are being checked", ("retry-after", "10")
            )
        except Exception as error:  # noqa: BLE001 - one request must not take the proxy down
            self._tell("request", f"{type(error).__name__}: {error}")
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the proxy could not answer; its log says why")

    async def _answer(self, request: Request, raw_path: bytes) -> Answer:
        if raw_path == b"/healthz" and request.method == "GET":
            return Answer(HTTPStatus.OK, b'{"status": "ok"}\n', "application/json")
        right = await self._right(request)
        if isinstance(right, Answer):
            return right
        if not right.is_authenticated:
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "a token, a password or a client certificate is needed here",
                ("www-authenticate", 'Bearer realm="kwhere redfish-proxy"'),
            )
        if request.method != "GET":
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET", ("allow", "GET"))
        wanted = parse_target(raw_path, request.query_string)
        if wanted is None:
            return problem(HTTPStatus.BAD_REQUEST, "expected /NODE/redfish/v1/…, plainly written, without a query")
        node, path = wanted
        target = self._targets.get(node)
        if target is None:
            return problem(HTTPStatus.NOT_FOUND, "this node is not on the proxy's list", reason="unlisted")
        if not any(resource.fullmatch(path.rstrip("/")) for resource in self._resources):
            return problem(HTTPStatus.FORBIDDEN, "this resource is not one that the proxy asks for")
        return self._told(node, await target.get(path))

    async def _right(self, request: Request) -> Right | Answer:
        rules = self.rules
        if rules.is_quick(request):
            return rules.judge(request)
        return await self._passwords.run(lambda: rules.judge(request))

    def _told(self, node: str, outcome: Outcome) -> Answer:
        if not outcome.reason:
            if self._failures.recovered(node):
                log.info("bmc answers again", node=node)
            return Answer(HTTPStatus.OK, outcome.body, "application/json")
        self._tell(node, f"{outcome.reason}: {outcome.detail}")
        wait = outcome.retry_after_seconds
        headers = () if wait is None else (("retry-after", str(max(1, round(wait)))),)
        status = _STATUS.get(outcome.reason, HTTPStatus.BAD_GATEWAY)
        return problem(status, f"the BMC of {node} gave no answer: {outcome.reason}", *headers, reason=outcome.reason)

    def _tell(self, subject: str, fault: str) -> None:
        repeats = self._failures.failed(subject, fault, self._clock.monotonic_ns())
        if repeats is not None:
            log.warning("bmc gave no answer", node=subject, fault=fault, count=repeats)


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
