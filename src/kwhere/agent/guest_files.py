"""Files that guests read through a share: replaced as a whole, never through a link that a guest may have planted."""

import os
import pwd
import secrets
from pathlib import Path

from kwhere.core.errors import ConfigError
from kwhere.meters.guest_entry import FILE_NAME

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def uid_of(owner: str | None, key: str) -> int | None:
    """Return the uid of a user by name or number; None where none is set. Raises ConfigError with the settings key."""
    if owner is None:
        return None
    if owner.isascii() and owner.isdigit() and len(owner) < 10:
        return int(owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise ConfigError(f"{key}: expected a user of this machine, found {owner!r}") from None


def write_file(directory: Path, data: bytes, uid: int | None) -> None:
    """Replace the directory's file, mode 0600, `uid` its owner; makes the directory (0700) if need be. Raises OSError.

    The directory itself must not be a link. A guest that can write to its share can spoil its own file, nothing else.
    """
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if uid is not None:
            os.chown(directory, uid, -1, follow_symlinks=False)
    place = os.open(directory, _DIRECTORY_FLAGS)
    name = f".{FILE_NAME}.{secrets.token_hex(8)}"
    try:
        try:
            with os.fdopen(os.open(name, _FILE_FLAGS, 0o600, dir_fd=place), "wb") as file:
                if uid is not None:
                    os.fchown(file.fileno(), uid, -1)
                file.write(data)
            os.replace(name, FILE_NAME, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            _remove(name, place)
            raise
    finally:
        os.close(place)


def remove_file(directory: Path) -> None:
    """Remove the directory's file: the guest is gone. Raises OSError other than that it is not there."""
    try:
        place = os.open(directory, _DIRECTORY_FLAGS)
    except FileNotFoundError:
        return
    try:
        _remove(FILE_NAME, place)
    finally:
        os.close(place)


def _remove(name: str, place: int) -> None:
    try:
        os.unlink(name, dir_fd=place)
    except FileNotFoundError:
        return
