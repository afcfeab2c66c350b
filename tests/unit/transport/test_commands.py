"""Child processes, real ones."""

import os
import select
import sys
from pathlib import Path

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.commands import run_command


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_gives_both_outputs_and_its_exit_code() -> None:
    done = run_command(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), timeout_seconds=30
    )

    assert (done.stdout, done.stderr, done.exit_code) == (b"out\n", b"err\n", 3)
    assert done.elapsed_seconds > 0


def test_arguments_meet_no_shell() -> None:
    done = run_command([*python("import sys; print(sys.argv[1])"), "$HOME; *"], timeout_seconds=30)

    assert done.stdout == b"$HOME; *\n"


def test_large_input_goes_in_while_output_comes_out() -> None:
    text = b"x" * 3_000_000

    done = run_command(
        python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"), timeout_seconds=30, input_bytes=text
    )

    assert done.stdout == text


def test_a_command_that_reads_no_input_is_no_failure() -> None:
    done = run_command(python("pass"), timeout_seconds=30, input_bytes=b"x" * 3_000_000)

    assert done.exit_code == 0


def test_the_environment_is_small_and_in_the_c_locale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRET", "s")
    code = "import os; print(os.environ.get('SECRET'), os.environ['LC_ALL'], os.environ['MINE'], os.getcwd())"

    done = run_command(python(code), timeout_seconds=30, environment={"MINE": "m"}, directory=tmp_path)

    assert done.stdout.decode().split() == ["None", "C.UTF-8", "m", str(tmp_path.resolve())]


def ends(pid: int, within_seconds: float) -> bool:
    """A process that was killed ends when it is scheduled next; who reaps it is another matter."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_seconds)[0])
    finally:
        os.close(handle)


def test_a_command_past_its_deadline_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import os, time\n"
        "child = os.fork()\n"
        f"if child: open({str(pid_file)!r}, 'w').write(str(child))\n"
        "while True: time.sleep(1)"
    )

    done = run_command(python(code), timeout_seconds=1.0)

    assert (done.timed_out, done.exit_code) == (True, -9)
    assert ends(int(pid_file.read_text()), within_seconds=20)


@pytest.mark.parametrize("before", ["", "os.close(1); os.close(2); "], ids=["outputs open", "outputs closed"])
def test_what_a_command_wrote_before_it_hung_is_kept(before: str) -> None:
    code = f"import os, time; os.write(1, b'164 Watts'); {before}time.sleep(60)"

    done = run_command(python(code), timeout_seconds=2.0)

    assert (done.stdout, done.timed_out) == (b"164 Watts", True)


def test_too_much_output_is_a_source_error() -> None:
    with pytest.raises(SourceError, match="more than it may"):
        run_command(python("while True: print('x' * 1000)"), timeout_seconds=30, max_output_bytes=100_000)


def test_an_absent_command_is_unavailable() -> None:
    with pytest.raises(Unavailable) as caught:
        run_command(["no-such-command-anywhere"], timeout_seconds=1)

    assert caught.value.reason == "absent"


def test_a_file_that_is_no_program_is_unavailable(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("text")
    with pytest.raises(Unavailable) as caught:
        run_command([str(plain)], timeout_seconds=1)
    assert caught.value.reason == "permission"

    plain.chmod(0o755)
    with pytest.raises(Unavailable) as caught:
        run_command([str(plain)], timeout_seconds=1)
    assert caught.value.reason == "unsupported"


def test_no_descriptor_is_left_open() -> None:
    run_command(python("pass"), timeout_seconds=30)
    before = set(os.listdir("/proc/self/fd"))

    run_command(python("pass"), timeout_seconds=30)

    assert set(os.listdir("/proc/self/fd")) == before
