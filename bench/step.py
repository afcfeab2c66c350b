"""CPU milliseconds of one step over real cgroups of this machine; one JSON line each. Root, cgroup v1 or v2.

`step`: read, parse, split and sum 400 units. `step_bare_reads`: nothing but `pread` on the same files. `full_reading`:
everything that is read every 15 s. Directories named `slurm_kwbench` are made for it and removed.
"""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig
from kwhere.kernel.hostfs import READ_SIZE_BYTES, HostFS
from kwhere.sampling.step import Sampler

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio", "pids")


def trees() -> list[Path]:
    """Return the hierarchies in which a unit has a directory."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [ROOT / name for name in CONTROLLERS if (ROOT / name).is_dir()]


@contextmanager
def units(count: int) -> Iterator[str]:
    """Make `count` job directories in every hierarchy; they go at the end."""
    made: list[Path] = []
    sleepers: list[int] = []
    try:
        for tree in trees():
            for path in (tree / "slurm_kwbench", tree / "slurm_kwbench" / "uid_1000"):
                path.mkdir(exist_ok=True)
                made.append(path)
            for number in range(count):
                path = tree / "slurm_kwbench" / "uid_1000" / f"job_{900_000 + number}"
                path.mkdir(exist_ok=True)
                made.append(path)
        for number in range(count):
            sleepers.append(os.posix_spawn("/bin/sleep", ["sleep", "3600"], {}))
            for tree in trees():
                enter(tree / "slurm_kwbench" / "uid_1000" / f"job_{900_000 + number}", sleepers[-1])
        yield "slurm_kwbench/uid_1000"
    finally:
        for pid in sleepers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for path in reversed(made):
            path.rmdir()


def enter(directory: Path, pid: int) -> None:
    """Put a process into a directory; a new cpuset has to be given CPUs first."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        for path in (directory.parent.parent, directory.parent, directory):
            if (path / name).exists() and not (path / name).read_text().strip():
                (path / name).write_text((path.parent / name).read_text())
    (directory / "cgroup.procs").write_text(str(pid))


def cpu_files(place: str, count: int) -> list[str]:
    """Return the file of each unit that every step reads."""
    tree = trees()[0] if len(trees()) == 1 else ROOT / "cpuacct"
    name = "cpu.stat" if len(trees()) == 1 else "cpuacct.usage"
    return [str(tree / place / f"job_{900_000 + number}" / name) for number in range(count)]


def bare_reads(files: list[str], rounds: int) -> float:
    """Return the median of CPU milliseconds of `pread` on all files."""
    descriptors = [os.open(file, os.O_RDONLY) for file in files]
    spent = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        for descriptor in descriptors:
            os.pread(descriptor, READ_SIZE_BYTES, 0)
        spent.append(time.thread_time_ns() - began)
    for descriptor in descriptors:
        os.close(descriptor)
    return median(spent) / 1e6


def kept_reads(host: HostFS, files: list[str], rounds: int) -> float:
    """Return the median of CPU milliseconds of the same reads as the step does them."""
    kept = [host.keep(f"cgroup/{Path(file).relative_to(ROOT)}") for file in files]
    spent = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        for file in kept:
            file.read()
        spent.append(time.thread_time_ns() - began)
    for file in kept:
        file.close()
    return median(spent) / 1e6


def steps(sampler: Sampler, rounds: int, *, full: bool) -> list[float]:
    """Return CPU milliseconds of `rounds` steps, with or without the full reading."""
    spent = []
    for _ in range(rounds):
        sampler._detail_due_ns = 0 if full else sys.maxsize
        time.sleep(0.05)
        began = time.thread_time_ns()
        sampler.step()
        spent.append((time.thread_time_ns() - began) / 1e6)
    return spent


def say(figure: str, milliseconds: float, goal: float | None, **more: object) -> None:
    """Print one figure."""
    print(json.dumps({"figure": figure, "cpu_ms": round(milliseconds, 3), "goal_ms": goal, **more}), flush=True)


def main(count: int = 400, rounds: int = 40) -> None:
    """Measure and print."""
    with units(count) as place:
        config = AgentConfig.model_validate({"units": {"processes": "off"}, "agent": {"slot_seconds": 3600}})
        built = build_agent(config, None)
        sampler = built.agent.sampler
        sampler.step()
        seen = sum(1 for source in sampler.parts.units for _ in source.live())
        steps(sampler, 5, full=False)
        gc.collect()
        floor = bare_reads(cpu_files(place, count), rounds)
        reads = kept_reads(built.host, cpu_files(place, count), rounds)
        stepped = steps(sampler, rounds, full=False)
        say("step_bare_reads", floor, None, units=count)
        say("step_reads", reads, round(1.5 * floor, 3), units=count, of_bare=round(reads / floor, 2))
        say(
            "step",
            median(stepped),
            8,
            units=seen,
            worst_ms=round(max(stepped), 3),
        )
        reading = steps(sampler, 10, full=True)
        say("full_reading", median(reading), 40, units=seen, worst_ms=round(max(reading), 3))
        for close in built.agent.close:
            close()


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
