"""CPU milliseconds of one scrape of dcgm-exporter's face: 8 GPUs × 7 instances, default counters; one JSON line."""

import json
import time
from statistics import median

from kwhere.dcgm.counters import read_counters
from kwhere.dcgm.holdings import Holders, NoJobs, PodHold
from kwhere.dcgm.page import Page, PageOptions
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu import (
    DeviceState,
    GpuDevice,
    GpuInstance,
    GpuSnapshot,
    InstanceState,
    LibraryState,
    Readings,
    Vendor,
)
from kwhere.devices.gpu_fields import GpuField

GPUS, INSTANCES, RUNS = 8, 7, 40


def snapshot() -> GpuSnapshot:
    """Return the GPUs with every quantity known."""
    values = {name: 0.5 if name.value.endswith("_ratio") else 123_456_789 for name in GpuField}
    return GpuSnapshot(
        Vendor.NVIDIA,
        LibraryState(up=True, driver="550.54.15"),
        tuple(_device(index, Readings(1, values)) for index in range(GPUS)),
        answered=True,
    )


def _device(index: int, readings: Readings) -> DeviceState:
    instances = tuple(GpuInstance(f"MIG-{index}-{gi}", "MIG", "1g.10gb", gi, 0, 1) for gi in range(INSTANCES))
    device = GpuDevice(
        f"GPU-{index}",
        index,
        Vendor.NVIDIA,
        "NVIDIA H100 80GB HBM3",
        pci="00000000:07:00.0",
        mig=True,
        instances=instances,
    )
    return DeviceState(
        device, up=True, readings=readings, instances=tuple(InstanceState(one, readings) for one in instances)
    )


def main() -> None:
    found, counters, watcher = snapshot(), read_counters(None), Watcher()
    pods = [PodHold("ns", f"p{g}-{i}", "c", f"GPU-{g}", f"MIG-{g}-{i}") for g in range(GPUS) for i in range(INSTANCES)]
    page = Page(PageOptions(hostname="node1"), watcher)
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        watcher.observe(found)
        body = page.render(found, counters, Holders(pods, NoJobs()))
        times.append((time.process_time() - started) * 1000)
    figure = {
        "figure": "dcgm_scrape",
        "instances": GPUS * INSTANCES,
        "series": body.count(b"\n") - 2 * body.count(b"# TYPE"),
        "cpu_milliseconds": round(median(times), 2),
        "worst_milliseconds": round(max(times), 2),
        "goal_milliseconds": 15,
    }
    print(json.dumps(figure))


if __name__ == "__main__":
    main()
