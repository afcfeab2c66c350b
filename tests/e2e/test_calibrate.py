"""`kwhere calibrate` against a RAPL counter that follows the real CPU time of its load."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fake_energy import children_of

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Machine:
    """The fake machine and the commands that run on it."""

    root: Path
    fake: "subprocess.Popen[str]"

    def start(self, command: str, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "kwhere", command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {
                "KWHERE_PATH_PROCFS": str(self.root / "proc"),
                "KWHERE_PATH_SYSFS": str(self.root / "sys"),
                "XDG_STATE_HOME": str(self.root / "state"),
                "XDG_CONFIG_HOME": str(self.root / "config"),
                "COLUMNS": "80",
            },
        )
        assert self.fake.stdin is not None
        self.fake.stdin.write(f"{process.pid}\n")
        self.fake.stdin.flush()
        return process


@contextmanager
def machine(root: Path, *arguments: str) -> Iterator[Machine]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fake_energy", str(root), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as fake:
        assert fake.stdout is not None
        assert fake.stdout.readline() == "ready\n"
        yield Machine(root, fake)


@pytest.mark.slow
def test_the_model_is_fitted_and_used(tmp_path: Path) -> None:
    with machine(tmp_path / "m", "--idle", "20", "--slope", "7") as here:
        run = here.start("calibrate", "--seconds", "3", "--json")
        out, err = run.communicate(timeout=180)
        assert run.returncode == 0, err
        found = json.loads(out)
        doctor_out, _ = here.start("doctor", "--json").communicate(timeout=60)

    calibration = found["calibration"]
    assert calibration["idle_watts"] == pytest.approx(20, abs=1.5)
    assert calibration["watts_per_cpu"] == pytest.approx(7, abs=1.0)
    assert (calibration["source"], calibration["scope"], calibration["cpus"]) == ("powercap", "cpu", 2)
    assert [phase["load_percent"] for phase in found["phases"]] == [0, 25, 50, 100]
    assert found["written"] == str(tmp_path / "m" / "state" / "kwhere" / "calibration.json")
    assert json.loads(Path(found["written"]).read_text())["idle_watts"] == calibration["idle_watts"]
    assert "busy CPUs" in err
    model = next(check for check in json.loads(doctor_out)["checks"] if check["name"] == "meter_model")
    assert "calibrated against powercap" in model["why"]


def test_ctrl_c_leaves_no_children_and_no_file(tmp_path: Path) -> None:
    with machine(tmp_path / "m") as here:
        run = here.start("calibrate", "--seconds", "600")
        children = _children_once_there(run)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)

    assert run.returncode == 130
    assert len(children) == len(os.sched_getaffinity(0) & {0, 1})
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert not (tmp_path / "m" / "state" / "kwhere" / "calibration.json").exists()


def test_a_busy_machine_is_told_so(tmp_path: Path) -> None:
    with machine(tmp_path / "m", "--busy", "0.5") as here:
        run = here.start("calibrate", "--seconds", "1")
        _, err = run.communicate(timeout=120)

    assert run.returncode == 1
    assert "the machine is not idle: 0." in err
    assert "--force" in err
    assert not (tmp_path / "m" / "state" / "kwhere" / "calibration.json").exists()


def test_dry_run_touches_nothing(tmp_path: Path) -> None:
    with machine(tmp_path / "m") as here:
        run = here.start("calibrate", "--dry-run", "--seconds", "10")
        out, _ = run.communicate(timeout=60)

    assert run.returncode == 0
    assert "about 0 min 48 s" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())
    assert not (tmp_path / "m" / "state").exists()


def _children_once_there(run: "subprocess.Popen[str]") -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and run.poll() is None:
        children = children_of(run.pid)
        if len(children) == len(os.sched_getaffinity(0) & {0, 1}):
            return children
        time.sleep(0.02)
    raise AssertionError("no children")
