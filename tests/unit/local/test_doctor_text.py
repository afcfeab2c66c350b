"""What a person reads: 80 columns, commands that can be pasted, colour only where it is wanted."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.local.doctor import Check, CheckState, Remedy, ok
from kwhere.local.doctor_remedies import kernel_argument, load_module, open_powercap
from kwhere.local.doctor_text import report, shell_words, summary, wrap_command

CLOSED = Check(
    "meter_powercap",
    CheckState.FAILED,
    "readable by root only",
    "A long story about why this is so, longer than a line of eighty columns could ever hold at once.",
    open_powercap("/sys/class/powercap", "alice"),
    "Energy",
)
WORDS = st.lists(
    st.sampled_from(["a", "--long-option=value", "&&", "|", "'two words'", '"$x y"', "z" * 30]), min_size=1
)


def test_lines_are_80_columns_at_most_but_for_words_that_cannot_be_broken() -> None:
    lines = report([CLOSED, ok("a", "b")], 80)

    too_long = [line for line in lines if len(line) > 80]
    assert all("SUBSYSTEM" in line for line in too_long)
    assert lines[0] == "Energy"
    assert lines[1] == "  failed   meter powercap  readable by root only"


def test_sections_stand_apart() -> None:
    first = Check("a", CheckState.OK, "x", section="One")
    second = Check("b", CheckState.OK, "y", section="Two")

    assert report([first, second], 80)[:4] == ["One", "  ok       a  x", "", "Two"]


def test_no_colour_unless_asked() -> None:
    assert "\033" not in "\n".join(report([CLOSED], 80))
    assert "\033[1;31m" in "\n".join(report([CLOSED], 80, colour=True))


def test_no_name_that_doctor_found_drives_the_terminal_case_users_40() -> None:
    evil = "\x1b[2J\u202e\x9b1m"

    lines = report([Check(evil, CheckState.OK, f"pid 4: {evil}", f"because {evil}")], 80)

    assert all(line.isprintable() for line in lines)


def test_the_last_line_counts() -> None:
    assert summary([ok("a", "")]) == "Nothing to fix: 1 ok, 0 not here."
    assert summary([CLOSED, ok("a", "")]).startswith("1 to look at: 1 failed, 0 with a warning; 1 ok")


@given(WORDS, st.integers(20, 100))
def test_a_wrapped_command_is_the_same_command(words: list[str], width: int) -> None:
    command = " ".join(words)

    wrapped = "\n".join(wrap_command(command, width))

    unfolded = wrapped.replace("\\\n", " ")
    assert shlex.split(unfolded) == shlex.split(command)
    assert all(line.endswith(("&&", "|", "\\")) for line in wrapped.split("\n")[:-1])


@pytest.mark.parametrize(
    "remedy",
    [*open_powercap("/sys", "o'neil"), *load_module("x"), kernel_argument("psi=1", lambda _: False)],
    ids=lambda remedy: remedy.title,
)
def test_every_command_is_one_that_a_shell_reads(remedy: Remedy) -> None:
    for command in filter(None, (remedy.command, remedy.undo)):
        for text in (command, "\n".join(wrap_command(command, 70))):
            done = subprocess.run(["sh", "-n", "-c", text], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_quotes_hold_words_together() -> None:
    assert shell_words("""echo 'a b' "c 'd" e""") == ["echo", "'a b'", '"c \'d"', "e"]
