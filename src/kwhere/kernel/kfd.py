"""What amdgpu's compute driver (KFD) tells: one node per GPU or partition, and the processes that compute on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.drm import names_in, number_of
from kwhere.kernel.hostfs import HostFS

NODES = "sys/class/kfd/kfd/topology/nodes"
PROCESSES = "sys/class/kfd/kfd/proc"
_LONGEST = 20
_MOST_PROCESSES = 4096


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU, or one compute partition of it."""

    gpu_id: int
    """KFD's own number, by which processes name it."""
    pci: str
    partition: int
    render: int | None
    compute_units: int | None
    memory_bytes: int | None
    unique_id: int | None


@dataclass(frozen=True, slots=True)
class KfdProcess:
    """A process that has opened the compute driver. By `gpu_id`; a GPU where it holds nothing may be missing."""

    pid: int
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    busy_compute_units: Mapping[int, int] = field(default_factory=dict)
    queues: frozenset[int] = frozenset()
    """GPUs on which it has a queue."""

    def runs_on(self, gpu_id: int) -> bool:
        """Return whether it holds memory there or has a queue."""
        return gpu_id in self.queues or bool(self.memory_bytes.get(gpu_id))


def parse_properties(text: str) -> dict[str, int]:
    """Return the numbers of a `properties` file, one `name number` a line; other lines are left out."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isascii() and words[1].isdigit() and len(words[1]) <= _LONGEST:
            found[words[0]] = int(words[1])
    return found


def pci_of(told: Mapping[str, int]) -> tuple[str, int]:
    """Return PCI address and partition of a node: bus in bits 8-15, device and function in 0-7, partition in 28-31."""
    location = told.get("location_id", 0)
    bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return f"{told.get('domain', 0) & 0xFFFFFFFF:04x}:{bus:02x}:{slot:02x}.{function}", location >> 28 & 0xF


def read_nodes(fs: HostFS) -> list[KfdNode]:
    """Return the nodes that are GPUs; none where there is no compute driver."""
    found = []
    for name in names_in(fs, NODES):
        gpu_id = number_of(fs, f"{NODES}/{name}/gpu_id")
        if not gpu_id:  # 0: a processor
            continue
        try:
            told = parse_properties(fs.read_text(f"{NODES}/{name}/properties"))
        except (Unavailable, SourceError):
            continue
        pci, partition = pci_of(told)
        per_unit = told.get("simd_per_cu", 0)
        found.append(
            KfdNode(
                gpu_id=gpu_id,
                pci=pci,
                partition=partition,
                render=told.get("drm_render_minor"),
                compute_units=told.get("simd_count", 0) // per_unit if per_unit else None,
                memory_bytes=_memory(fs, f"{NODES}/{name}/mem_banks"),
                unique_id=told.get("unique_id") or None,
            )
        )
    return found


def read_processes(fs: HostFS) -> list[KfdProcess] | None:
    """Return the processes by pid; None where this driver does not tell them."""
    if not fs.exists(PROCESSES):
        return None
    try:
        names = fs.list_dir(PROCESSES)
    except (Unavailable, SourceError):
        return None
    pids = sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)
    return [process for pid in pids[:_MOST_PROCESSES] if (process := _process(fs, pid)) is not None]


def _process(fs: HostFS, pid: int) -> KfdProcess | None:
    place = f"{PROCESSES}/{pid}"
    memory: dict[int, int] = {}
    busy: dict[int, int] = {}
    names = names_in(fs, place)
    if not names:
        return None
    for name in names:
        kind, _, gpu = name.partition("_")
        if kind not in ("vram", "stats") or not (gpu.isascii() and gpu.isdigit() and len(gpu) < 10):
            continue
        value = number_of(fs, f"{place}/{name}" if kind == "vram" else f"{place}/{name}/cu_occupancy")
        if value is not None:
            (memory if kind == "vram" else busy)[int(gpu)] = value
    queues = {number_of(fs, f"{place}/queues/{queue}/gpuid") for queue in names_in(fs, f"{place}/queues")}
    return KfdProcess(pid, memory, busy, frozenset(gpu for gpu in queues if gpu is not None))


def _memory(fs: HostFS, place: str) -> int | None:
    sizes = []
    for bank in names_in(fs, place):
        try:
            told = parse_properties(fs.read_text(f"{place}/{bank}/properties"))
        except (Unavailable, SourceError):
            continue
        if told.get("heap_type") in (1, 2):  # frame buffer, visible to the processor or not
            sizes.append(told.get("size_in_bytes", 0))
    return sum(sizes) or None
