"""What a path says about the unit it belongs to, and the words that every rule needs to say it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

SYSTEM = "system"
"""`Match.manager` of runtimes and daemons: their work belongs to no unit."""

_SAFE = "@:+,=~"  # besides letters, digits and _.-


@dataclass(frozen=True, slots=True)
class Match:
    """The unit that owns a cgroup path. `top` is the unit's own directory, `anchor` one above that outlives it."""

    manager: str
    unit: str
    """Native id, escaped; a stand-in where `provisional`."""
    path: str
    top: str
    anchor: str
    name: str | None = None
    node_name: str | None = None
    user: str | None = None
    uid: int | None = None
    runtime: str | None = None
    container: str | None = None
    pod_uid: str | None = None
    qos: str | None = None
    provisional: bool = False
    """The path does not hold the native id (a VM's name, a SLUID): ask a process or a file for it."""
    permanent: bool = False
    """The id is unique for ever, so it is the run too."""
    vm_id: int | None = None
    """The hypervisor's running number of a VM."""

    @property
    def is_top(self) -> bool:
        """Return whether the path is the unit's top directory itself."""
        return self.path == self.top

    @property
    def is_system(self) -> bool:
        """Return whether this is a runtime or daemon, no unit."""
        return self.manager == SYSTEM


class Rule(Protocol):
    """One manager's way of naming cgroups."""

    def __call__(self, segments: Sequence[str]) -> Match | None:
        """Return the unit of this manager, the deepest if several, that owns the directory."""
        ...


def segments_of(path: str) -> tuple[str, ...]:
    """Return the names in a cgroup path. The `/../` of a foreign cgroup namespace and ` (deleted)` are left out."""
    return tuple(name for name in path.removesuffix(" (deleted)").split("/") if name not in ("", ".", ".."))


def join(segments: Sequence[str]) -> str:
    """Return `segments` as a path below the hierarchy's root; no segment is the root itself."""
    return "/" + "/".join(segments)


def unit_id(native: str) -> str:
    """Return a native id as it stands in labels and URLs: no `/`; other unsafe bytes percent-escaped."""
    escaped = quote(_bytes_of(native), safe=_SAFE)
    return escaped.replace(".", "%2E") if not native.strip(".") else escaped


def _bytes_of(native: str) -> bytes:
    """Return the bytes of a file's name as they were; half of a pair, which JSON may hold, as its own three."""
    try:
        return native.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return native.encode("utf-8", "surrogatepass")
