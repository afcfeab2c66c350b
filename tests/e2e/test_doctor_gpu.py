"""`kwhere doctor --gpu` as an owner of hardware runs it, over fake GPUs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import NAME, install_fake_nvml
from tests.fake_nvml.node import wait_until
from tests.fake_nvml.scenario import LOST, FakeGpu, Scenario, handles_held
from tests.role_process import RoleProcess

pytestmark = pytest.mark.service("cc")


def run(directory: Path, library: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    config = directory / "kwhere.yaml"
    config.write_text(f"gpu: {{nvml_library: {library}, dcgm_exporter_url: ''}}\n")
    state = ["--state", str(directory / "state")]
    command = [sys.executable, "-m", "kwhere", "doctor", *state, "--config.file", str(config), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def rows(directory: Path, library: Path) -> dict[str, dict[str, Any]]:
    """Return the ordinary checks by name."""
    return {check["name"]: check for check in json.loads(run(directory, library, "--json").stdout)["checks"]}


def install(directory: Path, *gpus: FakeGpu) -> Path:
    library = install_fake_nvml(directory)
    Scenario(list(gpus)).write(library)
    return library


def test_every_quantity_of_every_gpu_is_reported(tmp_path: Path) -> None:
    library = install(tmp_path, gpu(A100, 0, watts=250), split(gpu(H100, 1), ["3g.40gb"]))

    done = run(tmp_path, library, "--gpu", "--json")

    (vendor,) = json.loads(done.stdout)["vendors"]
    assert done.returncode == 0, done.stderr
    assert vendor["library"]["driver"] == "550.54.15"
    assert vendor["events"] == {"up": True, "message": ""}
    assert set(vendor["seconds"]) == {"open and first reading", "fast group", "medium group", "slow group"}
    first, second = vendor["devices"]
    assert first["values"]["power_uw"] == 250_000_000
    assert first["missing"]["fan_percent"] == "unsupported"
    assert second["instances"][0]["activity"] == "gpm"
    assert "13210230" not in done.stdout  # the boards' serial numbers
    assert not handles_held(library)


def test_a_lost_gpu_is_exit_code_1(tmp_path: Path) -> None:
    done = run(tmp_path, install(tmp_path, gpu(A100, 0), gpu(A100, 1).fail("*", LOST)), "--gpu")

    assert done.returncode == 1
    assert "  2 GPUs expected, 1 present" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RoleProcess]:
    library = install(tmp_path, gpu(A100, 0), gpu(A100, 1))
    lines = [
        "web: {listen_addresses: ['127.0.0.1:0']}",
        "agent: {node: n1, machine_id: m1}",
        f"gpu: {{nvml_library: {library}, start_seconds: 60, dcgm_exporter_url: ''}}",
    ]
    role = RoleProcess("agent", tmp_path, "\n".join(lines))
    role.url()
    yield role
    role.end()


def test_what_the_agent_gave_back_is_not_opened_and_says_by_whom(tmp_path: Path, agent: RoleProcess) -> None:
    library = tmp_path / NAME
    command = [sys.executable, "-m", "kwhere", "agent", "gpu", "release", "--state", str(tmp_path / "state")]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    wait_until(lambda: not handles_held(library))
    library.write_text("whoever opens this fails")

    row = rows(tmp_path, library)
    report = json.loads(run(tmp_path, library, "--gpu", "--json").stdout)
    text = run(tmp_path, library, "--gpu").stdout

    assert row["gpu_nvidia"]["state"] == row["meter_nvml"]["state"] == "missing"
    assert row["gpu_nvidia"]["found"].startswith("released by command of ")
    assert "taken again by themselves in" in row["gpu_nvidia"]["found"]
    assert report["vendors"][0]["library"]["reason"] == "released"
    assert "GPUs were not opened: released by command since" in " ".join(text.split())


def test_a_gpu_that_was_lost_is_named_as_it_was_known(tmp_path: Path, agent: RoleProcess) -> None:
    library = tmp_path / NAME
    agent.end()
    install(tmp_path, gpu(A100, 0), gpu(A100, 1).fail("*", LOST))

    row = rows(tmp_path, library)["gpu_nvidia_1"]

    assert row["state"] == "failed"
    assert row["found"] == f"{A100.name} {gpu(A100, 1).uuid}: lost"
