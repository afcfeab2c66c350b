"""CPU of a step over 8 GPUs, whole and divided into 56 instances, over the fake NVML; one JSON line each. Needs cc."""

import json
import tempfile
import time
from pathlib import Path

from tests.fake_nvml.gpus import H100, gpu, split
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import Scenario

from kwhere.core.unit import UnitKey
from kwhere.discovery.gpu_claims import GpuClaim
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.sampling.accounts import Accounts
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
STEPS = 30


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
    began = time.process_time()
    for step in range(STEPS):
        node.poll()
        bank.read(step * SECOND, suspended=False)
        book.step(holders.lived_ns, Accounts(), step * SECOND, SECOND)
        for device in gpus:
            book.take(device.uuid)
    cpu_ms = (time.process_time() - began) / STEPS * 1000
    node.close()
    print(json.dumps({"figure": name, "value": round(cpu_ms, 2), "unit": "ms CPU per step", "groups": "all"}))


if __name__ == "__main__":
    measure("gpu_step_8_whole", divided=False)
    measure("gpu_step_56_instances", divided=True)
