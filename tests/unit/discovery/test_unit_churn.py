"""Whatever comes and goes between two steps: every directory is one run, begun once and ended once."""

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.core.unit import UnitKey
from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.settings import UnitsSettings

POD = "/kubepods/pod8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6"
PATHS = (
    [f"/slurmstepd.scope/job_{n}" for n in range(3)] + [f"{POD}{n}" for n in range(3)] + ["/kwhere-run-1", "/oar/a_1"]
)
PARENTS = ("/slurmstepd.scope", "/kubepods", "/oar")

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["make", "make", "remove", "use", "step", "scan"]), st.integers(0, len(PATHS) - 1)),
    max_size=40,
)


class World:
    """A tree, the source that follows it, and what should have been told."""

    def __init__(self, root: Path, max_watches: int) -> None:
        self.tree = FakeCgroups(root)
        for parent in PARENTS:
            self.tree.put(parent, 0)
        self.source: CgroupUnits = self.tree.units(UnitsSettings(max_watches=max_watches))
        self.usage: dict[str, float] = {}
        self.made = 0
        self.removed = 0
        self.started: Counter[UnitKey] = Counter()
        self.ended: Counter[UnitKey] = Counter()
        self.step(1)

    def play(self, name: str, path: str) -> None:
        if name == "make" and path not in self.usage:
            self.usage[path] = 0
            self.made += 1
            self.tree.put(path, 0, procs="1\n")
        elif name == "remove" and path in self.usage:
            del self.usage[path]
            self.removed += 1
            self.tree.remove(path)
        elif name == "use" and path in self.usage:
            self.usage[path] += 0.5
            self.tree.put(path, self.usage[path], procs="1\n")
        elif name in ("step", "scan"):
            self.step(60 if name == "scan" else 1)

    def step(self, seconds: float) -> None:
        reading = self.source.step(self.tree.clock.tick(seconds))
        self.started.update(t.key for t in reading.started)
        self.ended.update(t.key for t in reading.ended)
        live = self.source.live()
        assert set(reading.cpu) >= set(live)
        assert Counter(dict.fromkeys(live, 1)) == self.started - self.ended

    def check_live(self) -> None:
        found = {tracked.cgroup or "": key for key, tracked in self.source.live().items()}
        assert set(found) == set(self.usage)
        reading = self.source.step(self.tree.clock.tick(1))
        for path, key in found.items():
            assert reading.cpu[key].total_ns == round(self.usage[path] * 1e9)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_events_tell_every_run_once(operations: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), max_watches=100)
        for name, choice in operations:
            world.play(name, PATHS[choice])
        world.step(1)

        assert world.started.total() == world.made
        assert world.ended.total() == world.removed
        # A pod's uid is its run; here alone it may come again.
        assert not [key for key, count in world.started.items() if count > 1 and key.manager != "kubernetes"]
        world.check_live()
        world.source.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_scans_alone_find_what_stands(operations: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), max_watches=0)
        for name, choice in operations:
            world.play(name, PATHS[choice])
        world.step(60)

        assert world.started.total() <= world.made
        world.check_live()
        world.source.close()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS, OPERATIONS)
def test_a_restart_goes_on_with_the_same_runs(before: list[tuple[str, int]], missed: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), max_watches=100)
        for name, choice in before:
            world.play(name, PATHS[choice])
        world.step(1)
        old = {tracked.inode: tracked for tracked in world.source.live().values()}
        saved = world.source.saved()
        world.source.close()
        for name, choice in missed:
            if name in ("make", "remove", "use"):
                world.play(name, PATHS[choice])
        source = world.tree.units()
        source.restore(saved, {inode: tracked.key.run for inode, tracked in old.items() if inode is not None})

        reading = source.step(world.tree.clock.tick(5))

        for tracked in reading.started:
            known = old.get(tracked.inode)
            assert tracked.from_creation == (known is None or known.cgroup != tracked.cgroup)
            assert known is None or known.cgroup != tracked.cgroup or known.key == tracked.key
        assert {tracked.cgroup for tracked in reading.started} == set(world.usage)
        source.close()
