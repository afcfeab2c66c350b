"""What an entry held and used of each GPU or instance in one slot: the ledger's column `gpus`.

On the wire a list of objects under the names of `GpuUse`; what is not known or empty is left out, names that this
version does not know are passed over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

Place = tuple[str, str]
"""UUID of a device, and of the instance on it or empty."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU or instance. "GPU time": a whole device for a second is one second. None is not known."""

    device: str
    instance: str = ""
    """Empty: the whole device."""
    index: int = 0
    """As the vendor's library counts devices."""
    model: str = ""
    profile: str = ""
    """Of the instance: `1g.10gb`."""
    source: str = ""
    """How it is known who held it."""
    held_ns: int = 0
    allocated_ns: int = 0
    """GPU time held."""
    place_ns: int = 0
    """The same where the place itself, not its device, counts as one."""
    unknown_ns: int = 0
    """GPU time held of which nobody knows whether it was used."""
    busy_ns: int | None = None
    """GPU time."""
    held_idle_ns: int | None = None
    """Held while nothing of the unit ran there; time, not GPU time."""
    energy_uj: int | None = None
    held_idle_uj: int | None = None
    """What of `energy_uj` fell to it while it held the place idle."""
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    idle_since_ns: int | None = None
    """UTC; None: something of it runs there, or it is not known."""

    @property
    def place(self) -> Place:
        """Return which place it is."""
        return (self.device, self.instance)

    def then(self, later: "GpuUse") -> "GpuUse":
        """Return both as one: sums add up, peaks are the larger, what it is and since when it idles is the later's."""
        sums = {name: _sum(getattr(self, name), getattr(later, name)) for name in SUM_NAMES}
        return replace(
            later,
            **sums,  # type: ignore[arg-type]
            memory_peak_bytes=max(
                (peak for peak in (self.memory_peak_bytes, later.memory_peak_bytes) if peak is not None), default=None
            ),
            memory_total_bytes=later.memory_total_bytes
            if later.memory_total_bytes is not None
            else self.memory_total_bytes,
        )


SUM_NAMES: tuple[str, ...] = (
    "held_ns",
    "allocated_ns",
    "place_ns",
    "unknown_ns",
    "busy_ns",
    "held_idle_ns",
    "energy_uj",
    "held_idle_uj",
)
"""What adds up over slots."""
TEXT_NAMES: tuple[str, ...] = ("device", "instance", "model", "profile", "source")
NUMBER_NAMES: tuple[str, ...] = tuple(one.name for one in fields(GpuUse) if one.name not in TEXT_NAMES)


def encode_gpus(uses: Sequence[GpuUse]) -> list[dict[str, object]] | None:
    """Return the column's value; None without any."""
    if not uses:
        return None
    return [
        {one.name: value for one in fields(use) if (value := getattr(use, one.name)) not in (None, "")} for use in uses
    ]


def merged(uses: Iterable[GpuUse]) -> dict[Place, GpuUse]:
    """Return uses, in the order of time, by place."""
    found: dict[Place, GpuUse] = {}
    for use in uses:
        before = found.get(use.place)
        found[use.place] = use if before is None else before.then(use)
    return found


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second
