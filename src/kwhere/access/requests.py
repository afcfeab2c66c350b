"""The few things of a request that the door looks at, every header as often as it came."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

PEER_NAMES_KEY = "kwhere.peer_names"
"""Where the server puts the names of a verified client certificate in an ASGI scope."""


@dataclass(frozen=True, slots=True)
class DoorRequest:
    """A request before anybody has answered it; header names are lower-case."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    peer_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> "DoorRequest":
        """Return the request of an ASGI scope."""
        return cls(
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            tuple((name.lower(), value) for name, value in scope["headers"]),
            scope.get(PEER_NAMES_KEY, frozenset()),
        )

    @property
    def host(self) -> str:
        """Return the `Host` header."""
        return self.text(b"host")

    def values(self, name: bytes) -> list[bytes]:
        """Return every value of a header."""
        return [value for held, value in self.headers if held == name]

    def text(self, name: bytes) -> str:
        """Return the last value of a header, empty where there is none."""
        values = self.values(name)
        return values[-1].decode("latin-1") if values else ""

    def lookalikes(self, names: Iterable[bytes]) -> list[str]:
        """Return headers that some server behind another would take for one of `names`, and that are none of them."""
        wanted = set(names)
        return [
            held.decode("latin-1")
            for held, _ in self.headers
            if held not in wanted and held.replace(b"_", b"-").strip() in wanted
        ]

    def cookie(self, name: str) -> str | None:
        """Return a cookie's value; None where there is none, or no well-formed one."""
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(self.text(b"cookie"))
        except CookieError:
            return None
        morsel = jar.get(name)
        return None if morsel is None else morsel.value
