import os
import stat
from pathlib import Path

import pytest

from kwhere.agent.ledger_token import FILE_NAME, ensure_token, read_token
from kwhere.core.errors import ConfigError


def test_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"

    token = ensure_token(state)

    assert len(token) >= 40
    assert ensure_token(state) == token
    assert stat.S_IMODE((state / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_tokens_of_two_states_differ(tmp_path: Path) -> None:
    assert ensure_token(tmp_path / "a") != ensure_token(tmp_path / "b")


def test_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    ensure_token(tmp_path)
    (tmp_path / FILE_NAME).chmod(0o640)

    with pytest.raises(ConfigError, match="others may read this token \\(mode 0640\\); expected 0600"):
        ensure_token(tmp_path)


@pytest.mark.parametrize("content", [b"", b"short\n", b"with a space in the middle\n", b"\xff" * 30, b"\0" * 30])
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.touch(0o600)
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="at least 16 printable characters"):
        read_token(path)


def test_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch(0o600)
    target.write_text("a-token-of-somebody-else\n")
    os.symlink(target, tmp_path / FILE_NAME)

    with pytest.raises(ConfigError, match="cannot be read"):
        ensure_token(tmp_path)


def test_state_that_cannot_be_made_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="no token can be kept there"):
        ensure_token(tmp_path / "file" / "state")
