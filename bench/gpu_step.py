"""CPU of steps and scrapes over 8 GPUs, whole and divided into 56 instances, over the fake NVML. Needs cc."""

import json
import tempfile
import time
from pathlib import Path

from tests.fake_nvml.gpus import H100, gpu, split
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import Scenario

from kwhere.collectors import gpu as gpu_collector
from kwhere.collectors.collector import CollectorContext
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.clock import SystemClock
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu_fields import RateGroup
from kwhere.discovery.gpu_claims import GpuClaim
from kwhere.exposition.text import Format, Renderer
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.sampling.accounts import Accounts
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
STEPS = 60
MEDIUM_EVERY, SLOW_EVERY = 10, 60


class Holders:
    """Every device or instance has a holder of its own."""

    def __init__(self, places: list[tuple[str, str]]) -> None:
        keys = [UnitKey("slurm", str(n), f"{n}@1") for n in range(len(places))]
        self._claims = [GpuClaim(key, *place) for key, place in zip(keys, places, strict=True)]
        self.lived_ns = dict.fromkeys(keys, SECOND)

    def claims(self) -> list[GpuClaim]:
        """Return one claim per place."""
        return self._claims

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return nobody: no process runs."""
        return None


def due(step: int) -> list[RateGroup]:
    """Return what the agent asks for in its n-th second."""
    groups = [RateGroup.FAST]
    groups += [RateGroup.MEDIUM] if step % MEDIUM_EVERY == 0 else []
    return groups + ([RateGroup.SLOW] if step % SLOW_EVERY == 0 else [])


def measure(name: str, *, divided: bool) -> None:
    """Print the agent's CPU per step: reports taken in, snapshot, meter, weights. The child's own is not in it."""
    gpus = [split(gpu(H100, i), ["1g.10gb"] * 7) if divided else gpu(H100, i) for i in range(8)]
    node = GpuNode(Path(tempfile.mkdtemp()), Scenario(gpus))
    places = [
        (state.device.uuid, instance)
        for state in node.poll().devices
        for instance in ([one.instance.uuid for one in state.instances] or [""])
    ]
    holders = Holders(places)
    book = GpuBook([node.watch], holders)
    bank = MeterBank([GpuMeter("nvml", node.watch)], {}, SECOND)
    spent = []
    for step in range(STEPS):
        began = time.process_time()
        node.watch.poll(30.0, due(step))
        bank.read(step * SECOND, suspended=False)
        book.step(holders.lived_ns, Accounts(), step * SECOND, SECOND)
        for device in gpus:
            book.take(device.uuid)
        spent.append((time.process_time() - began) * 1000)
    say(f"gpu_step_{name}", sum(spent) / STEPS, "ms CPU per step, each second its groups")
    say(f"gpu_step_{name}_all_groups", spent[0], "ms CPU of the step that reads all groups")
    scrape(name, node)
    node.close()


def scrape(name: str, node: GpuNode) -> None:
    """Print the CPU of the native face: samples and their text."""
    plugin = gpu_collector.plugin
    runner = CollectorRunner(
        [(plugin, plugin.settings_class())], CollectorContext(HostFS(), SystemClock(), gpus=(node.watch,))
    )
    renderer = Renderer()
    renderer.render(runner.collect(), Format.TEXT)
    began = time.process_time()
    for _ in range(STEPS):
        samples = runner.collect()
        renderer.render(samples, Format.TEXT)
    say(f"gpu_scrape_{name}", (time.process_time() - began) / STEPS * 1000, f"ms CPU per scrape, {len(samples)} series")


def say(figure: str, value: float, unit: str) -> None:
    """Print one figure."""
    print(json.dumps({"figure": figure, "value": round(value, 2), "unit": unit}))


if __name__ == "__main__":
    measure("8_whole", divided=False)
    measure("56_instances", divided=True)
