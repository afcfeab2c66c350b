"""Names a request may use."""

import pytest

from kwhere.access.hosts import allowed_hosts, host_name, host_port, is_loopback


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:9811", "localhost"),
        ("127.0.0.1:9811", "127.0.0.1"),
        ("[::1]:9811", "::1"),
        ("[::1]", "::1"),
        ("evil.example.", "evil.example"),
        ("", None),
        ("a/b", None),
        ("user@host", None),
        ("[::1", None),
        ("[nonsense]", None),
        ("host:port", None),
        ("host:1:2", None),
    ],
)
def test_name_of_a_host_header(header: str, name: str | None) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(("header", "port"), [("a:9811", "9811"), ("a", ""), ("[::1]:80", "80"), ("[::1]", "")])
def test_port_of_a_host_header(header: str, port: str) -> None:
    assert host_port(header) == port


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.4", False),
        ("", False),
        ("node1", False),
    ],
)
def test_what_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_wildcard_address_allows_no_name_of_its_own() -> None:
    assert allowed_hosts("0.0.0.0", ["kwhere.site.example."]) == {
        "localhost",
        "127.0.0.1",
        "::1",
        "kwhere.site.example",
    }


def test_the_address_listened_on_is_allowed() -> None:
    assert "10.0.0.4" in allowed_hosts("10.0.0.4", [])
