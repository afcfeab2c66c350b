"""The admission webhook's HTTP face: a review in, an answer out, or an error that the API server passes over.

Its configuration says `failurePolicy: Ignore`: whatever goes wrong here, the object is admitted without a stamp.
"""

from collections.abc import Callable
from http import HTTPStatus

from kwhere.agent.http_access import AccessRules, Right
from kwhere.agent.http_app import AnsweringApp
from kwhere.agent.http_messages import Answer, Request, json_answer, problem
from kwhere.agent.http_server import ServingFace
from kwhere.agent.web_config import WebConfig
from kwhere.agent.workers import Workers
from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError
from kwhere.resource_managers.kubernetes_stamping import Stamper

PATH = "/stamp"
_PATIENCE_SECONDS = 1.0
"""The API server waits two seconds for the whole answer."""
_WORKERS = 4


class AdmissionWebhook(AnsweringApp):
    """The ASGI application; `stamper` is asked for at each review, since keys change."""

    def __init__(self, stamper: Callable[[], Stamper], max_body_bytes: int, rules: AccessRules, clock: Clock) -> None:
        super().__init__(rules, clock)
        self.max_body_bytes = max_body_bytes
        self._stamper = stamper
        self._reviews = Workers(_WORKERS, _PATIENCE_SECONDS)

    async def answer(self, request: Request, right: Right) -> Answer:
        """Return the answer to a review."""
        if request.path == "/healthz" and request.method == "GET":
            return Answer(HTTPStatus.OK, b'{"status": "ok"}\n', "application/json")
        if request.path != PATH:
            return problem(HTTPStatus.NOT_FOUND, f"expected {PATH} or /healthz")
        if request.method != "POST":
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "only POST", ("allow", "POST"))
        media_type = request.header("content-type").partition(";")[0].strip().lower()
        if media_type != "application/json":
            return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        return await self._reviews.run(lambda: self._review(request.body))

    def _review(self, body: bytes) -> Answer:
        try:
            return json_answer(HTTPStatus.OK, self._stamper().answer(body))
        except SourceError as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))


class WebhookFace(ServingFace):
    """Serves the webhook. An API server asks over TLS, and shows a certificate only where its own settings say so."""

    greeting = "admission-webhook answers"
    protection = "set web.config_file with TLS"

    def is_protected(self, web: WebConfig) -> bool:
        """Return whether an API server can ask."""
        return web.tls is not None
