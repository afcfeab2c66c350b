"""`/proc/meminfo`: memory of the whole host in bytes (proc(5))."""

from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import counter, excerpt

_KIB = 1024


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Bytes; None where this kernel does not say."""

    total_bytes: int
    free_bytes: int | None = None
    available_bytes: int | None = None
    """What new work could get without swapping (kernel 3.14 and later)."""
    buffers_bytes: int | None = None
    cached_bytes: int | None = None
    anon_bytes: int | None = None
    shmem_bytes: int | None = None
    slab_reclaimable_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    huge_pages_total: int | None = None
    huge_pages_free: int | None = None
    huge_page_bytes: int | None = None


_FIELDS = {
    "MemTotal": "total_bytes",
    "MemFree": "free_bytes",
    "MemAvailable": "available_bytes",
    "Buffers": "buffers_bytes",
    "Cached": "cached_bytes",
    "AnonPages": "anon_bytes",
    "Shmem": "shmem_bytes",
    "SReclaimable": "slab_reclaimable_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
    "HugePages_Total": "huge_pages_total",
    "HugePages_Free": "huge_pages_free",
    "Hugepagesize": "huge_page_bytes",
}


def parse_meminfo(text: str, place: str = "proc/meminfo") -> NodeMemory:
    """Return the lines kwhere uses. Raises SourceError for a bad number, or where MemTotal is missing."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        name, _, rest = line.partition(":")
        field = _FIELDS.get(name.strip())
        if field is not None:
            found[field] = _amount(rest, place)
    if "total_bytes" not in found:
        raise SourceError(f"{place}: expected a line MemTotal, found {excerpt(text)}")
    return NodeMemory(**found)


def _amount(text: str, place: str) -> int:
    """Return `16 kB` in bytes and a bare count as it is."""
    match text.split():
        case [number]:
            return counter(number, place)
        case [number, "kB"]:
            return counter(number, place) * _KIB
    raise SourceError(f"{place}: expected a number of kB or a count, found {excerpt(text)}")
