"""`kwhere run` beside an agent that reads a meter: the command gets its share of the meter's joules."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

KWHERE = [sys.executable, "-m", "kwhere"]
BURN = "import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass"
POWER_W = 60


@pytest.fixture
def sysfs(tmp_path: Path) -> Iterator[Path]:
    """Return a sysfs with one RAPL package whose counter runs at 60 W, as a kernel's would."""
    root = tmp_path / "sys"
    zone = root / "class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("262143328850\n")
    (zone / "energy_uj").write_text("1000000\n")
    (root / "devices").symlink_to("/sys/devices")
    over = threading.Event()

    def run_on() -> None:
        energy_uj = 1_000_000
        while not over.wait(0.05):
            energy_uj += POWER_W * 50_000
            fresh = zone / ".energy_uj"
            fresh.write_text(f"{energy_uj}\n")
            with (zone / "energy_uj").open("r+") as stream:  # the same file: the agent keeps it open
                stream.write(f"{energy_uj}\n")

    thread = threading.Thread(target=run_on)
    thread.start()
    yield root
    over.set()
    thread.join()


@pytest.mark.service("cgroups")
def test_a_run_gets_its_share_of_the_agents_meter(tmp_path: Path, sysfs: Path) -> None:
    state = tmp_path / "state"
    command = ["agent", "--state", str(state), "--path.sysfs", str(sysfs), "--interval", "0.5"]
    agent = subprocess.Popen(
        [*KWHERE, *command, "--web.listen-address", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert agent.stderr is not None
        while "agent answers" not in agent.stderr.readline():
            assert agent.poll() is None
        done = subprocess.run(
            [*KWHERE, "run", "--json", "--state", str(state), "--", sys.executable, "-c", BURN],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "KWHERE_CONFIG_FILE": os.devnull},
        )
    finally:
        agent.terminate()
        agent.communicate(timeout=10)
    report = json.loads(done.stdout.splitlines()[-1])

    assert report["method"] == "counter"
    dynamic = report["energy_joules"]["cpu"]["dynamic"]
    # The node drew 60 W for the run's wall time; the run cannot have had more, and did most of what there was.
    assert 0 < dynamic <= POWER_W * (report["wall_seconds"] + 1.5)


def test_no_agent_is_no_trouble(tmp_path: Path) -> None:
    done = subprocess.run(
        [*KWHERE, "run", "--json", "--state", str(tmp_path / "none"), "--", "true"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout.splitlines()[-1])["method"] is not None
