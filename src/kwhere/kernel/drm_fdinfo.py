"""What a DRM driver tells of each open file: client, engine time, memory (Documentation/gpu/drm-usage-stats.rst)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

_NUMBER = re.compile(r"([0-9]{1,20})(?: ?(ns|B|KiB|MiB|GiB|kB))?", re.ASCII)
_UNITS = {None: 1, "ns": 1, "B": 1, "KiB": 1 << 10, "kB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LIMIT_BYTES = 1 << 16
_MOST_FILES = 4096


@dataclass(frozen=True, slots=True)
class DrmClient:
    """One client of one GPU: several files, also of several processes, may show the same one."""

    pci: str
    """As written; empty where the driver does not tell."""
    client: int
    driver: str = ""
    engine_ns: Mapping[str, int] = field(default_factory=dict)
    """Time that each class of engines worked for it: `render`, `compute`, `gfx`, …"""
    cycles: Mapping[str, int] = field(default_factory=dict)
    """The same in cycles (xe: `rcs`, `ccs`, …), of the engines' `total_cycles`."""
    total_cycles: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    """How many engines a class has, where more than one."""
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """By region: `vram`, `local0`, `vram0`, `system0`, `gtt`; what is shared counts in full."""


def parse_fdinfo(text: str) -> DrmClient | None:
    """Return the client that a file of `/proc/PID/fdinfo` tells of; None where it is no DRM file.

    A line that is not understood is left out: drivers add their own. Engine shares of old kernels (`gfx0: 12.3%`) are
    no counters and are not used.
    """
    told = {key.strip(): value.strip() for key, colon, value in _lines(text) if colon}
    driver = told.get("drm-driver", "")
    pci = told.get("drm-pdev") or told.get("pdev", "")
    client = told.get("drm-client-id") or told.get("drm_client_id", "")
    if not (driver or "pdev" in told) or not (client.isascii() and client.isdigit() and len(client) <= 20):
        return None
    found: dict[str, dict[str, int]] = {name: {} for name in ("engine", "cycles", "total", "capacity", "memory")}
    for key, value in told.items():
        _take(found, key, value)
    return DrmClient(
        pci=pci.lower(),
        client=int(client),
        driver=driver,
        engine_ns=found["engine"],
        cycles=found["cycles"],
        total_cycles=found["total"],
        capacity=found["capacity"],
        memory_bytes=found["memory"],
    )


def scan_clients(fs: HostFS, pid: int) -> Iterator[DrmClient]:
    """Yield a process's clients, the same one as often as files show it. Nothing where the process is gone or closed.

    Only files below `/dev/dri` are opened: to read what other files tell may cost their owners.
    """
    try:
        numbers = fs.list_dir(f"proc/{pid}/fd")
    except (Unavailable, SourceError):
        return
    for number in numbers[:_MOST_FILES]:
        try:
            if "/dri/" not in fs.read_link(f"proc/{pid}/fd/{number}"):
                continue
            client = parse_fdinfo(fs.read_text(f"proc/{pid}/fdinfo/{number}", _LIMIT_BYTES))
        except (Unavailable, SourceError):
            continue
        if client is not None:
            yield client


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition(":") for line in text.replace("\0", "").splitlines())


def _take(found: dict[str, dict[str, int]], key: str, value: str) -> None:
    """Put one line where it belongs."""
    for kind, prefix in (
        ("total", "drm-total-cycles-"),
        ("cycles", "drm-cycles-"),
        ("capacity", "drm-engine-capacity-"),
        ("engine", "drm-engine-"),
        ("memory", "drm-total-"),
    ):
        if key.startswith(prefix):
            _put(found[kind], key.removeprefix(prefix), value)
            return
    if key.startswith("drm-memory-"):
        _put(found["memory"], key.removeprefix("drm-memory-"), value, keeps=True)
    elif key.endswith(" mem"):  # kernels before 6.0
        _put(found["memory"], key.removesuffix(" mem"), value, keeps=True)


def _put(into: dict[str, int], name: str, value: str, *, keeps: bool = False) -> None:
    found = _NUMBER.fullmatch(value)
    if found is not None and not (keeps and name in into):
        into[name] = int(found[1]) * _UNITS[found[2]]
