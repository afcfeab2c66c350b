"""GPUs of AMD and Intel as files below /sys and /proc, to be written anywhere; a pair is two moments, 10 s apart."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Content = str | bytes | int
Value = Content | tuple[Content, Content]
SIZES = {1: 96, 2: 104, 3: 120, 4: 288, 5: 360, 6: 1664, 7: 2208, 8: 3872}
PLACES = {1: (22, 16, 24), 2: (22, 16, 24), 3: (22, 16, 24), 4: (10, 12, 24), 5: (10, 12, 88), 6: (10, 12, 16),
          7: (10, 12, 24), 8: (10, 12, 24)}  # fmt: skip
"""Offsets of power, activity and energy in each content revision of format 1."""
CLOCKS = {1: (54, 58), 2: (54, 58), 3: (54, 58), 4: (240, 280), 5: (312, 352), 6: (264, 304), 7: (296, 336),
          8: (296, 336)}  # fmt: skip
PARTITIONS = {6: (312, 168), 7: (344, 232), 8: (344, 440)}
GIB = 1 << 30


def table(
    revision: int,
    *,
    watts: int = 250,
    energy: int = 65628,
    clock_ns: int = 10**12,
    format_: int = 1,
    busy: int = 73,
    partitions: Sequence[int] = (),
) -> bytes:
    """Return a `gpu_metrics` table whose other fields are not known."""
    size = SIZES[revision]
    data = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", data, 0, size, format_, revision)
    power, activity, place = PLACES[revision]
    struct.pack_into("<H", data, power, watts)
    struct.pack_into("<HH", data, activity, busy, 21)
    struct.pack_into("<QQ", data, place, energy, clock_ns)
    if partitions:
        start, length = PARTITIONS[revision]
        struct.pack_into("<H", data, CLOCKS[revision][1] + 2, len(partitions))
        for number, percent in enumerate(partitions):
            struct.pack_into("<I", data, start + length * number, percent)
    return bytes(data)


def accumulator(joules: float) -> int:
    """Return joules in units of 2^-16 J."""
    return round(joules * 65536)


@dataclass
class Tree:
    """Files and links by path below a host's directory, area first: `sys/class/…`."""

    files: dict[str, Value] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def put(self, directory: str, **texts: Value) -> None:
        """Add files; `__` in a name stands for `/`."""
        for name, value in texts.items():
            self.files[f"{directory}/{name.replace('__', '/')}"] = value

    def device(self, pci: str, vendor: int, device: int, driver: str, card: int, *, kind: int = 0x038000) -> str:
        """Add a PCI device with its card and render node; return its directory."""
        place = f"sys/bus/pci/devices/{pci}"
        self.files |= {
            f"{place}/class": f"0x{kind:06x}",
            f"{place}/vendor": f"0x{vendor:04x}",
            f"{place}/device": f"0x{device:04x}",
            f"{place}/current_link_speed": "16.0 GT/s PCIe",
            f"{place}/current_link_width": 16,
            f"{place}/max_link_speed": "32.0 GT/s PCIe",
            f"{place}/max_link_width": 16,
        }
        self.links[f"{place}/driver"] = f"../../drivers/{driver}"
        for name in (f"card{card}", f"renderD{128 + card}"):
            self.links[f"sys/class/drm/{name}/device"] = f"../../../bus/pci/devices/{pci}"
        return place

    def amd(self, pci: str, card: int, device: int, *, kind: int = 0x038000, **files: Value) -> str:
        """Add a GPU that amdgpu holds."""
        place = self.device(pci, 0x1002, device, "amdgpu", card, kind=kind)
        self.put(place, **files)
        self.put(f"{place}/hwmon/hwmon{card}", name="amdgpu")
        return place

    def kfd(
        self, node: int, gpu_id: int, pci: str, *, partition: int = 0, units: int = 104, vram: int = 64 * GIB
    ) -> None:
        """Add a node of the compute driver."""
        domain, bus, rest = pci.split(":")
        slot, function = rest.split(".")
        location = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function) | partition << 28
        place = f"sys/class/kfd/kfd/topology/nodes/{node}"
        self.put(place, gpu_id=gpu_id)
        self.files[f"{place}/properties"] = (
            f"cpu_cores_count 0\nsimd_count {units * 4}\nsimd_per_cu 4\nlocation_id {location}\n"
            f"domain {int(domain, 16)}\ndrm_render_minor {128 + node - 1}"
        )
        self.files[f"{place}/mem_banks/0/properties"] = f"heap_type 1\nsize_in_bytes {vram}\nflags 0"

    def runs(self, pid: int, gpu_id: int, *, vram: int, units: int) -> None:
        """Let a process compute on a node of the compute driver."""
        place = f"sys/class/kfd/kfd/proc/{pid}"
        self.files |= {
            f"{place}/pasid": 32768,
            f"{place}/vram_{gpu_id}": vram,
            f"{place}/stats_{gpu_id}/cu_occupancy": units,
            f"{place}/queues/0/gpuid": gpu_id,
        }

    def client(self, pid: int, number: int, card: int, text: Value) -> None:
        """Let a process have a card open under a file number, as its fdinfo tells."""
        self.links[f"proc/{pid}/fd/{number}"] = f"/dev/dri/renderD{128 + card}"
        self.files[f"proc/{pid}/fdinfo/{number}"] = text

    def write(self, root: Path, moment: int = 0) -> Path:
        """Write one moment below `root`, over what stood there."""
        for path, value in self.files.items():
            write(root / path, value[moment] if isinstance(value, tuple) else value)
        for path, target in self.links.items():
            link(root / path, target)
        return root

    def moments(self) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        """Return files and links of a host of two moments, with `0/` and `1/` after the area."""
        files: dict[str, bytes] = {}
        links: dict[str, str] = {}
        for moment in (0, 1):
            for path, value in self.files.items():
                files[_at(path, moment)] = encode(value[moment] if isinstance(value, tuple) else value)
            links |= {_at(path, moment): target for path, target in self.links.items()}
        return files, links


def write(path: Path, value: Content) -> None:
    """Write one file with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(value))


def link(path: Path, target: str) -> None:
    """Make one symbolic link with its directories, in place of what stood there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def encode(value: Content) -> bytes:
    """Return a file's bytes; text and numbers end with a line feed, as the kernel's do."""
    return value if isinstance(value, bytes) else f"{value}\n".encode()


def _at(path: str, moment: int) -> str:
    area, _, below = path.partition("/")
    return f"{area}/{moment}/{below}"
