"""Tokens of an identity provider: a JWT is believed by the provider's published keys, and for us alone."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jwt

from kwhere.access.names import checked_name
from kwhere.access.settings import OidcSettings
from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, NotPermitted, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

DISCOVERY = "/.well-known/openid-configuration"
RETRY_SECONDS = 30.0
"""An unknown key, or a provider that does not answer, is asked about no more often than this."""
_LONGEST_TOKEN = 16 << 10
Connect = Callable[[str, HttpClientSettings], HttpClient]
Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenUser:
    """Whom a token names."""

    name: str
    groups: tuple[str, ...]
    issuer: str


class OidcProviders:
    """The providers whose tokens are taken. Thread-safe; asked from worker threads."""

    def __init__(self, settings: tuple[OidcSettings, ...], clock: Clock, connect: Connect = HttpClient) -> None:
        self._providers = {each.issuer: _Provider(each, clock, connect) for each in settings}

    def __bool__(self) -> bool:
        return bool(self._providers)

    def user_of(self, token: str) -> TokenUser:
        """Return whom a token names. Raises NotPermitted that says why not, Unavailable without keys to check it by."""
        if len(token) > _LONGEST_TOKEN:
            raise NotPermitted("the token is longer than any of an identity provider")
        try:
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except jwt.InvalidTokenError:
            raise NotPermitted("the token is neither one of this server nor a JWT") from None
        provider = self._providers.get(issuer) if isinstance(issuer, str) else None
        if provider is None:
            raise NotPermitted("the token's issuer (`iss`) is none that this server takes tokens of")
        return provider.user_of(token)


class _Provider:
    def __init__(self, settings: OidcSettings, clock: Clock, connect: Connect) -> None:
        self._settings = settings
        self._keys = _Keys(settings, clock, connect)

    def user_of(self, token: str) -> TokenUser:
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.key_of(header.get("kid"))
            claims: Claims = jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=list(settings.audience),
                issuer=settings.issuer,
                leeway=settings.leeway_seconds,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.InvalidTokenError as error:
            raise NotPermitted(f"the token does not hold: {error}") from None
        return TokenUser(self._name(claims), self._groups(claims), settings.issuer)

    def _name(self, claims: Claims) -> str:
        claim = self._settings.user_claim
        name = claims.get(claim)
        if not isinstance(name, str):
            raise NotPermitted(f"the token has no claim {claim!r} that names a user")
        if claim == "email" and claims.get("email_verified") is not True:
            raise NotPermitted("the token's mail address is not verified (`email_verified`)")
        try:
            return checked_name(name)
        except ValueError as error:
            raise NotPermitted(f"the token's user name {error}") from None

    def _groups(self, claims: Claims) -> tuple[str, ...]:
        claim = self._settings.groups_claim
        groups = claims.get(claim) if claim is not None else None
        return tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else ()


class _Keys:
    """The published keys of a provider, read when needed and when they are old."""

    def __init__(self, settings: OidcSettings, clock: Clock, connect: Connect) -> None:
        self._settings = settings
        self._clock = clock
        self._connect = connect
        self._lock = threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._read_s: float | None = None
        self._asked_s: float | None = None
        self._fault: KwhereError | None = None

    def key_of(self, kid: object) -> jwt.PyJWK:
        """Return the key of an id. Raises NotPermitted for none, Unavailable where no keys are known."""
        with self._lock:
            now_s = self._clock.monotonic_ns() / NANOSECONDS_PER_SECOND
            if self._is_old(now_s) or (self._find(kid) is None):
                self._read_again(now_s)
            if self._read_s is None or now_s - self._read_s > self._settings.keep_hours * 3600:
                raise Unavailable("keys", f"access.oidc: {self._settings.issuer}: no keys to check by: {self._fault}")
            found = self._find(kid)
        if found is None:
            raise NotPermitted("the token is signed with a key that its issuer does not publish")
        return found

    def _find(self, kid: object) -> jwt.PyJWK | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid) if isinstance(kid, str) else None

    def _is_old(self, now_s: float) -> bool:
        return self._read_s is None or now_s - self._read_s >= self._settings.refresh_seconds

    def _read_again(self, now_s: float) -> None:
        """Keys that were read before stay in force while the provider does not answer."""
        if self._asked_s is not None and now_s - self._asked_s < RETRY_SECONDS:
            return
        self._asked_s = now_s
        try:
            self._keys = self._fetch()
            self._read_s, self._fault = now_s, None
        except (Unavailable, SourceError) as error:
            self._fault = error

    def _fetch(self) -> dict[str | None, jwt.PyJWK]:
        url = self._settings.jwks_url or self._discovered()
        document = self._ask(url)
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise SourceError(f"{url}: expected a JSON object with `keys`")
        return {key.key_id: key for item in keys if (key := _key(item)) is not None}

    def _discovered(self) -> str:
        url = self._settings.issuer.rstrip("/") + DISCOVERY
        document = self._ask(url)
        if document.get("issuer") != self._settings.issuer:
            raise SourceError(f"{url}: expected the issuer {self._settings.issuer!r}, found {document.get('issuer')!r}")
        found = document.get("jwks_uri")
        if not isinstance(found, str):
            raise SourceError(f"{url}: expected `jwks_uri`")
        return found

    def _ask(self, url: str) -> dict[str, Any]:
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        with self._connect(f"{parts.scheme}://{parts.netloc}", self._settings.client) as client:
            answer = client.get(path or "/")
        if answer.status != 200:
            raise SourceError(f"{url}: expected status 200, found {answer.status}")
        try:
            document = json.loads(answer.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise SourceError(f"{url}: expected a JSON object")
        return document


def _key(item: object) -> jwt.PyJWK | None:
    """Return a key for signatures by a key pair; None for any other, or one that this version does not know."""
    if not isinstance(item, dict) or item.get("use", "sig") != "sig" or item.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    try:
        return jwt.PyJWK.from_dict(item)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
