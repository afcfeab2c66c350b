"""Tokens of guests: one file each, read again when it changes; a wrong one shuts out its guest alone."""

import hmac
from collections.abc import Mapping
from pathlib import Path

import structlog

from kwhere.agent.ledger_token import read_token
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.failure_memory import FailureMemory

Mark = tuple[int, int, int]

log = structlog.get_logger(__name__)


class GuestTokens:
    """Who a token belongs to. Not thread-safe."""

    def __init__(self, files: Mapping[str, Path], clock: Clock) -> None:
        """`files` gives the token file of each guest, by the key that names the guest in the settings."""
        self._files = dict(files)
        self._clock = clock
        self._tokens: dict[str, tuple[Mark, bytes]] = {}
        self._failures = FailureMemory()

    def owner_of(self, token: str) -> str | None:
        """Return the key of the guest whose token this is, None for a token of nobody's; takes the same time for all.

        A token that two guests share belongs to neither.
        """
        given = token.encode("utf-8", "replace")
        owners = [key for key in self._files if hmac.compare_digest(self._token(key), given)]
        return owners[0] if len(owners) == 1 else None

    def _token(self, key: str) -> bytes:
        """Return a guest's token as its file has it now; what no one can send where there is none."""
        path = self._files[key]
        try:
            found = path.stat()
            mark = (found.st_ino, found.st_size, found.st_mtime_ns)
            known = self._tokens.get(key)
            if known is None or known[0] != mark:
                known = self._tokens[key] = (mark, read_token(path).encode())
            return known[1]
        except (OSError, ConfigError) as error:
            self._tokens.pop(key, None)
            if self._failures.failed(key, str(error), self._clock.monotonic_ns()) is not None:
                log.error("guest has no token", guest=key, error=str(error))
            return b"\0"
