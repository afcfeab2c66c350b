"""Keystone: a token from a password or an application credential, and questions asked with it."""

import json
from collections.abc import Mapping

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.resource_managers.keystone_settings import KeystoneLogin
from kwhere.resource_managers.rest_values import decode, inner, text
from kwhere.transport.credentials import check_base_url
from kwhere.transport.http import Answer, HttpClient

_MOST_WORDS = 200


class Keystone:
    """Logs in when it must: at first, and when a token was refused. Asks Keystone and Nova with the token."""

    def __init__(self, settings: KeystoneLogin) -> None:
        """Raises ConfigError for an address that would carry the secret in the clear."""
        check_base_url(settings.auth_url, bearer=True)
        self._settings = settings
        base = settings.auth_url.split("?", 1)[0].rstrip("/")
        self.identity_url = base if base.endswith("/v3") else f"{base}/v3"
        self._clients: dict[str, HttpClient] = {}
        self._token: str | None = None
        self._told: Answer | None = None

    def identity(self, path: str, params: Mapping[str, str] | None = None) -> Mapping[str, object]:
        """Return Keystone's answer. Raises Unavailable and SourceError."""
        return self.ask(self.identity_url, path, params or {}, {})

    def token_document(self) -> Mapping[str, object]:
        """Return what Keystone says of the token, with its catalogue. Raises Unavailable and SourceError."""
        if self._told is None:
            self._log_in()
        assert self._told is not None
        return decode(self._told.body, f"{self.identity_url}/auth/tokens")

    def close(self) -> None:
        """Give back the connections."""
        for client in self._clients.values():
            client.close()

    def ask(self, url: str, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Mapping[str, object]:
        """Return the answer of a service to a question with the token. Raises Unavailable and SourceError."""
        place = f"{url}{path}"
        is_fresh = self._token is None
        answer = self._with_token(url, path, params, headers)
        if answer.status == 401 and not is_fresh:
            self._token = None
            answer = self._with_token(url, path, params, headers)
        if answer.status != 200:
            raise _fault(answer.status, place, answer.body)
        return decode(answer.body, place)

    def _with_token(self, url: str, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        token = self._token or self._log_in()
        return self._client(url).get(path, params, {**headers, "X-Auth-Token": token, "Accept": "application/json"})

    def _client(self, url: str) -> HttpClient:
        if url not in self._clients:
            try:
                check_base_url(url, bearer=True)
                self._clients[url] = HttpClient(url, self._settings.http)
            except ConfigError as error:
                raise Unavailable("unsupported", f"compute service of the catalogue: {error}") from error
        return self._clients[url]

    def _log_in(self) -> str:
        place = f"{self.identity_url}/auth/tokens"
        body = json.dumps(login_of(self._settings, self._secret())).encode()
        answer = self._client(self.identity_url).post(
            "/auth/tokens", content=body, headers={"Content-Type": "application/json", "Accept": "application/json"}
        )
        if answer.status not in (200, 201):
            raise _fault(answer.status, place)
        token = answer.headers.get("x-subject-token", "")
        if not token or not token.isascii() or not token.isprintable():
            raise SourceError(f"{place}: expected a token in X-Subject-Token, found none")
        self._token, self._told = token, answer
        return token

    def _secret(self) -> str:
        path = self._settings.secret_file
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            detail = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise Unavailable("secret", f"secret_file {path}: {detail}") from None
        if len(lines) != 1 or not lines[0]:
            raise Unavailable("secret", f"secret_file {path}: expected one line, found {len(lines)}")
        return lines[0]


def login_of(settings: KeystoneLogin, secret: str) -> dict[str, object]:
    """Return what is posted to log in: scoped to a project, to the system, or by an application credential."""
    if settings.application_credential_id is not None:
        credential = {"id": settings.application_credential_id, "secret": secret}
        return {"auth": {"identity": {"methods": ["application_credential"], "application_credential": credential}}}
    user = {"name": settings.username, "domain": {"name": settings.user_domain}, "password": secret}
    scope: dict[str, object] = {"system": {"all": True}}
    if settings.project is not None:
        scope = {"project": {"name": settings.project, "domain": {"name": settings.project_domain}}}
    return {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}


def _fault(status: int, place: str, body: bytes = b"") -> Unavailable:
    if status == 401:
        return Unavailable("denied", f"{place}: HTTP status 401: the user, secret or scope is refused")
    if status == 403:
        why = _refusal(body) or "the user may not list what is of all projects"
        return Unavailable("permission", f"{place}: HTTP status 403: {why}")
    if status == 406:
        return Unavailable("unsupported", f"{place}: HTTP status 406: microversion is none that it has")
    return Unavailable("absent" if status == 404 else "remote", f"{place}: HTTP status {status}")


def _refusal(body: bytes) -> str | None:
    """Return the rule of the policy that refuses: its name is what an operator looks for."""
    try:
        document = decode(body, "")
    except SourceError:
        return None
    words = text(inner(document, "forbidden").get("message")) or text(inner(document, "error").get("message"))
    return None if words is None else "".join(sign if sign.isprintable() else " " for sign in words)[:_MOST_WORDS]
