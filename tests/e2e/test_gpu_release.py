"""`kwhere agent gpu` against a real agent: whoever divides or resets a GPU finds no handle on it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fake_nvml.gpus import A100, gpu
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.node import wait_until
from tests.fake_nvml.scenario import Scenario, handles_held
from tests.role_process import RoleProcess

pytestmark = pytest.mark.service("cc")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    made = install_fake_nvml(tmp_path)
    Scenario([gpu(A100, 0), gpu(A100, 1)]).write(made)
    return made


@pytest.fixture
def agent(tmp_path: Path, library: Path) -> Iterator[RoleProcess]:
    lines = [
        "web: {listen_addresses: ['127.0.0.1:0']}",
        "agent: {node: n1, machine_id: m1}",
        f"gpu: {{nvml_library: {library}, start_seconds: 60, release_file: {tmp_path / 'release'}}}",
    ]
    role = RoleProcess("agent", tmp_path, "\n".join(lines))
    role.url()
    yield role
    role.end()


def ask(directory: Path, order: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kwhere", "agent", "gpu", order, "--state", str(directory / "state"), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def state(directory: Path) -> dict[str, Any]:
    found = json.loads(ask(directory, "status", "--json").stdout)
    assert isinstance(found, dict)
    return found


def test_handles_are_given_back_and_taken_again(tmp_path: Path, library: Path, agent: RoleProcess) -> None:
    wait_until(lambda: handles_held(library))

    released = ask(tmp_path, "release")

    assert released.returncode == 0, released.stderr
    assert not handles_held(library)
    assert "released by command" in released.stdout
    assert state(tmp_path)["vendors"][0]["reason"] == "released"

    acquired = ask(tmp_path, "acquire")

    assert acquired.returncode == 0
    wait_until(lambda: handles_held(library))
    wait_until(lambda: state(tmp_path)["vendors"][0]["gpus_up"] == 2)


def test_a_file_asks_while_it_is_there(tmp_path: Path, library: Path, agent: RoleProcess) -> None:
    wait_until(lambda: handles_held(library))

    (tmp_path / "release").write_text("nvidia.com/gpu.deploy.dcgm-exporter=paused-for-mig-change\n")
    wait_until(lambda: not handles_held(library))
    (tmp_path / "release").unlink()

    wait_until(lambda: handles_held(library))


def test_without_an_agent_there_is_nobody_to_ask(tmp_path: Path) -> None:
    asked = ask(tmp_path, "release")

    assert asked.returncode == 1
    assert "agent.sock" in asked.stderr
