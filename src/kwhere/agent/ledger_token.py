"""The token that opens the ledger: random, in a file that only its owner reads."""

import os
import secrets
import stat
from pathlib import Path

from kwhere.core.errors import ConfigError

FILE_NAME = "ledger-token"
_MIN_LENGTH = 16
_MAX_BYTES = 4096


def ensure_token(state_dir: Path) -> str:
    """Return the token of `state_dir`; makes one at the first call. Raises ConfigError."""
    path = state_dir / FILE_NAME
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"state: {path}: no token can be kept there ({error.strerror})") from error
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def read_token(path: Path) -> str:
    """Return the token in a file. Raises ConfigError if others may read it, or it is short or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: the token cannot be read ({error.strerror})") from error
    if mode & 0o077:
        raise ConfigError(f"{path}: others may read this token (mode {mode:04o}); chmod 600 it and change the token")
    token = content.decode("ascii", "replace").strip()
    if len(token) < _MIN_LENGTH or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"{path}: expected a token of at least {_MIN_LENGTH} printable characters")
    return token
