"""`kwhere doctor` and `kwhere top` beside a running agent."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.terminal import state_of

KWHERE = [sys.executable, "-m", "kwhere"]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Return the state directory of an agent that runs until the test ends."""
    directory = tmp_path / "state"
    command = ["agent", "--state", str(directory), "--web.listen-address", "127.0.0.1:0", "--interval", "0.5"]
    agent = subprocess.Popen(
        [*KWHERE, *command, "--slot", "1"], stderr=subprocess.PIPE, text=True, env=state_of(tmp_path)
    )
    try:
        assert agent.stderr is not None
        address = ""
        while not address:
            assert agent.poll() is None
            line = agent.stderr.readline()
            if "agent answers" in line:
                address = json.loads(line)["urls"][0].removeprefix("http://").strip("/")
        (tmp_path / "targets.json").write_text(json.dumps([{"targets": [address]}]))
        yield directory
    finally:
        agent.terminate()
        agent.communicate(timeout=10)


def kwhere(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what the command says of this state directory."""
    command = [*KWHERE, *arguments, "--state", str(state)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=state_of(state.parent))


def checks_of(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return the checks by name."""
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_top_asks_the_agent_that_runs(state: Path) -> None:
    done = kwhere(state, "top", "--once", "--interval", "1")

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "  agent, energy of " in lines[0]
    watts = {line.split()[-1]: line.split()[0] for line in lines[3:]}
    assert {"system", "unallocated"} <= watts.keys()


def test_doctor_beside_the_agent(state: Path) -> None:
    beside = checks_of(kwhere(state, "doctor", "--json"))
    target = checks_of(kwhere(state, "doctor", "--json", "--targets", str(state.parent / "targets.json")))
    nobody = kwhere(state, "doctor", "--unit", "nosuch")
    sections = [section for section, _ in groupby(beside.values(), key=lambda check: check["section"])]

    assert len(sections) == len(set(sections))  # each heading stands once
    assert beside["agent"]["state"] == "ok"
    assert beside["ledger_token"]["state"] == "ok"
    assert beside["journal"]["state"] == "ok"
    assert [check["state"] for check in target.values()] == ["ok"]
    assert nobody.returncode == 1
    assert "none in the journal" in nobody.stdout
