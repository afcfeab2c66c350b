"""`kwhere database`: check, upgrade, back up, restore, on a real file."""

from pathlib import Path

import pytest

from kwhere.cli.main import run_root


def test_the_drill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for state in (first, second):
        state.mkdir()
    copy = tmp_path / "copy"

    before = run_root(["database", "check", "--state", str(first)])
    codes = [
        run_root(["database", "upgrade", "--state", str(first)]),
        run_root(["database", "check", "--state", str(first)]),
        run_root(["database", "backup", str(copy), "--state", str(first)]),
        run_root(["database", "restore", str(copy), "--state", str(second)]),
        run_root(["database", "check", "--state", str(second)]),
    ]
    out = capsys.readouterr().out

    assert before == 1
    assert codes == [0, 0, 0, 0, 0]
    assert "revision none" in out
    assert "restored" in out
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_backup_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"not a backup")

    assert run_root(["database", "restore", str(garbage), "--state", str(tmp_path)]) == 1
    assert "garbage" in capsys.readouterr().err
