"""The real thing: cgroups of this kernel, short processes, events. Skipped where none may be made."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kwhere.core.clock import SystemClock
from kwhere.core.errors import NoData, Unavailable
from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.settings import ProcessMode, UnitsSettings
from kwhere.discovery.unit_source import StepReading, TrackedUnit
from kwhere.kernel.cgroups import CgroupVersion, Hierarchy, detect_layout
from kwhere.kernel.hostfs import HostFS

pytestmark = pytest.mark.service("cgroups")

BURN = "for ((i = 0; i < 40000; i++)); do :; done"
ID = f"{os.getpid()}"


@dataclass
class RealTree:
    """Cgroups made by a test, removed again whatever happens."""

    host: HostFS
    hierarchy: Hierarchy
    made: list[Path] = field(default_factory=list)

    def make(self, path: str) -> Path:
        directory = self.host.path(self.hierarchy.directory(path))
        for above in (*reversed(directory.parents), directory):
            with contextlib.suppress(FileExistsError):
                above.mkdir()
                self.made.append(above)
        return directory

    def run(self, directory: Path, command: str = BURN) -> None:
        """Run a shell command in the cgroup, to its end."""
        subprocess.run(["bash", "-c", f"echo $$ > {directory}/cgroup.procs && {command}"], check=True)

    def remove(self, directory: Path) -> None:
        directory.rmdir()
        self.made.remove(directory)

    def clean(self) -> None:
        for directory in reversed(self.made):
            with contextlib.suppress(OSError):  # gone already, or another test's directory lies in /docker
                directory.rmdir()


@pytest.fixture(params=["v1", "v2"])
def tree(request: pytest.FixtureRequest) -> Iterator[RealTree]:
    host = HostFS()
    try:
        layout = detect_layout(host, CgroupVersion(request.param))
        made = RealTree(host, layout.cpu[0])
        made.make(f"/kwhere-run-probe-{ID}")
    except (Unavailable, OSError) as error:
        pytest.skip(f"needs the service cgroups ({request.param}): {error}")
    made.clean()
    made.made.clear()
    yield made
    made.clean()


@pytest.fixture
def source(tree: RealTree) -> Iterator[CgroupUnits]:
    layout = detect_layout(tree.host, CgroupVersion.V2 if tree.hierarchy.is_v2 else CgroupVersion.V1)
    source = CgroupUnits(tree.host, layout, UnitsSettings(), SystemClock())
    yield source
    source.close()


@pytest.fixture
def step(source: CgroupUnits) -> Callable[[], StepReading]:
    return lambda: source.step(SystemClock().boottime_ns())


def _container(number: int) -> str:
    """Return a container id that is this test's own: others may use the machine too."""
    return f"{os.getpid():060x}{number:04x}"


def _of(tracked: Iterable[TrackedUnit], unit: str) -> list[TrackedUnit]:
    return [found for found in tracked if found.key.unit == unit]


def test_a_run_is_found_by_its_event_and_read(tree: RealTree, step: Callable[[], StepReading]) -> None:
    step()
    directory = tree.make(f"/kwhere-run-{ID}-1")
    tree.run(directory)

    reading = step()

    (tracked,) = [t for t in reading.started if t.key.unit == f"{ID}-1"]
    assert tracked.from_creation
    assert tracked.key.manager == "run"
    assert tracked.inode == directory.stat().st_ino
    usage = int((directory / "cpuacct.usage").read_text()) if not tree.hierarchy.is_v2 else None
    assert reading.cpu[tracked.key].total_ns > 10_000_000
    assert usage is None or reading.cpu[tracked.key].total_ns == usage


def test_a_unit_of_a_moment_is_told_and_its_time_stays_in_the_parent(
    tree: RealTree, step: Callable[[], StepReading]
) -> None:
    parent = tree.make(f"/slurm_{ID}")
    step()
    before = {p.cgroup: p.reading.total_ns for p in step().parents}[f"/slurm_{ID}"]
    job = tree.make(f"/slurm_{ID}/uid_1/job_9")
    tree.run(job)
    tree.remove(job)
    tree.remove(job.parent)

    reading = step()

    after = {p.cgroup: p.reading.total_ns for p in reading.parents}[f"/{parent.name}"]
    assert after - before > 10_000_000
    # The directory uid_1 came and went with the job in it, unseen; a job right below a watched one is seen.
    direct = tree.make(f"/slurm_{ID}/job_10")
    tree.remove(direct)
    reading = step()
    (started,) = [t for t in reading.started if t.parent_cgroup == f"/slurm_{ID}"]
    assert started.key.unit == "10"
    assert [ended.key for ended in reading.ended] == [started.key]
    assert (reading.ended[0].ended_ns or 0) >= started.first_seen_ns


