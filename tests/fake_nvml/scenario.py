"""Scenarios for the fake NVML: GPUs by model, MIG layouts, processes, failures, values over time.

Keys of a device are the names of NVML's getters without `nvmlDeviceGet`; numbers are in NVML's own units. What a
device does not name is NOT_SUPPORTED there.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

GIB = 2**30
LOST = 15
NOT_SUPPORTED = 3
NO_PERMISSION = 4
UNKNOWN = 999
NOT_AVAILABLE_32 = 0xFFFFFFFF
NOT_AVAILABLE_64 = 0xFFFFFFFFFFFFFFFF
XID_EVENT = 8


@dataclass(frozen=True, slots=True)
class Ramp:
    """A value that rises by `per_second` from `base` since the scenario was first written."""

    base: float
    per_second: float

    def __str__(self) -> str:
        return f"@{self.base:.3f}{self.per_second:+.3f}"


Fact = int | float | str | Ramp


@dataclass
class FakeMig:
    """One MIG device. `profile` as the driver names it; slices are of GPU and compute instance."""

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    multiprocessors: int
    gpu_slices: int
    compute_slices: int
    memory_bytes: int
    used_bytes: int = 0
    facts: dict[str, Fact] = field(default_factory=dict)

    def lines(self, model: str) -> Mapping[str, Fact]:
        """Return its facts by key."""
        return {
            "UUID": self.uuid,
            "Name": f"{model} MIG {self.profile}",
            "GpuInstanceId": self.gpu_instance,
            "ComputeInstanceId": self.compute_instance,
            "Attributes": f"{self.multiprocessors} {self.gpu_slices} {self.compute_slices} {self.memory_bytes >> 20}",
            "MemoryInfo": f"{self.memory_bytes} 0 {self.used_bytes}",
            **self.facts,
        }


@dataclass
class FakeGpu:
    """One GPU: its model, and every fact by NVML's name. `migs` by slot."""

    model: str
    facts: dict[str, Fact]
    migs: dict[int, FakeMig] = field(default_factory=dict)

    def power(self, watts: float, *, since_joules: float | None = None) -> "FakeGpu":
        """Let it draw `watts` from now on; its energy counter, if it has one, goes on accordingly."""
        self.facts["PowerUsage"] = int(watts * 1000)
        for key in ("fi.185.0", "fi.186.0"):
            if key in self.facts:
                self.facts[key] = int(watts * 1000)
        if "TotalEnergyConsumption" in self.facts:
            joules = 1000.0 if since_joules is None else since_joules
            self.facts["TotalEnergyConsumption"] = Ramp(joules * 1000, watts * 1000)
        return self

    def memory(self, used_bytes: int) -> "FakeGpu":
        """Let so much memory be used."""
        total, reserved, _ = str(self.facts["MemoryInfo"]).split()
        self.facts["MemoryInfo"] = f"{total} {reserved} {used_bytes}"
        return self

    def process(self, pid: int, used_bytes: int | None, *, kind: str = "Compute", gi: int = -1, ci: int = -1) -> None:
        """Let a process run on it; `used_bytes` None: the driver does not say."""
        n = sum(key.startswith(f"{kind}.") for key in self.facts)
        size = NOT_AVAILABLE_64 if used_bytes is None else used_bytes
        gi, ci = (NOT_AVAILABLE_32 if one < 0 else one for one in (gi, ci))
        self.facts[f"{kind}.{n}"] = f"{pid} {size} {gi} {ci}"

    def clear_processes(self) -> None:
        """Let no process run on it, and forget its samples."""
        kinds = ("Compute.", "Graphics.", "MPSCompute.", "Sample.")
        self.facts = {key: value for key, value in self.facts.items() if not key.startswith(kinds)}

    def sample(self, pid: int, time_us: int, sm: int, memory: int = 0) -> None:
        """Let the driver have sampled a process's utilisation, percent, at `time_us` of the wall clock."""
        n = sum(key.startswith("Sample.") for key in self.facts)
        self.facts[f"Sample.{n}"] = f"{pid} {time_us} {sm} {memory} 0 0"

    def fail(self, function: str, code: int) -> "FakeGpu":
        """Let a call fail, e.g. `DeviceGetPowerUsage`; `*` is every call of this device."""
        self.facts[f"ret.{function}"] = code
        return self

    def hang(self, function: str) -> "FakeGpu":
        """Let a call wait until `heal` is written."""
        self.facts[f"hang.{function}"] = 1
        return self

    def heal(self) -> "FakeGpu":
        """Undo every failure."""
        self.facts = {key: value for key, value in self.facts.items() if not key.startswith(("ret.", "hang."))}
        return self

    @property
    def uuid(self) -> str:
        """Return its UUID."""
        return str(self.facts["UUID"])


@dataclass
class Scenario:
    """A node's GPUs as one file. `write` again after a change; the running library sees it at its next call."""

    gpus: list[FakeGpu] = field(default_factory=list)
    driver: str = "550.54.15"
    system: dict[str, Fact] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    generation: int = 0
    t0: float = field(default_factory=time.monotonic)

    def xid(self, device: int, xid: int, *, gi: int = -1, ci: int = -1) -> None:
        """Raise an XID."""
        gi, ci = (NOT_AVAILABLE_32 if one < 0 else one for one in (gi, ci))
        self.events.append(f"{device} {XID_EVENT} {xid} {gi} {ci}")

    def reload_driver(self) -> None:
        """Unload and load the driver: every handle is dead, energy counters begin anew."""
        self.generation += 1
        self.t0 = time.monotonic()
        for gpu in self.gpus:
            energy = gpu.facts.get("TotalEnergyConsumption")
            if isinstance(energy, Ramp):
                gpu.facts["TotalEnergyConsumption"] = replace(energy, base=0.0)

    def text(self) -> str:
        """Return the file's text."""
        facts: list[tuple[str, str, Fact]] = [
            ("sys", "count", len(self.gpus)),
            ("sys", "t0", f"{self.t0:.6f}"),
            ("sys", "generation", self.generation),
            ("sys", "DriverVersion", self.driver),
            ("sys", "NVMLVersion", f"12.{self.driver}"),
        ]
        facts += [("sys", key, value) for key, value in self.system.items()]
        facts += [("sys", f"event.{n}", event) for n, event in enumerate(self.events)]
        for index, gpu in enumerate(self.gpus):
            facts += [(str(index), key, value) for key, value in {"Index": index, **gpu.facts}.items()]
            for slot, mig in gpu.migs.items():
                facts += [(f"{index}/{slot}", key, value) for key, value in mig.lines(gpu.model).items()]
        return "".join(f"{scope} {key} {value}\n" for scope, key, value in facts)

    def write(self, library: Path) -> None:
        """Replace what `library` plays, in one move."""
        path = library.with_name(f"{library.name}.scenario")
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(self.text())
        fresh.rename(path)


def handles_held(library: Path) -> bool:
    """Return whether any process holds the library open."""
    return any(library.parent.glob(f"{library.name}.scenario.open.*"))
