"""Opaque cursors of keyset paging."""

import base64
import binascii
import json
from collections.abc import Sequence


class BadCursor(ValueError):  # noqa: N818 - names the thing
    """A cursor that we did not hand out, or one of another sort."""


def encode_cursor(words: Sequence[str | int | None]) -> str:
    """Return a cursor that holds `words`, fit for a URL."""
    return base64.urlsafe_b64encode(json.dumps(list(words)).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, kinds: Sequence[type | tuple[type, ...]]) -> list[str | int | None]:
    """Return the words of a cursor. Raises BadCursor unless they are of `kinds`."""
    try:
        words = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error) as error:
        raise BadCursor(f"after: {cursor[:40]!r} is not a cursor of ours") from error
    if not isinstance(words, list) or len(words) != len(kinds):
        raise BadCursor(f"after: {cursor[:40]!r} is not a cursor of this list")
    for word, kind in zip(words, kinds, strict=True):
        if isinstance(word, bool) or not isinstance(word, kind):
            raise BadCursor(f"after: {cursor[:40]!r} is not a cursor of this list")
    return words
