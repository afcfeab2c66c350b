"""metrics.md: at most 150 series per node plus GPUs, everything that is no unit's counted; the whole exposition."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.fixtures.hosts.build import HOSTS
from tests.recorded_hosts import open_host, said

from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.collectors import cpu, disk, frequency, load, memory, network, pressure, temperature
from kwhere.collectors.collector import AnyPlugin
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Sample
from kwhere.kernel.hostfs import HostFS

NODE_PLUGINS: tuple[AnyPlugin, ...] = (
    cpu.plugin, disk.plugin, frequency.plugin, load.plugin, memory.plugin, network.plugin,
    pressure.plugin, temperature.plugin,
)  # fmt: skip
BUDGET = 150
BUDGET_OF_A_UNIT = 40
BUDGET_OF_READINGS = 65


def series(fs: HostFS) -> int:
    total = 0
    for plugin in NODE_PLUGINS:
        try:
            total += len(said(plugin, fs))
        except Unavailable:
            continue
    return total


@pytest.mark.parametrize("name", sorted(path.name for path in HOSTS.iterdir() if (path / "proc").is_dir()))
def test_recorded_hosts_keep_the_budget(name: str) -> None:
    assert 20 <= series(open_host(name)) <= BUDGET_OF_READINGS


def test_a_very_large_host_keeps_the_budget(tmp_path: Path) -> None:
    files = {
        "proc/stat": "cpu  1 2 3 4 5 6 7 8 9 10\n" + "".join(f"cpu{n} 1 2 3 4\n" for n in range(512)),
        "proc/loadavg": "1 2 3\n",
        "proc/meminfo": "MemTotal: 8 kB\nHugePages_Total: 1\nHugePages_Free: 1\nHugepagesize: 1 kB\nSwapTotal: 1 kB\n",
        "proc/diskstats": "".join(f"8 {n} nvme{n}n1 1 2 3 4 5 6 7 8 9 10 11\n" for n in range(64)),
        "proc/net/dev": "".join(f"eth{n}: {'1 ' * 16}\n" for n in range(64)),
        "sys/devices/system/cpu/online": "0-511\n",
    }
    for resource in ("cpu", "memory", "io", "irq"):
        files[f"proc/pressure/{resource}"] = "some total=1\nfull total=1\n"
    for n in range(512):
        files[f"sys/devices/system/cpu/cpu{n}/topology/physical_package_id"] = str(n // 128)
        files[f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq"] = "1000000"
        files[f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor"] = "schedutil"
    for n in range(300):
        files[f"sys/class/hwmon/hwmon{n}/name"] = f"chip{n}"
        files[f"sys/class/hwmon/hwmon{n}/temp1_input"] = "40000"
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert 55 <= series(HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup")) <= BUDGET_OF_READINGS


def is_of_gpus(sample: Sample) -> bool:
    """Return whether a series is of one GPU: those come on top of the budget."""
    return "gpu" in sample.spec.labels


def whole_node(host: Path, state: Path) -> int:
    """Return the number of series of `kwhere agent` on this host that belong to no unit; its units keep theirs."""
    paths = {"procfs": host / "proc", "sysfs": host / "sys", "cgroupfs": host / "cgroup"}
    agent = AgentConfig.model_validate({"path": paths, "agent": {"node": "n1", "machine_id": "m1"}})
    samples = [sample for sample in build_agent(agent, state).once(1.0) if not is_of_gpus(sample)]
    of_units = Counter(sample.labels[:3] for sample in samples if sample.spec.labels[:3] == ("manager", "unit", "run"))
    assert of_units
    assert max(of_units.values()) <= BUDGET_OF_A_UNIT
    return len(samples) - of_units.total()


@pytest.mark.parametrize("name", sorted(path.name for path in HOSTS.iterdir() if (path / "proc").is_dir()))
def test_the_whole_exposition_keeps_the_budget(name: str, tmp_path: Path) -> None:
    assert 80 <= whole_node(HOSTS / name, tmp_path) <= BUDGET


def test_two_sockets_with_a_platform_meter_and_many_disks_keep_the_budget(tmp_path: Path) -> None:
    host = tmp_path / "host"
    shutil.copytree(HOSTS / "xeon-2s-dram", host, symlinks=True)
    for moment in ("0", "1"):
        with (host / "proc" / moment / "diskstats").open("a") as disks:
            disks.writelines(f"259 {n} nvme{n}n1 1 2 3 4 5 6 7 8 9 10 11\n" for n in range(24))
        with (host / "proc" / moment / "net" / "dev").open("a") as interfaces:
            interfaces.writelines(f"  ens{n}: {'1 ' * 16}\n" for n in range(8))
        for n in range(10, 40):
            chip = host / "sys" / moment / "class" / "hwmon" / f"hwmon{n}"
            chip.mkdir(parents=True)
            (chip / "name").write_text(f"chip{n}")
            (chip / "temp1_input").write_text("40000")
        chip = host / "sys" / moment / "class" / "hwmon" / "hwmon90"
        chip.mkdir()
        (chip / "name").write_text("power_meter")
        (chip / "power1_average").write_text("600000000")

    assert 130 <= whole_node(host, tmp_path / "state") <= BUDGET
