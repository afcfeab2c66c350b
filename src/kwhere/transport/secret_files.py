"""Files with a secret that proves somebody: refused where more than their owner may read them."""

import os
import stat
from pathlib import Path

from kwhere.core.errors import ConfigError

MOST_BYTES = 4096


def read_secret_file(
    path: Path,
    what: str,
    *,
    place: str = "",
    most_bytes: int = MOST_BYTES,
    is_for_group: bool = False,
    follows_links: bool = True,
) -> bytes:
    """Return what a file holds; `what` is it in a complaint (`this token`), `place` stands before that.

    Rights are those of the file that is read, not of one that stood there before. Raises ConfigError where it cannot
    be read, is longer than `most_bytes`, or others may read it; its group may where `is_for_group`.
    """
    at = f"{place}{path}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follows_links else os.O_NOFOLLOW))
        with os.fdopen(descriptor, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{at}: {what} cannot be read ({error.strerror})") from error
    if mode & (0o007 if is_for_group else 0o077):
        expected = "0600, 0400 or 0440" if is_for_group else "0600 or 0400"
        raise ConfigError(f"{at}: others may read {what} (mode {mode:04o}); expected {expected}, and another secret")
    if len(content) > most_bytes:
        raise ConfigError(f"{at}: expected at most {most_bytes} bytes")
    return content
