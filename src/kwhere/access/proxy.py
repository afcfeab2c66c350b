"""A proxy that names its users in a header: it counts from a proven peer, exactly once, exactly as it is written."""

import hmac
from dataclasses import dataclass

from kwhere.access.names import header_name
from kwhere.access.principal import Refusal
from kwhere.access.proxy_secret import read_secret
from kwhere.access.requests import DoorRequest
from kwhere.access.settings import ProxySettings


@dataclass(frozen=True, slots=True)
class ProxiedUser:
    """Whom a proven proxy names."""

    name: str
    groups: tuple[str, ...]
    header: str


class TrustedProxy:
    """Judges requests by the headers of one proxy. Raises ConfigError for a secret that is none."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._secret = None if settings.secret_file is None else read_secret(settings.secret_file)
        self._user = settings.user_header.lower().encode()
        self._proof = settings.secret_header.lower().encode()
        self._groups = settings.groups_header.lower().encode() if settings.groups_header else None
        self._watched = tuple(name for name in (self._user, self._proof, self._groups) if name is not None)

    def judge(self, request: DoorRequest) -> ProxiedUser | Refusal | None:
        """Return whom the proxy names; None where the request has nothing of it, so that it may come in otherwise."""
        alike = request.lookalikes(self._watched)
        if alike:
            return _refused(400, f"the header {alike[0]!r} passes for another at some servers")
        if not any(request.values(name) for name in self._watched):
            return None
        if not self._is_proven(request):
            return _refused(
                403,
                f"{self._settings.user_header} counts from the proxy alone, and this peer has not proven to be it",
            )
        users = request.values(self._user)
        return self._named(request, users) if users else None

    def _named(self, request: DoorRequest, users: list[bytes]) -> ProxiedUser | Refusal:
        held = request.values(self._groups) if self._groups is not None else []
        if len(users) > 1 or len(held) > 1:
            return _refused(400, f"{self._settings.user_header} and the header of groups must be there once")
        try:
            name = header_name(users[0])
        except ValueError as error:
            return _refused(400, f"the name in {self._settings.user_header} {error}")
        return ProxiedUser(name, _groups(held), self._settings.user_header)

    def _is_proven(self, request: DoorRequest) -> bool:
        if not request.peer_names.isdisjoint(self._settings.client_names):
            return True
        given = request.values(self._proof)
        return self._secret is not None and len(given) == 1 and hmac.compare_digest(given[0], self._secret)


def _groups(values: list[bytes]) -> tuple[str, ...]:
    """Groups give roles by exact match, so one that is not readable gives none."""
    text = values[0].decode("utf-8", "replace") if values else ""
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _refused(status: int, why: str) -> Refusal:
    return Refusal(status, "Identity refused", why)
