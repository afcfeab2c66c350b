"""Addresses of lists: every filter, the sort and the page are in the URL."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class SortLink:
    """What a column's head leads to, and how the list is sorted by it now."""

    url: str
    state: str
    """ascending, descending or empty."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One list of a page: where it is, and what the URL says of it."""

    path: str
    params: Mapping[str, str]
    sort: str
    """As in the URL: `-` before what is sorted downwards."""

    def url(self, **changes: str | None) -> str:
        """Return the list's address with some parameters changed; None takes one away."""
        merged = {**self.params, **changes}
        query = urlencode({key: value for key, value in merged.items() if value})
        return f"{self.path}?{query}" if query else self.path

    def head(self, key: str, first: str = "-") -> SortLink:
        """Return the link of a column that is sorted by `key`: first `first` (`-`: downwards), then the other way."""
        is_current = self.sort.removeprefix("-") == key
        is_down = self.sort.startswith("-")
        other = "" if is_down else "-"
        state = ("descending" if is_down else "ascending") if is_current else ""
        return SortLink(self.url(sort=(other if is_current else first) + key, after=None), state)

    def following(self, after: str | None) -> str | None:
        """Return the address of the next page; None on the last."""
        return None if after is None else self.url(after=after)

    @property
    def first_url(self) -> str | None:
        """Return the address of the first page; None there."""
        return self.url(after=None) if self.params.get("after") else None
