import base64
import threading

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.agent.basic_auth import BasicAuth


def hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


AUTH = BasicAuth(
    {"alice": hashed(b"right"), "bob": hashed("pässwörd:with:colons".encode()), "carol": hashed(b"x" * 72)}
)


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (basic("alice", "right"), True),
        (basic("alice", "right").replace("Basic", "bASIC"), True),
        (basic("bob", "pässwörd:with:colons"), True),
        # bcrypt looks at 72 bytes; whoever made the hash of a longer password cut it there
        (basic("carol", "x" * 100), True),
        (basic("carol", "x" * 71), False),
        (basic("alice", "wrong"), False),
        (basic("alice", ""), False),
        (basic("bob", "right"), False),
        (basic("mallory", "right"), False),
        (basic("", ""), False),
        (basic("alice", "ri\0ght"), False),
        ("", False),
        ("Basic", False),
        ("Basic !!!", False),
        ("Basic " + base64.b64encode(b"alice").decode(), False),
        ("Bearer " + base64.b64encode(b"alice:right").decode(), False),
        (basic("alice", "right") + "," + basic("alice", "right"), False),
    ],
)
def test_only_a_known_name_with_its_password_is_accepted(authorization: str, expected: bool) -> None:
    assert AUTH.accepts(authorization) is expected
    assert AUTH.accepts(authorization) is expected


def test_hash_of_other_tools_is_understood() -> None:
    assert BasicAuth({"alice": hashed(b"right").replace("$2b$", "$2y$")}).accepts(basic("alice", "right"))


def test_nobody_is_accepted_without_users() -> None:
    assert not BasicAuth({}).accepts(basic("alice", "right"))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    computed: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, expected: bytes) -> bool:
        computed.append(password)
        return real(password, expected)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    return computed


def test_hash_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = counted(monkeypatch)
    auth = BasicAuth({"alice": hashed(b"right")})

    assert not auth.remembers(basic("alice", "right"))
    for _ in range(5):
        assert auth.accepts(basic("alice", "right"))
        assert not auth.accepts(basic("alice", "wrong"))

    assert auth.remembers(basic("alice", "right"))
    assert computed == [b"right", b"wrong"]


def test_unknown_name_costs_a_hash_too(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = counted(monkeypatch)

    BasicAuth({"alice": hashed(b"right")}).accepts(basic("mallory", "right"))

    assert computed == [b"right"]


def test_guessing_does_not_push_right_passwords_out() -> None:
    auth = BasicAuth({"alice": hashed(b"right")})
    auth.accepts(basic("alice", "right"))

    for number in range(100):
        auth.accepts(basic("alice", str(number)))

    assert auth.remembers(basic("alice", "right"))
    assert not auth.remembers(basic("alice", "0"))


def test_name_and_password_are_not_mixed_up() -> None:
    auth = BasicAuth({"a": hashed(b"bc")})
    assert auth.accepts(basic("a", "bc"))

    assert not auth.accepts(basic("ab", "c"))


def test_many_threads_get_the_right_answer() -> None:
    auth = BasicAuth({"alice": hashed(b"right")})
    answers: list[tuple[str, bool]] = []
    passwords = ["right", "wrong"] * 8
    threads = [
        threading.Thread(target=lambda word=word: answers.append((word, auth.accepts(basic("alice", word)))))
        for word in passwords
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == sorted((word, word == "right") for word in passwords)


@given(st.text(max_size=60))
def test_any_header_is_refused_without_an_error(authorization: str) -> None:
    assert not AUTH.accepts(authorization)
