"""A whole agent on a node with fake GPUs: the real library's binding, the real child process, the real exposition."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fake_nvml.gpus import A100, H100, gpu, split
from tests.fake_nvml.library import install_fake_nvml
from tests.fake_nvml.scenario import LOST, Scenario, handles_held

from kwhere.kernel.cgroups import detect_layout
from kwhere.kernel.hostfs import HostFS

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


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[str]:
    """A machine of libvirt without systemd: its cgroup with a busy process in it, and its XML; yields its UUID."""
    uuid, name = "11111111-2222-3333-4444-000000000409", "instance-00000409"
    hierarchy = detect_layout(HostFS()).cpu[0]
    top = HostFS().path(hierarchy.directory("/machine"))
    inner = top / f"qemu-409-{name}.libvirt-qemu"
    made = [path for path in (top, inner) if not path.exists()]
    for path in made:
        path.mkdir()
    busy = subprocess.Popen(["sh", "-c", f"echo $$ > {inner}/cgroup.procs; while :; do :; done"])
    (tmp_path / "xml").mkdir()
    (tmp_path / "xml" / f"{name}.xml").write_text(
        f"<domain type='qemu' id='409'><name>{name}</name><uuid>{uuid}</uuid><vcpu>2</vcpu></domain>"
    )
    yield uuid
    busy.kill()
    busy.wait()
    for path in reversed(made):
        for _ in range(100):
            with suppress(OSError):
                path.rmdir()
                break
            time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.service("cgroups")
@pytest.mark.parametrize("code", [9, 18, 999])
def test_a_library_that_fails_takes_nothing_from_machines__case_ceems_409(
    tmp_path: Path, machine: str, code: int
) -> None:
    library = install_fake_nvml(tmp_path)
    scenario = Scenario([gpu(A100, 0)])
    scenario.system["ret.Init"] = code
    scenario.write(library)
    config = tmp_path / "agent.yaml"
    config.write_text(f"gpu: {{nvml_library: {library}}}\nunits: {{libvirt_xml_dirs: [{tmp_path}/xml]}}\n")

    done = subprocess.run(
        [sys.executable, "-m", "kwhere", "agent", "--once", "--config.file", str(config)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    samples = [s for family in text_string_to_metric_families(done.stdout) for s in family.samples]
    ours = {s.name: s.value for s in samples if s.labels.get("unit") == machine and s.labels.get("mode") != "system"}
    assert ours["kwhere_unit_cpu_seconds_total"] > 0
    assert ours["kwhere_unit_cpus"] == 2
    assert [s.value for s in samples if s.labels.get("source") == "nvml" and s.name == "kwhere_energy_source_up"] == [0]
    assert not [s for s in samples if s.labels.get("component") == "gpu"]


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
