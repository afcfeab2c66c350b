"""A whole agent on a node with fake GPUs: the real library's binding, the real child process, the real exposition."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import LOST, Scenario, handles_held

pytestmark = pytest.mark.service("cc")


def once(directory: Path, library: Path) -> dict[tuple[str, str], float]:
    """Return the samples of one run by name and the label that tells them apart."""
    config = directory / "agent.yaml"
    config.write_text(f"gpu: {{nvml_library: {library}, start_seconds: 60}}\n")
    command = [sys.executable, "-m", "kwhere", "agent", "--once", "--config.file", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return {
        (
            sample.name,
            sample.labels.get("socket") or sample.labels.get("component") or sample.labels.get("source", ""),
        ): (sample.value)
        for family in text_string_to_metric_families(done.stdout)
        for sample in family.samples
        if "unit" not in sample.labels
    }


def test_the_nodes_gpu_energy_is_that_of_all_devices(tmp_path: Path) -> None:
    library = install_fake_nvml(tmp_path)
    devices = [gpu(A100, 0, watts=250), split(gpu(H100, 1, watts=300), ["3g.40gb", "1g.10gb"])]
    Scenario(devices).write(library)

    seen = once(tmp_path, library)

    first, second = (seen[("kwhere_node_meter_joules_total", device.uuid)] for device in devices)
    assert first > 0
    assert second > 0
    assert seen[("kwhere_node_energy_joules_total", "gpu")] == pytest.approx(first + second, abs=1e-5)
    assert seen[("kwhere_node_idle_watts", devices[0].uuid)] == 50.0  # an eighth of its limit
    assert not handles_held(library)


def test_a_lost_gpu_leaves_the_other_its_energy(tmp_path: Path) -> None:
    library = install_fake_nvml(tmp_path)
    devices = [gpu(A100, 0), gpu(A100, 1, watts=200)]
    devices[0].fail("*", LOST)
    Scenario(devices).write(library)

    seen = once(tmp_path, library)

    assert seen[("kwhere_energy_source_up", "nvml")] == 1
    assert seen[("kwhere_node_energy_joules_total", "gpu")] > 0
    assert ("kwhere_node_meter_joules_total", devices[0].uuid) not in seen


@pytest.mark.slow
def test_one_look_of_tops_own_has_the_gpus(tmp_path: Path) -> None:
    library = install_fake_nvml(tmp_path)
    holder = subprocess.Popen(["sleep", "60"])
    device = gpu(A100, 0, watts=250)
    device.process(holder.pid, 1 << 30)
    Scenario([device]).write(library)
    config = tmp_path / "agent.yaml"
    config.write_text(f"gpu: {{nvml_library: {library}, start_seconds: 60}}\n")
    command = [
        sys.executable,
        "-m",
        "kwhere",
        "top",
        "--own",
        "--once",
        "--interval",
        "1",
        "--config.file",
        str(config),
    ]

    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    holder.kill()
    holder.wait()
    header = next(line for line in done.stdout.splitlines() if "MANAGER" in line)
    assert "GPUs" in header.split()
