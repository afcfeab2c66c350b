"""The body of an answer, taken in under a limit of bytes and a deadline."""

import zlib
from collections.abc import Callable

from kwhere.core.errors import SourceError, Unavailable

_GZIP_OR_ZLIB = 47
"""zlib's window bits that take both gzip and zlib headers."""


class AnswerTooLongError(SourceError):
    """More was said than is taken in: a narrower question may do."""


class BoundedBody:
    """Collects chunks; undoes gzip in bounded pieces, so that a small answer cannot unpack into all memory."""

    def __init__(
        self, *, place: str, encoding: str, max_bytes: int, deadline_ns: int, monotonic_ns: Callable[[], int]
    ) -> None:
        self._place = place
        self._max_bytes = max_bytes
        self._deadline_ns = deadline_ns
        self._monotonic_ns = monotonic_ns
        self._parts: list[bytes] = []
        self._size = 0
        self._inflate = self._decoder(encoding.strip().lower())

    def _decoder(self, encoding: str) -> "zlib._Decompress | None":
        if encoding in ("", "identity"):
            return None
        if encoding in ("gzip", "x-gzip", "deflate"):
            return zlib.decompressobj(_GZIP_OR_ZLIB)
        raise SourceError(f"{self._place}: expected gzip or plain, found content encoding {encoding!r}")

    def feed(self, chunk: bytes) -> None:
        """Take a raw chunk. Raises Unavailable past the deadline, SourceError past the limit or for bad gzip."""
        if self._monotonic_ns() > self._deadline_ns:
            raise Unavailable("timeout", f"{self._place}: the answer did not end in time")
        if self._inflate is None:
            self._keep(chunk)
            return
        try:
            # One byte over the limit is enough to know.
            self._keep(self._inflate.decompress(chunk, self._max_bytes - self._size + 1))
        except zlib.error as error:
            raise SourceError(f"{self._place}: expected gzip, found {error}") from error

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise AnswerTooLongError(f"{self._place}: expected at most {self._max_bytes} bytes, found more")
        self._parts.append(part)

    def finish(self) -> bytes:
        """Return the whole body. Raises SourceError where gzip ends early."""
        if self._inflate is not None and not self._inflate.eof and self._size:
            raise SourceError(f"{self._place}: gzip ends early")
        return b"".join(self._parts)
