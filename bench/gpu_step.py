"""CPU of steps and scrapes over 8 GPUs, whole and divided into 56 instances, over the fake NVML. Needs cc."""

import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pynvml
from tests.fake_nvml.gpus import H100, gpu, split
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import FakeGpu, Ramp, Scenario

from kwhere.collectors import gpu as gpu_collector
from kwhere.collectors.collector import CollectorContext
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.clock import SystemClock
from kwhere.core.unit import UnitKey
from kwhere.devices import nvml, nvml_gpm, nvml_processes
from kwhere.devices.gpu_child import Writer
from kwhere.devices.gpu_fields import RateGroup
from kwhere.devices.gpu_told import Told
from kwhere.devices.nvml import NvmlLibrary
from kwhere.devices.nvml_calls import attempt
from kwhere.discovery.gpu_claims import GpuClaim
from kwhere.exposition.text import Format, Renderer
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.sampling.accounts import Account, Accounts
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
STEPS = 120
MEDIUM_EVERY, SLOW_EVERY = 10, 60
FIRST_PID = 4000
TRIALS = 1000


class Holders:
    """Every device or instance has a holder of its own, and each of them a process there."""

    def __init__(self, places: list[tuple[str, str]]) -> None:
        keys = [UnitKey("slurm", str(n), f"{n}@1") for n in range(len(places))]
        self._claims = [GpuClaim(key, *place) for key, place in zip(keys, places, strict=True)]
        self._owners = {FIRST_PID + n: key for n, key in enumerate(keys)}
        self.lived_ns = dict.fromkeys(keys, SECOND)
        self.accounts = Accounts()
        self.accounts.units.update({key: Account() for key in keys})

    def claims(self) -> list[GpuClaim]:
        """Return one claim per place."""
        return self._claims

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return whose process it is."""
        return self._owners.get(pid)


def busy_gpus(*, divided: bool) -> list[FakeGpu]:
    """Return 8 GPUs that work: what is read each second is another number each time."""
    made = []
    for index in range(8):
        one = gpu(H100, index, watts=600)
        if divided:
            split(one, ["1g.10gb"] * 7)
            for slot in range(7):
                one.process(FIRST_PID + 7 * index + slot, 1 << 30, gi=slot + 1, ci=0)
        else:
            one.process(FIRST_PID + index, 1 << 30)
            one.facts["UtilizationRates"] = "97 40"
        for name in ("PowerUsage", "fi.185.0", "fi.186.0", "ClockInfo.1"):
            one.facts[name] = Ramp(float(str(one.facts[name])), 1000)
        for facts in [one.facts, *(mig.facts for mig in one.migs.values())]:
            facts |= {name: Ramp(1.0, 0.01) for name in facts if name.startswith("gpm.")}
        made.append(one)
    return made


def due(step: int) -> list[RateGroup]:
    """Return what the agent asks for in its n-th second."""
    groups = [RateGroup.FAST]
    groups += [RateGroup.MEDIUM] if step % MEDIUM_EVERY == 0 else []
    return groups + ([RateGroup.SLOW] if step % SLOW_EVERY == 0 else [])


def measure(name: str, *, divided: bool) -> None:
    """Print the agent's CPU per step: reports taken in, snapshot, meter, weights. The child's own is not in it."""
    gpus = busy_gpus(divided=divided)
    node = GpuNode(Path(tempfile.mkdtemp()), Scenario(gpus))
    places = [
        (state.device.uuid, instance)
        for state in node.poll().devices
        for instance in ([one.instance.uuid for one in state.instances] or [""])
    ]
    holders = Holders(places)
    book = GpuBook([node.watch], holders)
    bank = MeterBank([GpuMeter("nvml", node.watch)], {}, SECOND)
    parts: dict[str, list[float]] = {"intake": [], "meter": [], "weights": [], "": []}
    gc.collect()
    for step in range(STEPS):
        began = time.process_time()
        node.watch.poll(30.0, due(step))
        told = time.process_time()
        bank.read(step * SECOND, suspended=False)
        metered = time.process_time()
        book.step(holders.lived_ns, holders.accounts, step * SECOND, SECOND)
        for device in gpus:
            book.take(device.uuid)
        ended = time.process_time()
        spent = (told - began, metered - told, ended - metered, ended - began)
        for part, seconds in zip(parts.values(), spent, strict=True):
            part.append(seconds * 1000)
    for part_name, part in parts.items():
        words = f"gpu_step_{name}_{part_name}" if part_name else f"gpu_step_{name}"
        say(words, statistics.mean(part), "ms CPU per step, each second its groups", part)
    say(f"gpu_step_{name}_all_groups", statistics.mean(parts[""][::SLOW_EVERY]), "ms CPU of a step of all groups")
    scrape(name, node)
    node.close()


class Timed:
    """Calls of NVIDIA's binding, each with the CPU time that it took: our code makes every one through `attempt`."""

    def __init__(self) -> None:
        self.spent_ns = self._own_ns = 0
        began_ns = time.thread_time_ns()
        for _ in range(TRIALS):
            self._timed(int)
        self._own_ns = (time.thread_time_ns() - began_ns - self.spent_ns) // TRIALS
        """What is spent on looking at the clock."""
        self.spent_ns = 0
        self._set(self._timed)

    def _timed(self, call: Callable[..., Any], *arguments: object) -> object:
        began_ns = time.thread_time_ns()
        answer = attempt(call, *arguments)
        self.spent_ns += time.thread_time_ns() - began_ns + self._own_ns
        return answer

    def close(self) -> None:
        """Leave the functions as they were."""
        self._set(attempt)

    def _set(self, function: Callable[..., Any]) -> None:
        for module in (nvml, nvml_gpm, nvml_processes):
            vars(module)["attempt"] = function


