"""GPUs that people have, as the fake plays them: what each generation answers and what it does not."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.fake_nvml.scenario import GIB, Fact, FakeGpu, FakeMig, Ramp


@dataclass(frozen=True, slots=True)
class Model:
    """A board by its data sheet: power limits in watts, memory in GiB, clocks in MHz."""

    name: str
    architecture: int
    limit_watts: int
    minimum_watts: int
    memory_gib: int
    reserved_mib: int
    sm_mhz: int
    memory_mhz: int
    nvlinks: int
    has_energy: bool = True
    has_gpm: bool = False
    has_mig: bool = False
    has_ecc: bool = True
    has_memory_temperature: bool = True


P100 = Model("Tesla P100-PCIE-16GB", 4, 250, 125, 16, 0, 1328, 715, 0, has_energy=False, has_memory_temperature=False)
V100 = Model("Tesla V100-SXM2-32GB", 5, 300, 150, 32, 492, 1530, 877, 6)
A100 = Model("NVIDIA A100-SXM4-40GB", 7, 400, 100, 40, 575, 1410, 1215, 12, has_mig=True)
L40S = Model("NVIDIA L40S", 8, 350, 100, 48, 600, 2520, 9001, 0, has_memory_temperature=False)
H100 = Model("NVIDIA H100 80GB HBM3", 9, 700, 200, 80, 550, 1980, 2619, 18, has_gpm=True, has_mig=True)
H200 = Model("NVIDIA H200", 9, 700, 200, 141, 600, 1980, 3201, 18, has_gpm=True, has_mig=True)
GH200 = Model("NVIDIA GH200 480GB", 9, 900, 100, 96, 600, 1980, 2619, 0, has_gpm=True, has_mig=True)
GPM_BUSY: dict[int, float] = {1: 80.0, 2: 72.5, 3: 41.0, 4: 12.0, 5: 55.0, 10: 33.0, 11: 0.0, 12: 9.5, 13: 1.0}
_MULTIPROCESSORS = {
    "NVIDIA A100-SXM4-40GB": {1: 14, 2: 28, 3: 42, 4: 56, 7: 98},
    "NVIDIA H100 80GB HBM3": {1: 16, 2: 32, 3: 60, 4: 64, 7: 132},
}


def gpu(model: Model, index: int, *, watts: float = 100.0, minor: int | None = None) -> FakeGpu:
    """Return a GPU of `model` that draws `watts`, memory and processors idle."""
    number = index if minor is None else minor
    facts: dict[str, Fact] = {
        **_identity(model, index, number),
        **_power(model, watts),
        **_clocks(model),
        **_memory(model),
        **_links(model),
        "UtilizationRates": "0 0",
        "EncoderUtilization": "0 167000",
        "DecoderUtilization": "0 167000",
        "Temperature.0": 41,
        "TemperatureThreshold.0": 92,
        "TemperatureThreshold.1": 89,
        "TemperatureThreshold.3": 85,
        "PerformanceState": 0,
        "CurrentClocksEventReasons": 1,
        "CurrentClocksThrottleReasons": 1,
        "PcieThroughput.0": 1200,
        "PcieThroughput.1": 3400,
        "PcieReplayCounter": 0,
        "EventTypes": 0x1F,
        "GridLicense": "0 0",
    }
    if model.has_gpm:
        facts["Gpm"] = 1
        facts |= {f"gpm.{metric}": 0.0 for metric in GPM_BUSY}
    if model.has_mig:
        facts |= {"MigMode": "0 0", "MaxMigDeviceCount": 7}
    return FakeGpu(model.name, facts)


def split(device: FakeGpu, profiles: Sequence[str], *, serial: int = 0) -> FakeGpu:
    """Turn MIG on with `profiles`, e.g. `3g.20gb`; `serial` tells the UUIDs of one layout from another's."""
    device.facts |= {"MigMode": "1 1"}
    for key in ("UtilizationRates", "EncoderUtilization", "DecoderUtilization"):
        device.facts.pop(key, None)
    device.facts["ProcessUtilization"] = 0
    sm_counts = _MULTIPROCESSORS.get(device.model, _MULTIPROCESSORS["NVIDIA H100 80GB HBM3"])
    device.migs = {}
    for slot, profile in enumerate(profiles):
        compute, slices = slices_of(profile)
        device.migs[slot] = FakeMig(
            uuid=f"MIG-{serial:08x}-{slot:04x}-5000-8000-{device.uuid[-12:]}",
            profile=profile,
            gpu_instance=slot + 1 if slices < 7 else 0,
            compute_instance=0,
            multiprocessors=sm_counts[slices] * compute // slices,
            gpu_slices=slices,
            compute_slices=compute,
            memory_bytes=int(profile.rsplit(".", 1)[1].split("gb")[0]) * GIB,
            facts={f"gpm.{metric}": 0.0 for metric in GPM_BUSY} if "Gpm" in device.facts else {},
        )
    return device


