"""One Redfish service (DMTF DSP0266): a session that is kept, and answers that are objects or an error of ours."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.json_answer import JsonValue, parse_object, text
from kwhere.devices.redfish_words import RedfishAuth
from kwhere.transport.credentials import check_base_url
from kwhere.transport.device_access import Login, device_tls, read_bearer, read_login
from kwhere.transport.device_settings import DeviceClientSettings
from kwhere.transport.http import Answer, HttpClient

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
WRONG_PASSWORD_SECONDS = 300.0
"""A password that was refused is not tried again sooner: BMCs lock accounts."""
MAX_WAIT_SECONDS = 3600.0
LOGOUT_SECONDS = 1.0
PROXIED_REASONS = frozenset(
    {
        "busy", "closed", "credentials", "dns", "network", "not_found", "permission", "refused", "server_error",
        "timeout", "tls", "unauthorized", "unlisted", "unsupported",
    }
)  # fmt: skip
"""What a redfish-proxy says of its BMC that is true for whoever asks through it."""
_SESSION = re.compile(rf"{ROOT}/(?:SessionService/)?Sessions/[A-Za-z0-9._~:@+-]{{1,128}}/?")
_NO_SESSION_LEFT = (b"SessionLimit", b"RAC0218")
"""Words of the standard, and of iDRAC, where the status alone may look like a wrong password."""
_REDIRECTS = frozenset({301, 302, 307, 308})


class RedfishClient:
    """Asks one service; not thread-safe. Raises ConfigError, Unavailable(`credentials`) when built.

    Every question ends within what `begin` allowed. Credentials never leave the host of the base address.
    """

    def __init__(
        self,
        base_url: str,
        settings: DeviceClientSettings,
        auth: RedfishAuth = RedfishAuth.SESSION,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._settings = settings
        self._auth = auth
        self._login = read_login(settings)
        self._bearer = read_bearer(settings)
        self._monotonic_ns = monotonic_ns
        has_secret = self._login is not None or self._bearer is not None
        self._base_path = check_base_url(base_url, bearer=has_secret).path.rstrip("/")
        # credentials go with each question, as they are then
        self._http = HttpClient(base_url, settings.model_copy(update={"token_file": None}), tls=device_tls(settings))
        self._session: tuple[str, str | None] | None = None
        """Token and path of the session under way."""
        self._deadline_ns = 0
        self.begin(settings.total_timeout_seconds)

    def begin(self, seconds: float) -> None:
        """Allow `seconds` for all questions from here to the next `begin`."""
        self._deadline_ns = self._monotonic_ns() + int(seconds * 1e9)

    def get(self, path: str) -> Mapping[str, JsonValue]:
        """Return the resource at `path`.

        Raises SourceError for what is no Redfish, Unavailable: unauthorized, permission, not_found, busy,
        server_error, unsupported, timeout, and what the transport raises (refused, dns, tls, closed, network).
        """
        answer = self._get_again_if_closed(path)
        if _has_no_session(answer) and self._has_other_credentials():
            answer = self._get(path)
        if answer.status != 200:
            raise self._fault(path, answer)
        return parse_object(answer.body, path)

    def close(self) -> None:
        """End the session, within a second, and give back the connections."""
        session, self._session = self._session, None
        if session is not None and session[1] is not None:
            # where that fails, the BMC ends a silent session by itself
            with contextlib.suppress(Unavailable, SourceError):
                self._http.delete(session[1], {"X-Auth-Token": session[0]}, timeout_seconds=LOGOUT_SECONDS)
        self._http.close()

    def _has_other_credentials(self) -> bool:
        """Return whether asking again may help: the session may have ended, a password may have been changed."""
        had_session, self._session = self._session is not None, None
        before = self._login, self._bearer
        with contextlib.suppress(Unavailable):  # as root they could be read, now perhaps not any more
            self._login, self._bearer = read_login(self._settings), read_bearer(self._settings)
        return had_session or before != (self._login, self._bearer)

    def _get_again_if_closed(self, path: str) -> Answer:
        try:
            return self._get(path)
        except Unavailable as error:
            if error.reason != "closed":
                raise
        # a connection that was kept was ended by the BMC just now
        return self._get(path)

    def _get(self, path: str) -> Answer:
        headers = {"Accept": "application/json", "OData-Version": "4.0", **self._authorization()}
        answer = self._http.get(path, headers=headers, timeout_seconds=self._left(), follow_redirects=False)
        if answer.status not in _REDIRECTS:
            return answer
        target = _path_of(answer.headers.get("location", ""))
        if target.removeprefix(self._base_path).rstrip("/") != path.rstrip("/"):
            raise SourceError(f"{path}: redirects to another resource; not followed")
        again = path.rstrip("/") + ("/" if target.endswith("/") else "")
        return self._http.get(again, headers=headers, timeout_seconds=self._left(), follow_redirects=False)

    def _authorization(self) -> Mapping[str, str]:
        if self._bearer is not None:
            return {"Authorization": f"Bearer {self._bearer}"}
        if self._login is None:
            return {}
        if self._auth is RedfishAuth.BASIC:
            return {"Authorization": self._login.basic()}
        if self._session is None:
            self._session = self._open_session(self._login)
        return {"X-Auth-Token": self._session[0]}

    def _open_session(self, login: Login) -> tuple[str, str | None]:
        body = json.dumps({"UserName": login.username, "Password": login.password}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        answer = self._http.post(SESSIONS, content=body, headers=headers, timeout_seconds=self._left())
        if any(word in answer.body for word in _NO_SESSION_LEFT):
            raise Unavailable("busy", f"{SESSIONS}: the BMC has no session left (HTTP status {answer.status})")
        if answer.status in (400, 401):
            raise Unavailable(
                "unauthorized",
                f"{SESSIONS}: the BMC refuses this user and password (HTTP status {answer.status})",
                retry_after_seconds=WRONG_PASSWORD_SECONDS,
            )
        if answer.status in (404, 405, 501):
            raise Unavailable("unsupported", f"{SESSIONS}: this BMC knows no sessions (HTTP status {answer.status})")
        if answer.status not in (200, 201):
            raise self._fault(SESSIONS, answer)
        token = answer.headers.get("x-auth-token", "")
        if not token or not token.isascii():
            raise SourceError(f"{SESSIONS}: expected a header X-Auth-Token, found none")
        return token, self._session_path(answer)

    def _session_path(self, answer: Answer) -> str | None:
        """Return where the session can be ended; only its path is believed, never its host."""
        place = answer.headers.get("location", "")
        if not place:
            try:
                place = text(parse_object(answer.body, SESSIONS).get("@odata.id"))
            except SourceError:
                return None
        path = _path_of(place).removeprefix(self._base_path)
        return path if _SESSION.fullmatch(path) else None

    def _left(self) -> float:
        left = (self._deadline_ns - self._monotonic_ns()) / 1e9
        if left <= 0:
            raise Unavailable("timeout", f"{ROOT}: the BMC did not answer everything in time")
        return left

    def _fault(self, path: str, answer: Answer) -> Unavailable | SourceError:
        status = answer.status
        said = f"{path}: HTTP status {status}"
        if "problem+json" in answer.headers.get("content-type", ""):
            reason = _reason_of_proxy(answer)
            if reason is not None:
                return Unavailable(
                    reason, f"{said}: told by the proxy: {reason}", retry_after_seconds=_retry_after(answer)
                )
        if status == 401:
            return Unavailable("unauthorized", said, retry_after_seconds=WRONG_PASSWORD_SECONDS)
        if status == 403:
            return Unavailable("permission", f"{said}: this user may not read it, or a licence lacks")
        if status in (404, 410):
            return Unavailable("not_found", said)
        if status in (429, 503):
            return Unavailable("busy", said, retry_after_seconds=_retry_after(answer))
        if status >= 500:
            return Unavailable("server_error", said, retry_after_seconds=_retry_after(answer))
        return SourceError(f"{said}, expected 200")


def _has_no_session(answer: Answer) -> bool:
    """Return whether the session is over: 401, or 403 of BMCs that say so in words."""
    return answer.status == 401 or (answer.status == 403 and b"NoValidSession" in answer.body)


def _path_of(location: str) -> str:
    """Return the path of a Location, "" for one with a query or one that is no address at all."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return ""
    return "" if parts.query else parts.path


def _retry_after(answer: Answer) -> float | None:
    said = answer.headers.get("retry-after", "").strip()
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        return None
    return min(float(said), MAX_WAIT_SECONDS)


def _reason_of_proxy(answer: Answer) -> str | None:
    try:
        reason = text(parse_object(answer.body, ROOT).get("reason"))
    except SourceError:
        return None
    return {"nonsense": "unsupported"}.get(reason, reason if reason in PROXIED_REASONS else None)
