"""`kwhere top` in a real terminal and out of one, measuring by itself."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.terminal import Terminal, state_of

SCREEN, NO_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
CURSOR = "\x1b[?25h"
LIVE = ("top", "--own", "--interval", "0.2")


def left_as_it_was(terminal: Terminal) -> bool:
    """Return whether modes, screen and cursor are as before."""
    output = terminal.output
    return (
        terminal.modes() == terminal.before
        and output.rfind(NO_SCREEN) > output.rfind(SCREEN) >= 0
        and output.rfind(CURSOR) > output.rfind("\x1b[?25l")
    )


def test_keys_in_a_terminal(tmp_path: Path) -> None:
    with Terminal(LIVE, environment=state_of(tmp_path)) as terminal:
        terminal.wait_for("q quit")
        terminal.wait_for("NAME")
        terminal.wait_for("reverse the order", terminal.type("?"))
        terminal.wait_for("filter: nosuchunit▏", terminal.type("?/nosuchunit"))
        terminal.wait_for("No unit matches the filter.", terminal.type("\r"))
        terminal.wait_for("since each began", terminal.type("\x1bt"))
        terminal.type("q")

        assert terminal.wait() == 0
        assert left_as_it_was(terminal)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("end", "code"), [("\x03", 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)], ids=["ctrl-c", "SIGTERM", "SIGHUP"]
)
def test_the_terminal_is_left_as_it_was(tmp_path: Path, end: str | signal.Signals, code: int) -> None:
    with Terminal(LIVE, environment=state_of(tmp_path)) as terminal:
        terminal.wait_for("q quit")
        if isinstance(end, str):
            terminal.type(end)
        else:
            terminal.send(end)

        assert terminal.wait() == code
        assert left_as_it_was(terminal)
        assert "Traceback" not in terminal.output


def test_a_new_size_and_ctrl_z(tmp_path: Path) -> None:
    with Terminal(LIVE, environment=state_of(tmp_path)) as terminal:
        terminal.wait_for("m memory")
        narrow = terminal.resize(12, 40)
        terminal.wait_for("q quit  ? help  p power  e energy", narrow)
        terminal.type("\x1a")
        terminal.wait_until_stopped()
        stopped_as_it_was = left_as_it_was(terminal)
        position = len(terminal.output)
        terminal.send(signal.SIGCONT)
        terminal.wait_for(SCREEN, position)
        terminal.type("q")

        assert stopped_as_it_was
        assert terminal.wait() == 0
        assert left_as_it_was(terminal)


def test_so_many_refreshes(tmp_path: Path) -> None:
    with Terminal((*LIVE, "-n", "2"), environment=state_of(tmp_path)) as terminal:
        assert terminal.wait() == 0
        assert left_as_it_was(terminal)


def test_without_a_terminal_one_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kwhere", *LIVE], capture_output=True, text=True, check=False, env=state_of(tmp_path)
    )

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("kwhere top  ")
    assert "NAME" in lines[2]
    assert lines[-1].endswith("unallocated")
    assert "\x1b" not in done.stdout
    assert not any(line.endswith(" ") for line in lines)
    assert max(map(len, lines)) <= 120
    assert done.stderr == ""


def test_no_color_in_a_terminal(tmp_path: Path) -> None:
    environment = {**state_of(tmp_path), "NO_COLOR": "1"}
    with Terminal((*LIVE, "--once"), environment=environment) as terminal:
        assert terminal.wait() == 0
        assert "\x1b[3" not in terminal.output


def test_a_terminal_that_can_do_nothing_gets_one_table(tmp_path: Path) -> None:
    with Terminal(LIVE, environment={**state_of(tmp_path), "TERM": "dumb"}) as terminal:
        assert terminal.wait() == 0
        assert SCREEN not in terminal.output
        assert "unallocated" in terminal.output


def test_a_wrong_interval_is_a_usage_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kwhere", "top", "--interval", "0"],
        capture_output=True,
        text=True,
        check=False,
        env=state_of(tmp_path),
    )

    assert done.returncode == 2
    assert "--interval" in done.stderr
