"""Who may read a secret's file, and what is said where more may."""

from pathlib import Path

import pytest

from kwhere.core.errors import ConfigError
from kwhere.transport.secret_files import read_secret_file


@pytest.mark.parametrize(
    ("mode", "is_for_group", "is_fine"),
    [
        *((0o600, False, True), (0o400, False, True), (0o640, False, False), (0o604, False, False)),
        *((0o440, True, True), (0o640, True, True), (0o444, True, False), (0o620, False, False)),
    ],
)
def test_a_secret_is_its_owners(tmp_path: Path, mode: int, is_for_group: bool, is_fine: bool) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(mode)

    if is_fine:
        assert read_secret_file(path, "this key", is_for_group=is_for_group) == b"secret"
    else:
        with pytest.raises(ConfigError, match=f"x: {path}: others may read this key .mode {mode:04o}.; expected 0600"):
            read_secret_file(path, "this key", place="x: ", is_for_group=is_for_group)


def test_a_file_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"x" * 11)
    path.chmod(0o600)

    with pytest.raises(ConfigError, match="expected at most 10 bytes"):
        read_secret_file(path, "these tokens", most_bytes=10)


def test_a_link_is_followed_where_that_is_meant(tmp_path: Path) -> None:
    path, link = tmp_path / "key", tmp_path / "link"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    link.symlink_to(path)

    assert read_secret_file(link, "this key") == b"secret"
    with pytest.raises(ConfigError, match="this key cannot be read"):
        read_secret_file(link, "this key", follows_links=False)
