"""Who is at the door: a proxy's user, the server's own token, an API token, an identity provider's token, or nobody."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from kwhere.access.grants import Grants
from kwhere.access.oidc import OidcProviders
from kwhere.access.principal import Principal, Refusal, anyone, token_holder
from kwhere.access.proxy import ProxiedUser, TrustedProxy
from kwhere.access.requests import DoorRequest
from kwhere.access.roles import Role
from kwhere.core.errors import NotPermitted, Unavailable
from kwhere.database.api_tokens import ApiToken, is_token

FindToken = Callable[[str], ApiToken | None]
CHALLENGE = ((b"www-authenticate", b'Bearer realm="kwhere"'),)
_HOW = (
    "open the address that kwhere printed at its start (it ends in /?token=…), or send "
    "`Authorization: Bearer TOKEN`; the token is in the file `token` of the state directory, or where "
    "`access.token_file` says"
)


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways to come in beside the server's own token; None, or empty: not this way."""

    grants: Grants
    proxy: TrustedProxy | None = None
    find_token: FindToken | None = None
    oidc: OidcProviders | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """Somebody who may come in. By a cookie or a proxy a browser speaks, perhaps at another site's bidding."""

    principal: Principal
    by_browser: bool


class Doorman:
    """Says who asks. Calls may take time: the database is asked for tokens, a provider for its keys."""

    def __init__(self, token: str | None, ways: Ways | None = None) -> None:
        """`token` is the server's own; without it and without `ways` everybody on this machine is let in."""
        self._token = token
        self._ways = ways

    @property
    def is_open(self) -> bool:
        """Return whether nobody is asked for anything."""
        return self._token is None and self._ways is None

    def is_quick(self, request: DoorRequest, cookie_name: str) -> bool:
        """Return whether `identify` needs neither database nor network."""
        if self.is_open or self._ways is None:
            return True
        return self._ways.proxy is None and (
            self._is_own(_bearer(request)) or self._is_own(request.cookie(cookie_name))
        )

    def identify(self, request: DoorRequest, cookie_name: str) -> Entered | Refusal:
        """Return who asks, or why they are not let in."""
        if self.is_open:
            return Entered(anyone(), by_browser=True)
        if self._ways is not None and self._ways.proxy is not None:
            proxied = self._ways.proxy.judge(request)
            if isinstance(proxied, Refusal):
                return proxied
            if proxied is not None:
                return Entered(self._proxied(self._ways.grants, proxied), by_browser=True)
        if len(request.values(b"authorization")) > 1:
            return Refusal(400, "Identity refused", "the header Authorization must be there once")
        bearer = _bearer(request)
        if bearer is not None:
            return self._by_token(bearer, takes_jwt=True, by_browser=False)
        cookie = request.cookie(cookie_name)
        if cookie is not None:
            return self._by_token(cookie, takes_jwt=False, by_browser=True)
        return Refusal(401, "Access token needed", _HOW, CHALLENGE)

    def opens(self, text: str) -> bool:
        """Return whether a text is a token that may become a cookie."""
        return isinstance(self._by_token(text, takes_jwt=False, by_browser=True), Entered)

    def _by_token(self, text: str, *, takes_jwt: bool, by_browser: bool) -> Entered | Refusal:
        if self._is_own(text):
            contact = self._ways.grants.contact if self._ways else None
            return Entered(token_holder(contact) if contact else token_holder(), by_browser)
        if self._ways is None:
            return Refusal(401, "Access token needed", _HOW, CHALLENGE)
        if is_token(text) and self._ways.find_token is not None:
            found = self._ways.find_token(text)
            if found is None:
                return Refusal(401, "Token refused", "the API token is unknown, expired or revoked", CHALLENGE)
            return Entered(_token_owner(self._ways.grants, found), by_browser)
        if takes_jwt and self._ways.oidc:
            return self._by_jwt(self._ways.grants, self._ways.oidc, text)
        return Refusal(401, "Access token needed", _HOW, CHALLENGE)

    def _by_jwt(self, grants: Grants, oidc: OidcProviders, text: str) -> Entered | Refusal:
        try:
            user = oidc.user_of(text)
        except NotPermitted as error:
            return Refusal(401, "Token refused", str(error), CHALLENGE)
        except Unavailable as error:
            return Refusal(503, "Identity provider silent", str(error), ((b"retry-after", b"30"),))
        roles = grants.roles_of(user.name, user.groups)
        return Entered(grants.principal(user.name, f"token of {user.issuer}", roles), by_browser=False)

    @staticmethod
    def _proxied(grants: Grants, user: ProxiedUser) -> Principal:
        roles = grants.roles_of(user.name, user.groups)
        return grants.principal(user.name, f"named by the proxy in {user.header}", roles)

    def _is_own(self, given: str | None) -> bool:
        expected = self._token
        if expected is None or given is None:
            return False
        return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _token_owner(grants: Grants, token: ApiToken) -> Principal:
    """A token has the role it was made with, not all that its owner has."""
    return grants.principal(token.owner, f"API token {token.id} of {token.owner}", {Role(token.role)})


def _bearer(request: DoorRequest) -> str | None:
    """Return what an Authorization header brings, empty for another scheme; None where there is none."""
    if not request.values(b"authorization"):
        return None
    scheme, _, given = request.text(b"authorization").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""
