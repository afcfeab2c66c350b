"""Scenes of GPUs for the pages of dcgm-exporter: nothing in them moves, so that every number is known beforehand."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fake_nvml.gpus import A100, H100, Model, gpu, split
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import GIB, FakeGpu, Scenario

from kwhere.dcgm.counters import CounterSet, read_counters
from kwhere.dcgm.page import Page, PageOptions
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import GpuSnapshot

GOLDEN = Path(__file__).parents[2] / "golden"
NODE1 = PageOptions(hostname="node1")
GPM_SECONDS = 0.12
"""A GPM window is 100 ms at least."""


def still(device: FakeGpu, energy_mj: int) -> FakeGpu:
    """Return the GPU with counters that stand still."""
    device.facts["TotalEnergyConsumption"] = energy_mj
    for link in (*range(18), 4294967295):
        for field, kibibytes in ((138, 1000), (139, 2000)):
            if f"fi.{field}.{link}" in device.facts:
                device.facts[f"fi.{field}.{link}"] = kibibytes * (device_links(device) if link > 17 else 1)
    return device


def device_links(device: FakeGpu) -> int:
    """Return how many NVLinks it has."""
    return sum(key.startswith("NvLinkState.") for key in device.facts)


def a100_node() -> Scenario:
    """Return two A100: one busy, with an XID and an energy counter that looks like DCGM's "not supported"."""
    busy = still(gpu(A100, 0, watts=251.123).memory(10 * GIB), 2147483634)
    busy.facts["UtilizationRates"] = "37 12"
    idle = still(gpu(A100, 1, watts=55), 1_000_000)
    idle.facts |= {"PcieReplayCounter": 3, "RemappedRows": "2 1 0 0"}
    scenario = Scenario([busy, idle])
    scenario.xid(0, 31)
    return scenario


def mig(model: Model, watts: float, profiles: list[str], used_bytes: int, energy_mj: int) -> FakeGpu:
    """Return a divided GPU whose first instance uses memory."""
    device = still(split(gpu(model, 0, watts=watts), profiles), energy_mj)
    device.migs[0].used_bytes = used_bytes
    return device


def a100_mig_node() -> Scenario:
    """Return a divided A100."""
    return Scenario([mig(A100, 200, ["3g.20gb", "1g.5gb"], 5 * GIB, 5_000_000)])


def h100_mig_node() -> Scenario:
    """Return a divided H100 with activity in one instance and an XID in the other."""
    device = mig(H100, 300.5, ["3g.40gb", "1g.10gb"], 10 * GIB, 7_000_000)
    device.migs[0].memory_bytes = 40 * GIB
    device.migs[0].facts |= {"gpm.1": 80.0, "gpm.5": 55.0, "gpm.10": 33.0, "gpm.20": 10.5, "gpm.21": 3.0}
    device.migs[1].facts |= {"gpm.20": 0.0, "gpm.21": 0.0}
    scenario = Scenario([device])
    scenario.xid(0, 79, gi=2)
    return scenario


@contextmanager
def running(directory: Path, scenario: Scenario) -> Iterator[GpuNode]:
    """Yield a node that plays a scenario, with the real child process."""
    node = GpuNode(directory, scenario)
    try:
        yield node
    finally:
        node.close()


def look(node: GpuNode, watcher: Watcher) -> GpuSnapshot:
    """Return the GPUs after two looks, with every window begun and every event taken in."""
    first = node.poll()
    watcher.observe(first)
    expected = len(node.scenario.events)
    deadline = time.monotonic() + 20
    while True:
        time.sleep(GPM_SECONDS)
        found = node.poll()
        watcher.observe(found)
        if sum(one.count for state in found.devices for one in state.xids) >= expected:
            return found
        assert time.monotonic() < deadline, "the events did not come"


def page_of(
    snapshot: GpuSnapshot,
    watcher: Watcher,
    options: PageOptions = NODE1,
    counters: CounterSet | None = None,
) -> str:
    """Return the page of a snapshot."""
    return Page(options, watcher).render(snapshot, counters or read_counters(None)).decode()
