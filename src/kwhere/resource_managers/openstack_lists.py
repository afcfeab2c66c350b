"""Whole lists of Nova and Keystone, page by page."""

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from kwhere.core.errors import SourceError
from kwhere.resource_managers.keystone import Keystone
from kwhere.resource_managers.nova import Nova
from kwhere.resource_managers.rest_values import inner, objects, records, text

_MOST_PAGES = 1000


def compute_rows(
    nova: Nova, path: str, key: str, params: Mapping[str, str], page_size: int
) -> Iterator[Mapping[str, object]]:
    """Yield the records of one of Nova's lists. Raises Unavailable and SourceError."""
    marker: str | None = None
    for _ in range(_MOST_PAGES):
        paging = {"limit": str(page_size), **({"marker": marker} if marker else {})}
        document = nova.get(path, {**params, **paging})
        rows = records(document, key, path)
        yield from rows
        # The link's address may be one that only the cloud itself reaches: that there is one is what counts.
        if not rows or not any(link.get("rel") == "next" for link in objects(document.get(f"{key}_links"))):
            return
        following = text(str(rows[-1].get("id") or ""))
        if following is None or following == marker:
            raise SourceError(f"{path}: expected another id in the last of {key}, to go on from")
        marker = following
    raise SourceError(f"{path}: more than {_MOST_PAGES} pages")


def identity_rows(
    keystone: Keystone, path: str, key: str, params: Mapping[str, str] | None = None, *, is_whole: bool = False
) -> list[Mapping[str, object]]:
    """Return the records of one of Keystone's lists; with `is_whole` a list that Keystone cut off is an error."""
    found: list[Mapping[str, object]] = []
    asked = dict(params or {})
    before: list[dict[str, str]] = []
    while asked not in before and len(before) < _MOST_PAGES:
        before.append(asked)
        document = keystone.identity(path, asked)
        found += records(document, key, path)
        following = text(inner(document, "links").get("next"))
        if following is None:
            if is_whole and document.get("truncated") is True:
                raise SourceError(f"{path}: expected all {key}, found a list that Keystone's list_limit cut off")
            return found
        asked = dict(parse_qsl(urlsplit(following).query, keep_blank_values=True))
    if asked in before:
        raise SourceError(f"{path}: expected an end of its pages, found page {len(before)} to lead on to one before")
    raise SourceError(f"{path}: more than {_MOST_PAGES} pages")
