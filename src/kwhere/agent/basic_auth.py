"""Passwords of HTTP basic authentication against bcrypt hashes, remembered so that a scrape is cheap."""

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict

import bcrypt

_MAX_REMEMBERED = 64
_BCRYPT_BYTES = 72
"""bcrypt looks at no more of a password; the tools that make hashes cut there too."""


class BasicAuth:
    """Users and their bcrypt hashes. Safe to use from several threads; one hash is computed at a time."""

    def __init__(self, users: dict[str, str]) -> None:
        self._users = {name.encode(): value.encode() for name, value in users.items()}
        # a name that is not there must cost what one that is there costs
        self._decoy = next(iter(self._users.values()), b"")
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, bool] = OrderedDict()
        self._lock = threading.Lock()

    def accepts(self, authorization: str) -> bool:
        """Return whether an Authorization header carries a known name and its password. May take 50 ms and more."""
        pair = _credentials(authorization)
        if pair is None or not self._users:
            return False
        mark = self._mark(*pair)
        known = self._remembered.get(mark)
        if known is not None:
            return known
        with self._lock:
            known = self._check(*pair)
            self._remember(mark, known)
            return known

    def remembers(self, authorization: str) -> bool:
        """Return whether `accepts` would answer at once."""
        pair = _credentials(authorization)
        return pair is None or not self._users or self._mark(*pair) in self._remembered

    def _check(self, name: bytes, password: bytes) -> bool:
        expected = self._users.get(name)
        try:
            fits = bcrypt.checkpw(password[:_BCRYPT_BYTES], expected or self._decoy)
        except ValueError:
            return False
        return fits and expected is not None

    def _mark(self, name: bytes, password: bytes) -> bytes:
        """A keyed digest: the memory holds no password, and no hash of one that could be tried elsewhere."""
        length = len(name).to_bytes(4, "big")
        return hmac.new(self._key, length + name + password, hashlib.sha256).digest()

    def _remember(self, mark: bytes, known: bool) -> None:
        self._remembered[mark] = known
        if len(self._remembered) > _MAX_REMEMBERED:
            # wrong passwords go first: guessing must not push the right ones out
            wrong = next((item for item, is_right in self._remembered.items() if not is_right), None)
            if wrong is None:
                self._remembered.popitem(last=False)
            else:
                del self._remembered[wrong]


def _credentials(authorization: str) -> tuple[bytes, bytes] | None:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, separator, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if separator else None