def child(name: str, *, divided: bool) -> None:
    """Print what the library's process spends in a step beside the calls themselves: fields, records, lines."""
    node = GpuNode(Path(tempfile.mkdtemp()), Scenario(busy_gpus(divided=divided)))
    pynvml._nvmlGetFunctionPointer_cache.clear()  # functions of the library before
    library = NvmlLibrary(str(node.library))
    told = {device.uuid: Told() for device in library.open().devices}
    with Path("/dev/null").open("wb") as nowhere:
        spent = [step_of_child(library, told, nowhere, step) for step in range(STEPS)]
    say(
        f"gpu_child_{name}",
        statistics.mean(spent),
        "ms CPU per step of the library's process, beside NVML's calls",
        spent,
    )


def step_of_child(library: NvmlLibrary, told: dict[str, Told], out: IO[bytes], step: int) -> float:
    """Return the milliseconds of one step without those of NVML's calls."""
    timed = Timed()
    writer = Writer(out)
    began_ns = time.thread_time_ns()
    for uuid, known in told.items():
        for report in library.read(uuid, due(step)):
            writer.write(known.news(report))
    spent_ns = time.thread_time_ns() - began_ns - timed.spent_ns
    timed.close()
    time.sleep(0.11)  # activity is the mean of a tenth of a second and more
    return spent_ns / 1e6


def scrape(name: str, node: GpuNode) -> None:
    """Print the CPU of the native face: samples and their text."""
    plugin = gpu_collector.plugin
    runner = CollectorRunner(
        [(plugin, plugin.settings_class())], CollectorContext(HostFS(), SystemClock(), gpus=(node.watch,))
    )
    renderer = Renderer()
    renderer.render(runner.collect(), Format.TEXT)
    spent = []
    for _ in range(STEPS):
        began = time.process_time()
        samples = runner.collect()
        renderer.render(samples, Format.TEXT)
        spent.append((time.process_time() - began) * 1000)
    say(f"gpu_scrape_{name}", statistics.mean(spent), f"ms CPU per scrape, {len(samples)} series", spent)


def say(figure: str, value: float, unit: str, runs: list[float] | None = None) -> None:
    """Print one figure, and how its runs lie."""
    more = {"minimum": round(min(runs), 2), "median": round(statistics.median(runs), 2)} if runs else {}
    print(json.dumps({"figure": figure, "value": round(value, 2), **more, "unit": unit}))


if __name__ == "__main__":
    measure("8_whole", divided=False)
    measure("56_instances", divided=True)
    child("8_whole", divided=False)
    child("56_instances", divided=True)
