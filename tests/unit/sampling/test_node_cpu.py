"""Busy time of the node from /proc/stat, CPUs that come and go included."""

import pytest

from kwhere.energy.placement import Topology
from kwhere.kernel.stat import CpuStat, CpuTimes
from kwhere.sampling.node_cpu import NodeCpu

TICK = 10_000_000
TWO = Topology({0: "0", 1: "1"})


def stat(*cpus: CpuTimes, missing: tuple[int, ...] = ()) -> CpuStat:
    return CpuStat(CpuTimes(0, 0, 0, 0), {n: times for n, times in enumerate(cpus) if n not in missing}, None)


def test_busy_is_user_nice_system_irq_and_softirq() -> None:
    cpu = NodeCpu(TWO)
    zero = CpuTimes(0, 0, 0, 0)
    cpu.step(stat(zero, zero))

    found = cpu.step(stat(CpuTimes(1, 2, 4, 100, 200, 8, 16, 500), CpuTimes(3, 0, 0, 0)))

    assert (found.user_ns, found.system_ns) == (6 * TICK, 28 * TICK)
    assert found.by_socket == [31 * TICK, 3 * TICK]
    assert found.busy_ns == 34 * TICK


@pytest.mark.parametrize("case", ["case_energy_a17"])
def test_a_mode_that_falls_adds_nothing_and_takes_nothing(case: str) -> None:
    cpu = NodeCpu(Topology({0: "0"}))
    cpu.step(stat(CpuTimes(user=10, nice=0, system=5, idle=100, iowait=50)))

    found = cpu.step(stat(CpuTimes(user=12, nice=0, system=4, idle=101, iowait=49)))

    assert (found.user_ns, found.system_ns) == (2 * TICK, 0)


def test_a_cpu_that_was_offline_adds_what_it_did_when_it_is_back() -> None:
    cpu = NodeCpu(TWO)
    cpu.step(stat(CpuTimes(0, 0, 0, 0), CpuTimes(100, 0, 0, 0)))
    cpu.step(stat(CpuTimes(1, 0, 0, 0), CpuTimes(0, 0, 0, 0), missing=(1,)))

    assert cpu.step(stat(CpuTimes(1, 0, 0, 0), CpuTimes(107, 0, 0, 0))).by_socket == [0, 7 * TICK]


def test_topology_is_read_again_when_cpus_come_or_go() -> None:
    one = Topology({0: "0"})
    cpu = NodeCpu(TWO, lambda: one)
    cpu.step(stat(CpuTimes(0, 0, 0, 0), CpuTimes(0, 0, 0, 0)))
    assert cpu.topology is TWO

    cpu.step(stat(CpuTimes(0, 0, 0, 0)))

    assert cpu.topology is one


def test_the_models_counters_are_those_of_the_step() -> None:
    cpu = NodeCpu(TWO)
    cpu.step(stat(CpuTimes(5, 0, 1, 9), CpuTimes(2, 1, 0, 9)))

    assert cpu.busy_ns() == {0: 6 * TICK, 1: 3 * TICK}


def test_it_goes_on_from_saved_counters() -> None:
    cpu = NodeCpu(TWO)
    cpu.restore({0: (5, 0, 0, 0, 0), 1: (1, 0, 0, 0, 0)})

    assert cpu.step(stat(CpuTimes(7, 0, 0, 0), CpuTimes(1, 0, 0, 0))).busy_ns == 2 * TICK
