"""Who may see what of the agent's HTTP face."""

import hmac
from dataclasses import dataclass
from http import HTTPStatus

from kwhere.agent.basic_auth import BasicAuth
from kwhere.agent.http_messages import Answer, Request, problem
from kwhere.agent.web_config import WebConfig


@dataclass(frozen=True, slots=True)
class Right:
    """What a request may do."""

    is_authenticated: bool
    """Knows a password or the token, or showed a certificate."""
    may_read_ledger: bool


class AccessRules:
    """The web config and the ledger's token, applied to requests. Used from the HTTP thread and its workers."""

    def __init__(self, web: WebConfig, ledger_token: str | None) -> None:
        self.web = web
        self._basic = BasicAuth(web.users)
        self._token = ledger_token.encode() if ledger_token else None

    def is_quick(self, request: Request) -> bool:
        """Return whether `judge` needs no hash computed."""
        return self._basic.remembers(request.header("authorization"))

    def judge(self, request: Request) -> Right | Answer:
        """Return what the request may do, or the refusal. May take 50 ms and more unless `is_quick`."""
        if self.web.client_certificates == "required" and not request.peer.is_certified:
            return problem(HTTPStatus.FORBIDDEN, "the name in this client certificate is not among those allowed")
        has_token = self._has_token(request)
        has_password = self._basic.accepts(request.header("authorization"))
        if self.web.users and not (has_password or has_token):
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "name and password are needed here",
                ("www-authenticate", 'Basic realm="kwhere agent", charset="UTF-8"'),
            )
        return Right(
            is_authenticated=has_password or has_token or request.peer.is_certified,
            may_read_ledger=has_token or request.peer.is_certified,
        )

    def judge_ledger(self, request: Request, right: Right) -> Answer | None:
        """Return the refusal of the ledger, None where it may be read."""
        if not (request.peer.is_tls or request.peer.is_local):
            return problem(HTTPStatus.FORBIDDEN, "the ledger is served over TLS or on this machine only")
        if not right.may_read_ledger:
            return problem(
                HTTPStatus.UNAUTHORIZED,
                "the ledger needs a client certificate, or the token of this agent as `Authorization: Bearer`",
                ("www-authenticate", 'Bearer realm="kwhere ledger"'),
            )
        return None

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.header("authorization").partition(" ")
        if self._token is None or scheme.lower() != "bearer" or not (request.peer.is_tls or request.peer.is_local):
            return False
        return hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
