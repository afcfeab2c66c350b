"""The secret that proves a proxy, in a file of its owner alone."""

from pathlib import Path

from kwhere.core.errors import ConfigError
from kwhere.transport.secret_files import read_secret_file

SHORTEST_SECRET = 32


def read_secret(file: Path) -> bytes:
    """Return the secret in `file`. Raises ConfigError: unreadable, open to others, too short."""
    secret = read_secret_file(file, "this secret", place="access.proxy.secret_file: ").strip()
    if len(secret) < SHORTEST_SECRET:
        raise ConfigError(
            f"access.proxy.secret_file: {file}: expected at least {SHORTEST_SECRET} characters, found {len(secret)}"
        )
    return secret
