"""metrics.md: at most 150 series per node plus GPUs; the energy series need about 55 of them."""

from pathlib import Path

import pytest
from tests.fixtures.hosts.build import HOSTS
from tests.recorded_hosts import open_host, said

from kwhere.collectors import cpu, disk, frequency, load, memory, network, pressure, temperature
from kwhere.collectors.collector import AnyPlugin
from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS

NODE_PLUGINS: tuple[AnyPlugin, ...] = (
    cpu.plugin, disk.plugin, frequency.plugin, load.plugin, memory.plugin, network.plugin,
    pressure.plugin, temperature.plugin,
)  # fmt: skip
BUDGET = 95


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
    assert 20 <= series(open_host(name)) <= BUDGET


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

    assert 80 <= series(HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup")) <= BUDGET