def slices_of(profile: str) -> tuple[int, int]:
    """Return compute and GPU slices of a profile: `1c.3g.20gb` is (1, 3), `3g.20gb` is (3, 3)."""
    words = profile.split(".")
    slices = int(next(word for word in words if word.endswith("g")).removesuffix("g"))
    compute = next((int(word.removesuffix("c")) for word in words if word.endswith("c")), slices)
    return compute, slices


def _identity(model: Model, index: int, minor: int) -> dict[str, Fact]:
    bus = 0x07 + 0x10 * index
    return {
        "Name": model.name,
        "UUID": f"GPU-{0xA0000000 + index:08x}-1111-2222-3333-{index:012x}",
        "MinorNumber": minor,
        "PciInfo": f"00000000:{bus:02X}:00.0",
        "Serial": f"13210230{index:05d}",
        "Brand": 14,
        "Architecture": model.architecture,
        "VbiosVersion": "92.00.45.00.03",
        "InforomImageVersion": "G506.0200.00.04",
        "InforomVersion.0": "2.0",
        "InforomVersion.1": "6.16",
        "CurrPcieLinkGeneration": 4,
        "MaxPcieLinkGeneration": 4,
        "CurrPcieLinkWidth": 16,
        "MaxPcieLinkWidth": 16,
    }


def _power(model: Model, watts: float) -> dict[str, Fact]:
    milliwatts = int(watts * 1000)
    limit = model.limit_watts * 1000
    facts: dict[str, Fact] = {
        "PowerUsage": milliwatts,
        "EnforcedPowerLimit": limit,
        "PowerManagementLimit": limit,
        "PowerManagementDefaultLimit": limit,
        "PowerManagementLimitConstraints": f"{model.minimum_watts * 1000} {limit}",
    }
    if model.has_energy:
        facts |= {
            "TotalEnergyConsumption": Ramp(1_000_000, milliwatts),
            "fi.185.0": milliwatts,
            "fi.186.0": milliwatts,
            "fi.185.0.type": 1,
            "fi.186.0.type": 1,
        }
        facts |= {f"fi.{violation}.0": 0 for violation in range(74, 82)}
    if "GH200" in model.name:
        facts |= {"fi.186.1": milliwatts + 150_000, "fi.186.1.type": 1}
    return facts


def _clocks(model: Model) -> dict[str, Fact]:
    sm, memory = model.sm_mhz, model.memory_mhz
    now = {f"ClockInfo.{i}": mhz for i, mhz in enumerate((sm, sm, memory, sm - 120))}
    most = {f"MaxClockInfo.{i}": mhz for i, mhz in enumerate((sm, sm, memory, sm - 120))}
    return {**now, **most, "ApplicationsClock.1": sm - 300, "ApplicationsClock.2": memory}


def _memory(model: Model) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "MemoryInfo": f"{model.memory_gib * GIB} {model.reserved_mib << 20} 0",
        "BAR1MemoryInfo": f"{2 * model.memory_gib * GIB} {1 << 20}",
    }
    if model.has_memory_temperature:
        facts |= {"fi.82.0": 45, "fi.82.0.type": 1, "TemperatureThreshold.2": 95}
    if model.has_ecc:
        facts |= {"EccMode": "1 1", **{f"fi.{n}.0": 0 for n in range(3, 7)}}
        facts |= {"fi.1.0": 1, "fi.1.0.type": 1, "fi.2.0": 1, "fi.2.0.type": 1}
    if model.architecture >= 7:
        facts |= {"RemappedRows": "0 0 0 0"}
    elif model.has_ecc:
        facts |= {"fi.29.0": 0, "fi.30.0": 0, "fi.31.0": 0}
    if model.architecture >= 9:
        facts |= {"fi.230.0": 0, "fi.230.0.type": 1}
    return facts


def _links(model: Model) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    if not model.nvlinks:
        return facts
    facts |= {"fi.91.0": model.nvlinks, "fi.91.0.type": 1}
    for link in range(model.nvlinks):
        facts |= {f"NvLinkState.{link}": 1, f"fi.138.{link}": Ramp(1000, 10), f"fi.139.{link}": Ramp(2000, 20)}
    facts |= {"fi.138.4294967295": Ramp(1000 * model.nvlinks, 10 * model.nvlinks)}
    facts |= {"fi.139.4294967295": Ramp(2000 * model.nvlinks, 20 * model.nvlinks)}
    facts |= {f"fi.{field}.0": 0 for field in (38, 45, 52, 59)}
    return facts