def test_thousand_short_processes_cost_what_the_kernel_says(tree: RealTree, step: Callable[[], StepReading]) -> None:
    step()
    directory = tree.make(f"/test-{ID}/docker/{_container(1)}")
    (started,) = _of(step().started, _container(1))
    tree.run(directory, "for ((n = 0; n < 300; n++)); do (:); done")

    reading = step()

    file = "cpu.stat" if tree.hierarchy.is_v2 else "cpuacct.usage"
    words = (directory / file).read_text().split()
    kernel_ns = int(words[1]) * 1000 if tree.hierarchy.is_v2 else int(words[0])
    assert reading.cpu[started.key].total_ns == kernel_ns
    assert kernel_ns > 0


def test_a_removed_cgroup_ends_its_unit(tree: RealTree, source: CgroupUnits, step: Callable[[], StepReading]) -> None:
    directory = tree.make(f"/test-{ID}/docker/{_container(2)}")
    tree.run(directory)
    step()  # it stood empty before we came: no unit
    assert _of(source.live().values(), _container(2)) == []
    other = tree.make(f"/test-{ID}/docker/{_container(3)}")
    (tracked,) = _of(step().started, _container(3))
    source.detail(tracked.key)
    tree.remove(other)

    with pytest.raises(NoData):
        source.detail(tracked.key)
    reading = step()

    assert _of(reading.ended, _container(3))
    assert tracked.key not in reading.cpu


def test_case_ceems_380_a_real_empty_cgroup_is_no_unit_until_somebody_lives_in_it(
    tree: RealTree, step: Callable[[], StepReading]
) -> None:
    directory = tree.make(f"/test-{ID}/docker/{_container(4)}/deeper")
    assert _of(step().started, _container(4)) == []

    with subprocess.Popen(
        ["bash", "-c", f"echo $$ > {directory}/cgroup.procs && echo in && sleep 60"], stdout=subprocess.PIPE
    ) as p:
        assert p.stdout is not None
        p.stdout.readline()
        (started,) = _of(step().started, _container(4))
        # the sleeper is a child of the shell: end both before the directory
        for pid in (directory / "cgroup.procs").read_text().split():
            os.kill(int(pid), 9)

    assert not started.from_creation


def test_processes_in_a_run_are_not_counted_twice(tree: RealTree) -> None:
    clock = SystemClock()
    version = CgroupVersion.V2 if tree.hierarchy.is_v2 else CgroupVersion.V1
    sources = open_unit_sources(tree.host, UnitsSettings(processes=ProcessMode.ON), clock, cgroups_version=version)
    directory = tree.make(f"/kwhere-run-{ID}-2")
    for source in sources:
        source.step(clock.boottime_ns())
    command = f"exec bash -c 'echo $$ > {directory}/cgroup.procs; echo in; read; {BURN}; echo done; read'"

    with subprocess.Popen(["bash", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        for source in sources:
            source.step(clock.boottime_ns())
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        cgroups, _ = (source.step(clock.boottime_ns()) for source in sources)
        child.stdin.write(b"\n")
        child.stdin.flush()

    run = next(found for key, found in cgroups.cpu.items() if key.unit == f"{ID}-2")
    assert run.total_ns > 10_000_000
    table = sources[1]._table  # type: ignore[attr-defined]
    assert any(process.pid == child.pid and process.is_foreign for process in table)
    for source in sources:
        source.close()


def test_no_descriptor_is_left(tree: RealTree) -> None:
    clock = SystemClock()
    sources = open_unit_sources(tree.host, UnitsSettings(), clock)
    for number in range(20):
        tree.make(f"/kwhere-run-{ID}-many-{number}")
    for source in sources:
        source.step(clock.boottime_ns())

    for source in sources:
        for key in source.live():
            with contextlib.suppress(NoData):
                source.detail(key)
        source.close()

    assert tree.host.kept_files == 0
