"""What every source of units promises, over each implementation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.core.errors import NoData
from kwhere.core.unit import UnitKey
from kwhere.discovery.process_units import ProcessUnits
from kwhere.discovery.unit_source import UnitSource
from kwhere.kernel.recorded import clock_of


@dataclass
class Host:
    """A machine on which one unit can work and another can come and go."""

    tree: FakeCgroups
    open: Callable[[], UnitSource]
    work: Callable[[float], object]
    arrive: Callable[[], object]
    leave: Callable[[], object]
    linger_seconds: float
    """How long a unit outlives its end."""
    open_copy: Callable[[], UnitSource]
    """The same as a copied host, whose processes are the test's too."""
    pid: int = 10
    """A process of the unit that works."""

    def step(self, source: UnitSource, seconds: float = 1) -> int:
        self.tree.proc.tick(seconds)
        return self.tree.clock.tick(seconds)


def _cgroups(root: Path) -> Host:
    tree = FakeCgroups(root)
    tree.put("/oar/alice_1", 1, procs="1\n")
    tree.proc.process(10, "solver", start=1000, cgroup="0::/oar/alice_1/task\n")
    return Host(
        tree,
        open=tree.units,
        work=lambda seconds: tree.put("/oar/alice_1", 1 + seconds, procs="1\n"),
        arrive=lambda: tree.put("/oar/bob_2", 0, procs="1\n"),
        leave=lambda: tree.remove("/oar/bob_2"),
        linger_seconds=0,
        open_copy=lambda: tree.units(live=False),
    )


def _processes(root: Path) -> Host:
    tree = FakeCgroups(root)
    tree.proc.process(10, "solver", start=1000, user=100)
    host = tree.proc.host
    return Host(
        tree,
        open=lambda: ProcessUnits(host, clock_of(host)),
        work=lambda seconds: tree.proc.process(10, "solver", start=1000, user=100 + round(seconds * 100)),
        arrive=lambda: tree.proc.process(11, "other", start=round(tree.proc.uptime_seconds * 100) + 1),
        leave=lambda: tree.proc.exit(11),
        linger_seconds=60,
        open_copy=lambda: ProcessUnits(host, clock_of(host)),
    )


@pytest.fixture(params=[_cgroups, _processes], ids=["cgroups", "processes"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    made: Host = request.param(tmp_path)
    return made


@pytest.fixture
def source(host: Host) -> Iterator[UnitSource]:
    opened = host.open()
    yield opened
    opened.close()


def test_a_process_is_its_units(host: Host) -> None:
    source = host.open_copy()
    (unit,) = source.step(host.step(source)).started

    owners = source.owner_of(host.pid), source.owner_of(999)

    assert owners == (unit.key, None)
    source.close()


def test_units_that_stand_start_once_and_are_read(host: Host, source: UnitSource) -> None:
    first = source.step(host.step(source))
    second = source.step(host.step(source))

    assert len(first.started) == 1
    assert second.started == []
    assert set(first.cpu) == set(second.cpu) == set(source.live()) == {first.started[0].key}


def test_what_a_unit_uses_is_the_difference_of_its_readings(host: Host, source: UnitSource) -> None:
    first = source.step(host.step(source))
    (key,) = first.cpu
    host.work(2.5)

    second = source.step(host.step(source, 5))

    assert second.cpu[key].total_ns - first.cpu[key].total_ns == 2_500_000_000


def test_a_unit_that_comes_is_told_and_counts_from_zero(host: Host, source: UnitSource) -> None:
    source.step(host.step(source))
    before_ns = host.tree.clock.now_ns
    host.arrive()

    reading = source.step(host.step(source))

    (tracked,) = reading.started
    assert tracked.from_creation
    assert tracked.counts_from_ns == before_ns
    assert source.live()[tracked.key].key == tracked.key


def test_a_unit_that_goes_is_told_once(host: Host, source: UnitSource) -> None:
    source.step(host.step(source))
    host.arrive()
    (tracked,) = source.step(host.step(source)).started
    host.leave()
    ended = [t.key for t in source.step(host.step(source)).ended]

    ended += [t.key for t in source.step(host.step(source, host.linger_seconds)).ended]
    ended += [t.key for t in source.step(host.step(source, host.linger_seconds)).ended]

    assert ended == [tracked.key]
    assert tracked.key not in source.live()
    with pytest.raises(NoData):
        source.detail(tracked.key)


def test_a_full_reading_of_a_live_unit(host: Host, source: UnitSource) -> None:
    (key,) = source.step(host.step(source)).cpu

    assert source.detail(key).processes == 1
    with pytest.raises(NoData):
        source.detail(UnitKey("slurm", "nobody", "nobody@1"))


def test_a_restart_goes_on_with_the_same_unit_and_total(host: Host, source: UnitSource) -> None:
    source.step(host.step(source))
    host.work(1)
    last = source.step(host.step(source, 2))
    (key,) = last.cpu
    saved = dict(source.saved())
    runs = {t.inode: t.key.run for t in source.live().values() if t.inode is not None}
    source.close()
    host.work(3)
    again = host.open()

    again.restore(saved, runs)
    reading = again.step(host.step(again, 4))

    (tracked,) = reading.started
    assert tracked.key == key
    assert not tracked.from_creation
    assert reading.cpu[key].total_ns - last.cpu[key].total_ns == 2_000_000_000
    again.close()


def test_nonsense_to_restore_from_is_left_out(host: Host, source: UnitSource) -> None:
    source.restore({"": -1, "process:x:y:z": 5, "/a": 0, "user": 3}, {-1: ""})

    assert len(source.step(host.step(source)).started) == 1


def test_a_source_closes_twice(host: Host, source: UnitSource) -> None:
    source.step(host.step(source))

    source.close()
    source.close()
