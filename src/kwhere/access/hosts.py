"""Which `Host` a request may name: without this check any web page could reach a loopback server by DNS rebinding."""

import ipaddress
from collections.abc import Iterable

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def host_name(header: str) -> str | None:
    """Return the lower-case name of a `Host` header without its port; None if it is not well formed."""
    text = header.strip().lower()
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        return address if bracket and _is_port(rest) and _is_ipv6(address) else None
    name, colon, port = text.partition(":")
    if not name or any(sign in name for sign in "/@\\ \t"):
        return None
    return name.rstrip(".") if _is_port(colon + port) else None


def host_port(header: str) -> str:
    """Return the port of a `Host` header as text, empty where it names none."""
    tail = header.rsplit("]", 1)[-1] if header.startswith("[") else header
    return tail.partition(":")[2].strip()


def is_loopback(host: str) -> bool:
    """Return whether a listen address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(listen_host: str, configured: Iterable[str]) -> frozenset[str]:
    """Return the names a request may use: loopback's, the address listened on unless a wildcard, configured ones."""
    names = {name.lower().rstrip(".") for name in configured} | LOOPBACK_NAMES
    listened = listen_host.strip("[]").lower()
    if listened not in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        names.add(listened)
    return frozenset(names)


def _is_port(text: str) -> bool:
    return text == "" or (text[0] == ":" and text[1:].isdigit() and len(text) <= 6)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
