"""Whatever processes do between two walks, every tick is booked once: a model of the kernel's own bookkeeping."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.discovery.process_table import ProcessTable

INIT = 1


@dataclass
class Task:
    pid: int
    parent: int
    start: int
    own: int = 0
    children: int = 0
    dead: bool = False


@dataclass
class Kernel:
    """Processes that fork, burn ticks, exit and are waited for."""

    proc: FakeProc
    ignores_children: bool = False
    tasks: dict[int, Task] = field(default_factory=dict)
    clock: int = 10_000
    next_pid: int = 100
    shown: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    burnt: int = 0
    forgotten: int = 0
    """Ticks of children that the kernel threw away."""

    def __post_init__(self) -> None:
        self.tasks[INIT] = Task(INIT, 0, 1)
        self.fork(INIT)

    def alive(self) -> list[Task]:
        return [task for task in self.tasks.values() if not task.dead]

    def fork(self, parent: int) -> None:
        self.tasks[self.next_pid] = Task(self.next_pid, parent, self.clock)
        self.next_pid += 1

    def burn(self, task: Task, ticks: int) -> None:
        task.own += ticks
        self.burnt += ticks

    def exit(self, task: Task, *, waited: bool) -> None:
        if task.pid == INIT:
            return
        task.dead = True
        for child in list(self.tasks.values()):
            if child.parent == task.pid:
                child.parent = INIT
                if child.dead:
                    self._reap(child)
        if waited or task.parent == INIT:
            self._reap(task)

    def wait(self, task: Task) -> None:
        for child in list(self.tasks.values()):
            if child.parent == task.pid and child.dead:
                self._reap(child)

    def _reap(self, child: Task) -> None:
        total = child.own + child.children
        if self.ignores_children and child.parent != INIT:
            self.forgotten += total
        else:
            self.tasks[child.parent].children += total
        del self.tasks[child.pid]

    def show(self, seconds: int) -> int:
        """Write /proc as it stands and let time pass; return the boot time."""
        for pid in self.proc.pids - set(self.tasks):
            self.proc.exit(pid)
            self.shown.pop(pid, None)
        for task in self.tasks.values():
            times = (task.parent, task.own, task.children)
            if self.shown.get(task.pid) != times:
                self.shown[task.pid] = times
                self.proc.process(
                    task.pid, f"c{task.pid}", start=task.start, parent=times[0], user=times[1], children=times[2]
                )
        self.clock += seconds * 100
        self.proc.uptime_seconds = self.clock / 100 - 0.005
        return self.proc.now_ns


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["fork", "burn", "exit", "vanish", "wait", "walk", "rest"]),
        st.integers(0, 30),
        st.integers(1, 500),
    ),
    max_size=40,
)


def _play(kernel: Kernel, table: ProcessTable, operations: list[tuple[str, int, int]]) -> list[int]:
    """Return all that was booked after each walk."""
    booked = 0
    sums = []
    for name, choice, ticks in [*operations, ("rest", 0, 0)]:
        task = kernel.alive()[choice % len(kernel.alive())]
        if name == "fork":
            kernel.fork(task.pid)
        elif name == "burn":
            kernel.burn(task, ticks)
        elif name in ("exit", "vanish"):
            kernel.exit(task, waited=name == "vanish")
        elif name == "wait":
            kernel.wait(task)
        for _ in range({"walk": 1, "rest": 12}.get(name, 0)):
            booked += sum(b.user_ticks + b.system_ticks for b in table.walk(kernel.show(1)))
            sums.append(booked)
    return sums


def _table(kernel: Kernel, few: int = 300) -> ProcessTable:
    table = ProcessTable(kernel.proc.host, cpus=2, few=few)
    assert table.walk(kernel.show(1)) == []
    return table


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_all_is_booked_once(operations: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        kernel = Kernel(FakeProc(Path(directory)))

        sums = _play(kernel, _table(kernel), operations)

    assert sums[-1] == kernel.burnt
    assert sums == sorted(sums)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_idle_processes_may_be_left_out_of_some_walks(operations: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        kernel = Kernel(FakeProc(Path(directory)))

        sums = _play(kernel, _table(kernel, few=0), operations)

    assert sums[-1] == kernel.burnt
    assert sums == sorted(sums)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
def test_children_that_the_kernel_forgets_are_never_booked_twice(operations: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        kernel = Kernel(FakeProc(Path(directory)), ignores_children=True)

        sums = _play(kernel, _table(kernel), operations)

    assert kernel.burnt - kernel.forgotten <= sums[-1] + kernel.forgotten
    assert sums[-1] <= kernel.burnt


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS, OPERATIONS, OPERATIONS)
def test_a_restart_books_what_it_missed_once(
    before: list[tuple[str, int, int]], missed: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        kernel = Kernel(FakeProc(Path(directory)))
        table = _table(kernel)
        booked = _play(kernel, table, before)[-1]
        walked_ns = table.walked_ns
        assert walked_ns is not None
        second = ProcessTable(kernel.proc.host, cpus=2)
        second.restore(walked_ns, table.saved())
        quiet = [operation for operation in missed if operation[0] != "walk"]

        booked += _play(kernel, second, [*quiet, *after])[-1]

    assert booked == kernel.burnt
