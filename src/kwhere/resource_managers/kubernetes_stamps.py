"""Who made an object of Kubernetes, as our admission webhook wrote it there, and the seal that proves it did.

The webhook may be passed by (`failurePolicy: Ignore`), and anybody may write annotations. So a name counts only with a
seal: a keyed hash of the name and the namespace, which nobody without the key can make.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

from kwhere.core.errors import ConfigError
from kwhere.transport.secret_files import read_secret_file

USER = "kwhere.io/created-by"
SEAL = "kwhere.io/created-by-seal"
KEYS = (USER, SEAL)
LONGEST_NAME = 300
_FORM = "v1."
_SHORTEST_KEY = 32


class Seal:
    """Makes and checks seals; the first key makes them, every key's are good, so that keys can be changed."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(key.encode() for key in keys)

    def stamp(self, user: str, namespace: str) -> dict[str, str]:
        """Return the annotations that say `user` made an object in `namespace`."""
        return {USER: user, SEAL: _sealed(self._keys[0], user, namespace)}

    def user_of(self, annotations: Mapping[str, str], namespace: str) -> str | None:
        """Return who made an object; None where nobody says so, or somebody who has no key."""
        user, seal = annotations.get(USER), annotations.get(SEAL)
        if not user or not seal or len(user) > LONGEST_NAME or not seal.isascii():
            return None
        good = [hmac.compare_digest(seal, _sealed(key, user, namespace)) for key in self._keys]
        return user if any(good) else None


class SealFile:
    """The keys in a file, one a line; read again when it changes. Any thread."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError where the file cannot be used."""
        self._path = path
        self._mark = _mark_of(path)
        self._seal = read_seal(path)

    def current(self) -> Seal:
        """Return the seal in force: that of the file, or the one before where the file is wrong now."""
        mark = _mark_of(self._path)
        if mark != self._mark:
            try:
                self._seal = read_seal(self._path)
            except ConfigError:  # half written, or gone for a moment: it is looked at again
                return self._seal
            self._mark = mark
        return self._seal


def read_seal(path: Path) -> Seal:
    """Return the keys of a file. Raises ConfigError where others may read it, or a key is too short to keep secret."""
    # a mounted secret is a symbolic link, and is read by its group at the most
    content = read_secret_file(path, "this key", is_for_group=True)
    keys = content.decode("ascii", "replace").split()
    if not keys or any(len(key) < _SHORTEST_KEY or not key.isascii() for key in keys):
        raise ConfigError(f"{path}: expected a key of at least {_SHORTEST_KEY} characters of ASCII, one a line")
    return Seal(keys)


def _sealed(key: bytes, user: str, namespace: str) -> str:
    said = "\0".join(("kwhere-created-by", namespace, user)).encode("utf-8", "surrogatepass")
    return _FORM + hmac.new(key, said, hashlib.sha256).hexdigest()


def _mark_of(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)
