"""The secret that proves a proxy, in a file of its owner alone."""

import stat
from pathlib import Path

from kwhere.core.errors import ConfigError

SHORTEST_SECRET = 32


def read_secret(file: Path) -> bytes:
    """Return the secret in `file`. Raises ConfigError: unreadable, open to others, too short."""
    key = f"access.proxy.secret_file: {file}"
    try:
        mode, secret = stat.S_IMODE(file.stat().st_mode), file.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{key}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise ConfigError(f"{key}: others may read it (mode {mode:04o}); chmod 600 it")
    if len(secret) < SHORTEST_SECRET:
        raise ConfigError(f"{key}: expected at least {SHORTEST_SECRET} characters, found {len(secret)}")
    return secret
