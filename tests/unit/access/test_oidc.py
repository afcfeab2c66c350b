"""Tokens of an identity provider, over real HTTP and real signatures: what holds, and what does not."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.oidc_provider import OidcProvider, seconds_on

from kwhere.access.oidc import RETRY_SECONDS, OidcProviders
from kwhere.access.settings import OidcSettings
from kwhere.core.errors import NotPermitted, Unavailable


@dataclass
class Clock:
    """Monotonic time by hand, for the age of keys."""

    now_s: float = 1000.0

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def boottime_ns(self) -> int:
        return self.monotonic_ns()

    def utc_ns(self) -> int:
        return self.monotonic_ns()


@pytest.fixture(scope="module")
def shared() -> Iterator[OidcProvider]:
    provider = OidcProvider()
    yield provider
    provider.close()


@pytest.fixture
def provider(shared: OidcProvider) -> OidcProvider:
    shared.asked.clear()
    shared.status, shared.extra = 200, []
    shared.keys = {"k1": shared.keys["k1"]}
    return shared


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _providers(provider: OidcProvider, clock: Clock, **changes: object) -> OidcProviders:
    words: dict[str, object] = {"issuer": provider.issuer, "audience": ("kwhere",), **changes}
    return OidcProviders((OidcSettings.model_validate(words),), clock)


def test_a_good_token_names_its_user_and_groups(provider: OidcProvider, clock: Clock) -> None:
    found = _providers(provider, clock).user_of(provider.token(groups=["hpc", 7, "ops"]))

    assert (found.name, found.groups, found.issuer) == ("alice", ("hpc", "ops"), provider.issuer)
    assert provider.asked == ["/realms/hpc/.well-known/openid-configuration", "/realms/hpc/certs?v=1"]


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ({"exp": -31}, "expired"),
        ({"exp": None}, "exp"),
        ({"aud": "grafana"}, "udience"),
        ({"aud": None}, "aud"),
        ({"aud": ["grafana", "jupyter"]}, "udience"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"nbf": 3600}, "not yet valid"),
        ({"preferred_username": None}, "preferred_username"),
        ({"preferred_username": ["alice"]}, "preferred_username"),
        ({"preferred_username": "alice\n"}, "user name"),
        ({"preferred_username": "1000"}, "number"),
    ],
)
def test_case_users_3_4_a_token_that_does_not_hold(
    provider: OidcProvider, clock: Clock, claims: dict[str, object], found: str
) -> None:
    given = {name: seconds_on(value) if isinstance(value, int) else value for name, value in claims.items()}
    token = provider.token("k1", key=None, algorithm="RS256", **given)

    with pytest.raises(NotPermitted, match=found):
        _providers(provider, clock).user_of(token)


def test_a_clock_a_little_off_is_allowed(provider: OidcProvider, clock: Clock) -> None:
    assert _providers(provider, clock).user_of(provider.token(exp=seconds_on(-5))).name == "alice"


def _unsigned(provider: OidcProvider, algorithm: str) -> str:
    parts = ({"alg": algorithm, "kid": "k1"}, {"iss": provider.issuer, "aud": "kwhere", "exp": seconds_on(3600)})
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*words, ""])


def _by_public_key(provider: OidcProvider) -> str:
    """The public key as an HMAC's secret: who checks by the token's own `alg` would believe it."""
    pem = provider.keys["k1"].public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
    return provider.token(key=base64.b64encode(pem), algorithm="HS256")


@pytest.mark.parametrize(
    "kind", ["none", "None", "NONE", "empty HMAC", "public key as HMAC", "other RSA", "EC", "RS512"]
)
def test_case_users_3_4_a_signature_that_is_none(provider: OidcProvider, clock: Clock, kind: str) -> None:
    tokens = {
        "none": lambda: _unsigned(provider, "none"),
        "None": lambda: _unsigned(provider, "None"),
        "NONE": lambda: _unsigned(provider, "NONE"),
        "empty HMAC": lambda: provider.token(key=b"\0" * 32, algorithm="HS256"),
        "public key as HMAC": lambda: _by_public_key(provider),
        "other RSA": lambda: provider.token(key=rsa.generate_private_key(65537, 2048)),
        "EC": lambda: provider.token(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
        "RS512": lambda: provider.token(algorithm="RS512"),
    }

    with pytest.raises(NotPermitted, match="does not hold"):
        _providers(provider, clock).user_of(tokens[kind]())


def test_a_symmetric_key_in_the_set_is_no_key(provider: OidcProvider, clock: Clock) -> None:
    provider.extra = [{"kty": "oct", "kid": "s", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}, {"kty": "RSA"}, 7, {}]
    provider.keys["s"] = provider.keys["k1"]
    token = jwt.encode({"iss": provider.issuer}, b"secretsecretsecretsecretsecretsecret", "HS256", {"kid": "s"})
    del provider.keys["s"]

    with pytest.raises(NotPermitted, match="does not publish"):
        _providers(provider, clock).user_of(token)


def test_a_mail_address_counts_once_it_is_verified(provider: OidcProvider, clock: Clock) -> None:
    providers = _providers(provider, clock, user_claim="email")

    assert providers.user_of(provider.token(email="a@b.example", email_verified=True)).name == "a@b.example"
    for verified in (None, False, "true", 1):
        with pytest.raises(NotPermitted, match="not verified"):
            providers.user_of(provider.token(email="a@b.example", email_verified=verified))


def test_a_new_key_is_looked_up_once_in_a_while(provider: OidcProvider, clock: Clock) -> None:
    providers = _providers(provider, clock, jwks_url=f"{provider.issuer}/certs")
    providers.user_of(provider.token())
    provider.keys["k2"] = ec.generate_private_key(ec.SECP256R1())
    token = provider.token("k2", algorithm="ES256")

    with pytest.raises(NotPermitted, match="does not publish"):
        providers.user_of(token)
    clock.now_s += RETRY_SECONDS
    assert providers.user_of(token).name == "alice"
    for _ in range(5):
        with pytest.raises(NotPermitted):
            providers.user_of(provider.token("k1", key=provider.keys["k1"]) + "x")
    assert len(provider.asked) == 2


def test_a_key_that_was_taken_back_ends_with_the_next_read(provider: OidcProvider, clock: Clock) -> None:
    providers = _providers(provider, clock, refresh_seconds=60)
    token = provider.token()
    providers.user_of(token)
    old, provider.keys = provider.keys["k1"], {"k2": ec.generate_private_key(ec.SECP256R1())}
    clock.now_s += 60

    with pytest.raises(NotPermitted, match="does not publish"):
        providers.user_of(token)
    provider.keys = {"k1": old}


def test_keys_read_before_count_while_the_provider_is_down(provider: OidcProvider, clock: Clock) -> None:
    providers = _providers(provider, clock, refresh_seconds=60, keep_hours=2)
    token = provider.token()
    providers.user_of(token)
    provider.status = 503
    clock.now_s += 3600

    assert providers.user_of(token).name == "alice"
    clock.now_s += 3601
    with pytest.raises(Unavailable, match="503"):
        providers.user_of(token)


def test_without_any_keys_nobody_is_told_to_be_wrong(provider: OidcProvider, clock: Clock) -> None:
    provider.status = 503

    with pytest.raises(Unavailable, match="no keys to check by"):
        _providers(provider, clock).user_of(provider.token())


def test_another_issuers_discovery_is_not_believed(provider: OidcProvider, clock: Clock) -> None:
    with pytest.raises(Unavailable, match="expected the issuer"):
        _providers(provider, clock, issuer=provider.issuer + "/").user_of(provider.token(iss=provider.issuer + "/"))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "rs256"])
def test_no_setting_lets_a_shared_key_in(algorithm: str) -> None:
    with pytest.raises(ValidationError):
        OidcSettings(issuer="x", audience=("a",), algorithms=(algorithm,))  # type: ignore[arg-type]


@given(st.one_of(st.text(max_size=60), st.from_regex(r"[A-Za-z0-9_-]{0,20}\.[A-Za-z0-9_-]{0,20}\.[A-Za-z0-9_-]{0,9}")))
def test_no_text_names_anybody(shared: OidcProvider, text: str) -> None:
    with pytest.raises(NotPermitted):
        _providers(shared, Clock()).user_of(text)
