"""The perf unit `power` for tests: its files as the kernel writes them, and its events as pipes that a test fills."""

import os
import struct
from pathlib import Path

from kwhere.kernel.perf_event import failure

JOULE = 1 << 32
"""Counts of one joule at the kernel's scale."""
SCALE = "2.3283064365386962890625e-10"
PKG, RAM, PSYS = 0x02, 0x03, 0x05
CONFIG = {"energy-pkg": PKG, "energy-ram": RAM, "energy-psys": PSYS, "energy-cores": 0x01, "energy-gpu": 0x04}


def write_unit(root: Path, cpumask: str, *events: str, kind: int = 23) -> Path:
    """Write the unit below `root`/bus/event_source/devices/power."""
    path = root / "bus" / "event_source" / "devices" / "power"
    (path / "events").mkdir(parents=True)
    (path / "format").mkdir()
    files = {"type": str(kind), "cpumask": cpumask, "format/event": "config:0-7"}
    for event in events:
        files[f"events/{event}"] = f"event={CONFIG[event]:#04x}"
        files[f"events/{event}.scale"] = SCALE
        files[f"events/{event}.unit"] = "Joules"
    for name, text in files.items():
        (path / name).write_text(f"{text}\n")
    return path


class FakeKernel:
    """Opens pipes in place of events, and refuses what it is told to refuse."""

    def __init__(self) -> None:
        self.opened: list[tuple[int, int, int]] = []
        self.refused: dict[tuple[int, int], int] = {}
        """errno by config and CPU."""
        self._writers: dict[tuple[int, int], int] = {}

    def open(self, kind: int, config: int, cpu: int) -> int:
        """Return a descriptor that reads what `count` puts in."""
        if (config, cpu) in self.refused:
            raise failure(self.refused[config, cpu], f"event {config} on CPU {cpu}")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self.opened.append((kind, config, cpu))
        self._writers[config, cpu] = writer
        return reader

    def count(self, config: int, cpu: int, value: int, enabled_ns: int = 0, running_ns: int = 0) -> None:
        """Let the next read of an event find this count, and how long it was to count and did."""
        os.write(self._writers[config, cpu], struct.pack("=QQQ", value, enabled_ns, running_ns))

    def joules(self, config: int, cpu: int, joules: int) -> None:
        """Let the next read of an event find this many joules."""
        self.count(config, cpu, joules * JOULE)

    def close(self) -> None:
        """Close the test's ends."""
        for writer in self._writers.values():
            os.close(writer)
