"""An agent's process that reads AMD's GPUs in a child and serves them in the names of AMD's exporter too."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.dcgm_process import free_address
from tests.fake_nvml.node import wait_until
from tests.gpu_trees import Tree, accumulator, table
from tests.role_process import RoleProcess

from kwhere.core.errors import Unavailable
from kwhere.transport.http import HttpClient

pytestmark = pytest.mark.slow
GIB = 1 << 30


def gpus(moment: int) -> Tree:
    """Return two MI300X; each moment 300 J further on."""
    tree = Tree()
    for card, bus in enumerate(("05", "15")):
        tree.amd(
            f"0000:{bus}:00.0",
            card,
            0x74A1,
            unique_id=f"{0xA0 + card:016x}",
            mem_info_vram_total=192 * GIB,
            mem_info_vram_used=8 * GIB,
            gpu_busy_percent=73,
            gpu_metrics=table(
                6, watts=300 + card, energy=accumulator(1000 + 300 * moment), clock_ns=10**11 * (10 + moment)
            ),
        )
    return tree


@pytest.fixture
def face(tmp_path: Path) -> str:
    return free_address()


@pytest.fixture
def agent(tmp_path: Path, face: str) -> Iterator[RoleProcess]:
    gpus(0).write(tmp_path)
    lines = [
        "web: {listen_addresses: ['127.0.0.1:0']}",
        "agent: {node: n1, machine_id: m1}",
        f"path: {{sysfs: {tmp_path / 'sys'}}}",
        "gpu: {amdsmi_path: '', start_seconds: 60}",
        f"amd_exporter: {{enabled: true, address: '{face}', prefix: amd_}}",
    ]
    role = RoleProcess("agent", tmp_path, "\n".join(lines))
    yield role
    role.end()


def page(address: str) -> str:
    try:
        with HttpClient(f"http://{address}") as client:
            return client.get("/metrics").text
    except Unavailable:
        return ""


def value(text: str, name: str, gpu: int) -> float:
    found = re.search(rf'^{name}{{[^}}]*gpu_id="{gpu}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else -1.0


def test_both_faces_show_the_gpus_of_the_one_agent(tmp_path: Path, face: str, agent: RoleProcess) -> None:
    own = agent.url()

    wait_until(lambda: value(page(face), "amd_gpu_package_power", 1) == 301)
    gpus(1).write(tmp_path)
    wait_until(lambda: value(page(face), "amd_gpu_energy_consumed", 0) == 1300 * 1_000_000)
    with HttpClient(own) as client:
        native = client.get("/metrics").text

    assert 'amd_gpu_nodes_total{hostname="n1"} 2' in page(face)
    assert 'vendor="amd"' in native
    assert re.search(r'^kwhere_gpu_power_watts{[^}]*uuid="00000000000000a1"[^}]*} 301.0$', native, re.MULTILINE)
    assert 'kwhere_energy_source_up{source="amdgpu"} 1' in native


def test_an_address_that_is_taken_ends_the_start_with_the_settings_name(tmp_path: Path) -> None:
    taken = free_address()
    gpus(0).write(tmp_path)
    role = RoleProcess(
        "agent",
        tmp_path,
        f"web: {{listen_addresses: ['{taken}']}}\npath: {{sysfs: {tmp_path / 'sys'}}}\n"
        f"gpu: {{amdsmi_path: ''}}\namd_exporter: {{enabled: true, address: '{taken}'}}\n",
    )
    try:
        assert "amd_exporter.address" in role.read_until("amd_exporter.address")
        assert role.process.wait(30) == 2
    finally:
        role.end()
