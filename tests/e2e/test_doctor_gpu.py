"""`kwhere doctor --gpu` as an owner of hardware runs it, over fake GPUs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import LOST, FakeGpu, Scenario, handles_held

pytestmark = pytest.mark.service("cc")


def run(directory: Path, library: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    config = directory / "kwhere.yaml"
    config.write_text(f"gpu: {{nvml_library: {library}, dcgm_exporter_url: ''}}\n")
    command = [sys.executable, "-m", "kwhere", "doctor", "--gpu", "--config.file", str(config), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def install(directory: Path, *gpus: FakeGpu) -> Path:
    library = install_fake_nvml(directory)
    Scenario(list(gpus)).write(library)
    return library


def test_every_quantity_of_every_gpu_is_reported(tmp_path: Path) -> None:
    library = install(tmp_path, gpu(A100, 0, watts=250), split(gpu(H100, 1), ["3g.40gb"]))

    done = run(tmp_path, library, "--json")

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
    done = run(tmp_path, install(tmp_path, gpu(A100, 0), gpu(A100, 1).fail("*", LOST)))

    assert done.returncode == 1
    assert "  2 GPUs expected, 1 present" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
