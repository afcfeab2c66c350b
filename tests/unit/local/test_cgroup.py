"""A cgroup of its own for a run: on the real kernel where it may be made, on trees elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwhere.kernel.hostfs import HostFS
from kwhere.local.cgroup import RunCgroup, make_run_cgroup, parse_own_paths

BURN = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


@pytest.mark.service("cgroups")
def test_a_run_is_counted_by_the_kernel_and_leaves_nothing_behind() -> None:
    cgroup = make_run_cgroup(HostFS(), f"test-{os.getpid()}")

    subprocess.run([sys.executable, "-c", BURN], preexec_fn=cgroup.join, check=True)
    cpu_ns, memory, pids = cgroup.cpu_ns(), cgroup.memory_peak_bytes(), cgroup.pids()
    directories = list(cgroup._directories)
    cgroup.remove()

    assert cpu_ns is not None
    assert cpu_ns >= 200_000_000
    assert memory is not None
    assert memory > 1 << 20
    assert pids == frozenset()
    assert directories
    assert not [d for d in directories if d.exists()]


def tree(root: Path, files: dict[str, str]) -> HostFS:
    """Return a host of these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return HostFS(procfs=root / "proc", sysfs=root / "sys", cgroupfs=root / "cgroup")


def test_figures_of_a_v2_cgroup(tmp_path: Path) -> None:
    fs = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/app\n",
            "cgroup/cgroup.controllers": "cpu io memory\n",
            "cgroup/cpu.stat": "usage_usec 1\nuser_usec 1\nsystem_usec 0\n",
            "cgroup/app/cgroup.procs": "",
        },
    )

    cgroup = make_run_cgroup(fs, "7")
    directory = tmp_path / "cgroup/app/kwhere-run-7"
    made = directory.is_dir()
    (directory / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n")
    (directory / "memory.peak").write_text("4096\n")
    (directory / "io.stat").write_text("8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=5 wbytes=0 rios=1\n")
    reopened = RunCgroup(fs, cgroup._made)

    assert made
    assert reopened.cpu_ns() == 1_500_000_000
    assert reopened.memory_peak_bytes() == 4096
    assert reopened.io_bytes() == (15, 20)


def test_no_permission_is_no_cgroup(tmp_path: Path) -> None:
    cgroup = make_run_cgroup(tree(tmp_path, {"proc/self/cgroup": "0::/\n"}), "7")

    assert (cgroup.cpu_ns(), cgroup.memory_peak_bytes(), cgroup.io_bytes()) == (None, None, None)
    cgroup.join()
    cgroup.remove()


def test_own_paths_by_controller() -> None:
    text = "9:cpu,cpuacct:/slurm/job_1\n1:name=systemd:/x\n0::/y:z\n"

    assert parse_own_paths(text) == {"cpu": "/slurm/job_1", "cpuacct": "/slurm/job_1", "name=systemd": "/x", "": "/y:z"}
