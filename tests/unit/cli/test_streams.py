"""What leaves a command: closed pipes, old locales, Ctrl-C, text that would drive a terminal."""

import json
import os
import signal
import subprocess
import sys

import pytest

from kwhere.cli.streams import wants_colour
from kwhere.reports.plain_text import visible

PRINT_MUCH = (
    "import click, sys\nfrom kwhere.cli.exits import run_command\n"
    "@click.command()\ndef much():\n    for n in range(100_000): click.echo(f'line {n}')\n"
    "sys.exit(run_command(much, [], 'kwhere'))"
)
PRINT_LITTLE = PRINT_MUCH.replace("100_000", "1")
PRINT_SIGNS = (
    "import click, sys\nfrom kwhere.cli.exits import run_command\n"
    "@click.command()\ndef signs():\n    click.echo('[▇▇ ] – 2 × é 日')\n    click.echo('日', err=True)\n"
    "sys.exit(run_command(signs, [], 'kwhere'))"
)
SLEEP = (
    "import click, sys, time\nfrom kwhere.cli.exits import run_command\n"
    "@click.command()\ndef sleep():\n    click.echo('begun'); sys.stdout.flush(); time.sleep(60)\n"
    "sys.exit(run_command(sleep, [], 'kwhere'))"
)


@pytest.mark.parametrize("code", [PRINT_MUCH, PRINT_LITTLE], ids=["while printing", "at the end"])
def test_a_pipe_that_is_closed_early_is_no_news(code: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=30)

    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("utf-8", "[▇▇ ] – 2 × é 日\n"),
        ("latin-1", "[## ] - 2 × é ?\n"),
        ("cp1252", "[## ] – 2 × é ?\n"),
    ],
)
def test_an_encoding_without_our_signs_gets_plain_ones(encoding: str, line: str) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}

    done = subprocess.run(
        [sys.executable, "-c", PRINT_SIGNS], capture_output=True, env=environ, check=False, timeout=30
    )

    assert done.returncode == 0
    assert done.stdout.decode(encoding) == line
    assert b"Traceback" not in done.stderr


def test_json_loses_nothing_in_an_old_locale_case_users_40() -> None:
    code = (
        "from kwhere.cli.streams import json_text, prepare_streams\n"
        "prepare_streams()\nprint(json_text({'n': 'aàb 日'}))"
    )
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environ, check=True, timeout=30)

    assert json.loads(done.stdout) == {"n": "aàb 日"}


def test_ctrl_c_ends_a_command_quietly() -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cfd", "cfd"),
        ("aàb 日", "aàb 日"),
        ("a\nb", "a\ufffdb"),
        ("\x1b[31mred", "\ufffd[31mred"),
        ("\u202eabc", "\ufffdabc"),
    ],
)
def test_a_name_cannot_drive_the_terminal(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_colour_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert wants_colour() is False
