"""The token that opens the ledger: random, in a file that only its owner reads."""

import os
import secrets
from pathlib import Path

from kwhere.core.errors import ConfigError
from kwhere.transport.secret_files import read_secret_file

FILE_NAME = "ledger-token"
_MIN_LENGTH = 16


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
    token = read_secret_file(path, "this token", follows_links=False).decode("ascii", "replace").strip()
    if len(token) < _MIN_LENGTH or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"{path}: expected a token of at least {_MIN_LENGTH} printable characters")
    return token
