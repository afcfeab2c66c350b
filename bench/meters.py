"""CPU milliseconds of one meter step with every kernel-side source on a replayed node; one JSON line each.

`meter_step` reads all of them; `meter_step_on_metal` those that a running machine reads in the step itself, where ACPI
meters, SCMI and batteries are asked by threads of their own. The node: two sockets with memory by RAPL, psys, an ACPI
power meter, amd_energy, Cray counters with eight accelerators, SCMI zones, two batteries, perf events (faked by pipes)
and the model. GPUs by NVML are read in a child process and cost the step nothing here.
"""

import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.unit.meters.perf_tree import PKG, RAM, FakeKernel, write_unit
from tests.unit.meters.pm_tree import write_counters
from tests.unit.meters.powercap_tree import context, write_zone
from tests.unit.meters.supply_tree import write_supply

from kwhere.kernel.hostfs import HostFS
from kwhere.meters import perf
from kwhere.meters.perf_settings import PerfSettings
from kwhere.meters.registry import build_meters
from kwhere.meters.settings import MeterSettings
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
WATT = 1_000_000
GOAL_MS = 3.0
STEPS = 400
CPUS = 64
ASKED_BESIDE = frozenset({"hwmon_power", "scmi", "battery"})
"""On a running machine these are asked by threads of their own."""


def write_node(root: Path) -> None:
    """Write the files of the node below `root`."""
    for socket in (0, 1):
        write_zone(root, f"intel-rapl:{socket}", f"package-{socket}", 10**9)
        write_zone(root, f"intel-rapl:{socket}:0", "dram", 10**8)
    write_zone(root, "intel-rapl:2", "psys", 10**10)
    write_unit(root, "0,64", "energy-pkg", "energy-ram")
    accelerators = {f"accel{number}_energy": 9000 + number for number in range(8)}
    write_counters(root, {"energy": 50_000, "cpu_energy": 9000, "memory_energy": 900, **accelerators})
    chips: list[tuple[str, dict[str, int | str]]] = [
        ("power_meter", {"power1_average": 900 * WATT, "power1_average_interval": 1000}),
        (
            "amd_energy",
            {"energy1_input": 5, "energy1_label": "Esocket0", "energy2_input": 5, "energy2_label": "Esocket1"},
        ),
    ]
    for number, (name, files) in enumerate(chips):
        path = root / "class" / "hwmon" / f"hwmon{number}"
        path.mkdir(parents=True)
        for file, content in {"name": name, **files}.items():
            (path / file).write_text(f"{content}\n")
    for directory, name in (("0", "system"), ("0:0", "soc0"), ("0:1", "soc1"), ("0:2", "ddr0"), ("0:3", "ddr1")):
        path = root / "class" / "powercap" / f"arm-scmi:{directory}"
        path.mkdir(parents=True)
        (path / "name").write_text(f"{name}\n")
        (path / "power_uw").write_text(f"{100 * WATT}\n")
    for battery in ("BAT0", "BAT1"):
        write_supply(root, battery, {"type": "Battery", "status": "Discharging", "power_now": 9 * WATT})


def measure(root: Path, off: frozenset[str]) -> list[float]:
    """Return CPU milliseconds of each step without the sources `off`."""
    settings = MeterSettings(perf=PerfSettings(beside_powercap=True), off=off)
    fs = HostFS(root / "no-proc", root, root / "no-cgroup")
    busy = dict.fromkeys(range(2 * CPUS), 0)
    place = context(fs, sockets=("0", "1"), cpus_per_socket=CPUS, busy_ns=busy, settings=settings)
    kernel = FakeKernel()
    bank = MeterBank([perf.build(place, kernel.open), *build_meters(place).meters], {}, SECOND)
    spent: list[float] = []
    counters = sorted(root.glob("class/powercap/intel-rapl*/energy_uj"))
    for step in range(STEPS):
        for cpu in busy:
            busy[cpu] += 10**7
        for config in (PKG, RAM):
            for cpu in (0, 64):
                kernel.joules(config, cpu, 100 * step)
        for file in counters:
            file.write_text(f"{10**9 + 10**8 * step}\n")
        write_counters(root, {"energy": 50_000 + 900 * step}, freshness=10 * step, device_us=10**15 + step * 10**6)
        began = time.thread_time_ns()
        found = bank.read(step * SECOND, suspended=False)
        spent.append((time.thread_time_ns() - began) / 1e6)
        assert len({one.source for one in found}) == 9 - len(off), {one.source for one in found}
    bank.close()
    kernel.close()
    return spent


def main() -> None:
    for figure, off in (("meter_step", frozenset[str]()), ("meter_step_on_metal", ASKED_BESIDE)):
        with tempfile.TemporaryDirectory() as directory:
            write_node(Path(directory))
            say(figure, measure(Path(directory), off), 9 - len(off))


def say(figure: str, spent: list[float], sources: int) -> None:
    record = {
        "figure": figure,
        "cpu_ms": round(median(spent), 3),
        "goal_ms": GOAL_MS,
        "worst_ms": round(max(spent), 3),
        "sources": sources,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
