"""A process tree of roles: restarted when killed, ended together."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from kwhere.core.errors import ConfigError, JournalError
from kwhere.local.supervisor import Supervisor

out = Path(sys.argv[1])

def steady():
    with (out / "steady").open("a") as stream:
        stream.write(f"{os.getpid()}\\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        time.sleep(60)

def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (out / "stubborn").write_text(str(os.getpid()))
    while True:
        time.sleep(60)

def ends():
    return 2

def misconfigured():
    raise ConfigError("site.zone: expected a country, found 'XX'")

def failing():
    with (out / "failing").open("a") as stream:
        stream.write(f"{os.getpid()}\\n")
    raise JournalError("full", "journal.sqlite: the disk is full")

roles = {
    "steady": steady, "stubborn": stubborn, "ends": ends, "misconfigured": misconfigured, "failing": failing,
}
import kwhere.local.supervisor as module
module.GRACE_SECONDS = 0.3
module.BACK_OFF_SECONDS = (0.0, 0.0, 0.0)
sys.exit(Supervisor({name: roles[name] for name in sys.argv[2:]}).run())
"""


def start(out: Path, *roles: str) -> subprocess.Popen[str]:
    """Start a supervisor of `roles`."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(out), *roles]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_lines(path: Path, count: int) -> list[int]:
    """Return the pids in `path` once there are `count`."""
    done = subprocess.run(
        [
            "timeout",
            "20",
            "sh",
            "-c",
            f"until [ $(wc -l <{path} 2>/dev/null || echo 0) -ge {count} ]; do sleep .02; done",
        ],
        check=False,
    )
    assert done.returncode == 0
    return [int(line) for line in path.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_with_code_0(tmp_path: Path, number: signal.Signals) -> None:
    parent = start(tmp_path, "steady")
    (child,) = wait_for_lines(tmp_path / "steady", 1)

    parent.send_signal(number)

    assert parent.wait(10) == 0, parent.stdout
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    parent.communicate()


def test_a_killed_role_comes_back(tmp_path: Path) -> None:
    parent = start(tmp_path, "steady")
    for count in (1, 2):
        os.kill(wait_for_lines(tmp_path / "steady", count)[-1], signal.SIGKILL)

    pids = wait_for_lines(tmp_path / "steady", 3)
    parent.terminate()

    assert parent.wait(10) == 0
    assert len(set(pids)) == 3
    assert "starting it again" in parent.communicate()[0]


def test_a_role_that_ends_on_purpose_ends_all(tmp_path: Path) -> None:
    parent = start(tmp_path, "steady", "ends")

    assert parent.wait(10) == 2
    parent.communicate()


def test_a_role_that_does_not_end_is_killed(tmp_path: Path) -> None:
    parent = start(tmp_path, "stubborn")
    subprocess.run(["timeout", "20", "sh", "-c", f"until [ -s {tmp_path}/stubborn ]; do sleep .02; done"], check=True)

    parent.terminate()

    assert parent.wait(10) == 0
    assert "killed" in parent.communicate()[0]


def test_roles_end_with_a_killed_parent(tmp_path: Path) -> None:
    parent = start(tmp_path, "steady")
    (child,) = wait_for_lines(tmp_path / "steady", 1)

    parent.kill()
    parent.communicate()

    gone = subprocess.run(["timeout", "10", "sh", "-c", f"while kill -0 {child}; do sleep .02; done"], check=False)
    assert gone.returncode == 0


def test_a_wrong_setting_ends_all_with_one_sentence(tmp_path: Path) -> None:
    parent = start(tmp_path, "steady", "misconfigured")

    assert parent.wait(10) == 2
    assert parent.communicate()[0] == "kwhere: site.zone: expected a country, found 'XX'\n"


def test_a_role_that_fails_again_and_again_says_so_a_few_times(tmp_path: Path) -> None:
    parent = start(tmp_path, "failing")

    wait_for_lines(tmp_path / "failing", 8)
    parent.terminate()

    assert parent.wait(10) == 0
    told = parent.communicate()[0]
    assert "Traceback" not in told
    assert told.count("the disk is full") == told.count("starting it again") == 3
