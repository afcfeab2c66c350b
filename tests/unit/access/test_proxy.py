"""Whom a proxy may name: cases 3.4 c) of users, and the whole kind around them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kwhere.access.principal import Refusal
from kwhere.access.proxy import ProxiedUser, TrustedProxy
from kwhere.access.proxy_secret import read_secret
from kwhere.access.requests import DoorRequest
from kwhere.access.settings import ProxySettings
from kwhere.core.errors import ConfigError

SECRET = b"s" * 40
HEADER = b"x-grafana-user"
PROOF = (b"x-kwhere-proxy-secret", SECRET)


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("proxy") / "secret"
    file.write_bytes(SECRET + b"\n")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def proxy(secret_file: Path) -> TrustedProxy:
    settings = ProxySettings(user_header="X-Grafana-User", groups_header="X-Groups", secret_file=secret_file)
    return TrustedProxy(settings)


def _request(*headers: tuple[bytes, bytes], names: frozenset[str] = frozenset()) -> DoorRequest:
    return DoorRequest("GET", "/", "", headers, names)


def test_a_proven_proxy_names_its_user_and_groups(proxy: TrustedProxy) -> None:
    found = proxy.judge(_request(PROOF, (HEADER, b"mine"), (b"x-groups", b"hpc admins, ops,,")))

    assert found == ProxiedUser("mine", ("hpc admins", "ops"), "X-Grafana-User")


@pytest.mark.parametrize(
    "proof",
    [
        *([], [(PROOF[0], b"")], [(PROOF[0], SECRET[:-1])], [(PROOF[0], SECRET + b"s")], [PROOF, PROOF]),
        *([(b"x-kwhere-proxy-secret2", SECRET)], [(b"authorization", b"Bearer " + SECRET)]),
    ],
)
def test_case_users_3_4_a_header_from_anybody_else_is_refused(
    proxy: TrustedProxy, proof: list[tuple[bytes, bytes]]
) -> None:
    found = proxy.judge(_request(*proof, (HEADER, b"mine")))

    assert isinstance(found, Refusal)
    assert found.status == 403
    assert "mine" not in found.detail


@pytest.mark.parametrize("name", [b"x_grafana_user", b"x-grafana_user", b"x_grafana-user", b"x_kwhere_proxy_secret"])
@pytest.mark.parametrize("beside", [[], [(HEADER, b"mine")]])
def test_case_users_3_4_underscores_never_make_a_second_header(
    proxy: TrustedProxy, name: bytes, beside: list[tuple[bytes, bytes]]
) -> None:
    found = proxy.judge(_request(PROOF, *beside, (name, b"admin")))

    assert isinstance(found, Refusal)
    assert found.status == 400


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"   ", b"mine\ttheirs", b"m\xc4\xb1ne", b"mi\xcc\x81ne", b"mine,theirs", b"mine, mine", b"alice\n"),
        *(b"1000", b"0", b"\xff", b"mine\0", b"a" * 256),
    ],
)
def test_case_users_3_4_what_is_no_name_is_refused(proxy: TrustedProxy, value: bytes) -> None:
    found = proxy.judge(_request(PROOF, (HEADER, value)))

    assert isinstance(found, Refusal)
    assert found.status == 400


@pytest.mark.parametrize("value", [b"MINE", b"Mine", b"mine@realm", b"mine%20", b"../mine", b"alice'--", b"root"])
def test_case_users_3_4_other_spellings_are_other_names(proxy: TrustedProxy, value: bytes) -> None:
    found = proxy.judge(_request(PROOF, (HEADER, value)))

    assert isinstance(found, ProxiedUser)
    assert found.name == value.decode()


def test_case_users_3_4_twice_is_not_once(proxy: TrustedProxy) -> None:
    for twice in ((HEADER, b"mine"), (HEADER, b"theirs")), ((HEADER, b"mine"), (HEADER, b"mine")):
        assert isinstance(proxy.judge(_request(PROOF, *twice)), Refusal)
    groups = (b"x-groups", b"a"), (b"x-groups", b"b")
    assert isinstance(proxy.judge(_request(PROOF, (HEADER, b"mine"), *groups)), Refusal)


@pytest.mark.parametrize(
    "name",
    [
        *("x-forwarded-user", "remote-user", "x-remote-user", "x-auth-request-user", "x-project-id", "x-scope-orgid"),
        *("x-ceems-admin", "kubeflow-userid"),
    ],
)
def test_case_users_3_4_other_products_headers_say_nothing(proxy: TrustedProxy, name: str) -> None:
    assert proxy.judge(_request((name.encode(), b"admin"))) is None
    assert proxy.judge(_request(PROOF, (HEADER, b"mine"), (name.encode(), b"admin"))) == proxy.judge(
        _request(PROOF, (HEADER, b"mine"))
    )


def test_a_proven_proxy_that_names_nobody_lets_a_token_speak(proxy: TrustedProxy) -> None:
    assert proxy.judge(_request(PROOF)) is None


def test_a_certificate_proves_the_proxy_by_its_name_alone() -> None:
    proxy = TrustedProxy(ProxySettings(client_names=("proxy.example",)))
    named = (HEADER.replace(b"grafana", b"forwarded"), b"mine")

    assert isinstance(proxy.judge(_request(named, names=frozenset({"proxy.example"}))), ProxiedUser)
    for names in (frozenset[str](), frozenset({"evil.example"}), frozenset({"PROXY.example"})):
        assert isinstance(proxy.judge(_request(named, names=names)), Refusal)


@given(st.lists(st.tuples(st.sampled_from([HEADER, b"x_grafana_user", PROOF[0], b"x-groups"]), st.binary(max_size=9))))
def test_no_headers_without_the_secret_name_anybody(proxy: TrustedProxy, headers: list[tuple[bytes, bytes]]) -> None:
    assert not isinstance(proxy.judge(_request(*headers)), ProxiedUser)


def test_a_proxy_that_nothing_proves_is_no_setting() -> None:
    with pytest.raises(ValidationError, match="anybody could name anybody"):
        ProxySettings()


@pytest.mark.parametrize(
    ("mode", "text", "found"), [(0o644, "s" * 40, "others may read this secret"), (0o600, "short", "at least 32")]
)
def test_a_secret_is_long_and_its_owners_alone(tmp_path: Path, mode: int, text: str, found: str) -> None:
    file = tmp_path / "secret"
    file.write_text(text)
    file.chmod(mode)

    with pytest.raises(ConfigError, match=found):
        read_secret(file)
