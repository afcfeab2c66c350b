"""Memory of the node, from `/proc/meminfo`."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.kernel.memory import NodeMemory, parse_meminfo


def _gauge(what: str, text: str) -> MetricSpec:
    return MetricSpec(f"kwhere_node_memory_{what}_bytes", Kind.GAUGE, text)


TOTAL = _gauge("total", "Memory the kernel can use.")
AVAILABLE = _gauge("available", "Memory that new work could get without swapping.")
FREE = _gauge("free", "Memory that nothing uses.")
CACHED = _gauge("cached", "Page cache, tmpfs included.")
BUFFERS = _gauge("buffers", "Buffers of block devices.")
ANON = _gauge("anon", "Memory of processes that no file backs.")
SWAP_TOTAL = _gauge("swap_total", "Swap space.")
SWAP_FREE = _gauge("swap_free", "Swap space that nothing uses.")
HUGE_TOTAL = _gauge("huge_total", "Memory set aside for huge pages of the default size.")
HUGE_FREE = _gauge("huge_free", "Huge pages of the default size that nothing uses.")


class MemorySettings(CollectorSettings):
    """Nothing to set."""


class MemoryCollector:
    """Keeps `/proc/meminfo` open."""

    def __init__(self, context: CollectorContext, settings: MemorySettings) -> None:
        """Open the file. Raises Unavailable."""
        self._file = context.host.keep("proc/meminfo")

    def collect(self) -> Iterator[Sample]:
        """Yield what this kernel says, in bytes; what it does not say is left out."""
        memory = parse_meminfo(self._file.read().decode(errors="replace"))
        for spec, value in _values(memory):
            if value is not None:
                yield Sample(spec, (), value)

    def close(self) -> None:
        """Give back the file."""
        self._file.close()


def _values(memory: NodeMemory) -> tuple[tuple[MetricSpec, int | None], ...]:
    return (
        (TOTAL, memory.total_bytes),
        (AVAILABLE, memory.available_bytes),
        (FREE, memory.free_bytes),
        (CACHED, memory.cached_bytes),
        (BUFFERS, memory.buffers_bytes),
        (ANON, memory.anon_bytes),
        (SWAP_TOTAL, memory.swap_total_bytes),
        (SWAP_FREE, memory.swap_free_bytes),
        (HUGE_TOTAL, _huge_bytes(memory, memory.huge_pages_total)),
        (HUGE_FREE, _huge_bytes(memory, memory.huge_pages_free)),
    )


def _huge_bytes(memory: NodeMemory, pages: int | None) -> int | None:
    """Return the bytes of `pages`; None where no huge pages are set aside: most hosts have none."""
    if pages is None or memory.huge_page_bytes is None or not memory.huge_pages_total:
        return None
    return pages * memory.huge_page_bytes


plugin = CollectorPlugin(
    name="memory",
    summary="Memory and swap of the node.",
    settings_class=MemorySettings,
    specs=(TOTAL, AVAILABLE, FREE, CACHED, BUFFERS, ANON, SWAP_TOTAL, SWAP_FREE, HUGE_TOTAL, HUGE_FREE),
    build=MemoryCollector,
)
