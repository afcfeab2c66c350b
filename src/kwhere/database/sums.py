"""A page of slots summed up, ready to be booked: what the write path takes in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kwhere.ledger.gpu_uses import GpuUse, Place

Values = Sequence[int | None]
"""Figures in the order of `schema.FIGURE_COLUMNS`: sums, then the peaks."""


class RunKey(NamedTuple):
    """An entry of a node: a unit run, or `system` or `unallocated`, whose other words are empty."""

    kind: str
    manager: str = ""
    unit: str = ""
    run: str = ""


class RunNames(NamedTuple):
    """What a node calls a unit run; None where it does not say."""

    name: str | None = None
    user: str | None = None
    project: str | None = None
    node_name: str | None = None
    labels: dict[str, str] | None = None

    def after(self, earlier: "RunNames") -> "RunNames":
        """Return what is known from both, these first: a node may learn a name late and never unlearns one."""
        return RunNames(*(ours or theirs for ours, theirs in zip(self, earlier, strict=True)))  # type: ignore[arg-type]


@dataclass(slots=True)
class GpuSums:
    """What one entry used of one GPU or instance over the slots of a page."""

    use: GpuUse
    start_ns: int
    """Of the first slot with it."""
    end_ns: int
    """Of the newest; `use` says what it is and since when it idles as of then."""

    def add(self, use: GpuUse, start_ns: int, end_ns: int) -> None:
        """Add a slot."""
        self.use = self.use.then(use) if end_ns >= self.end_ns else use.then(self.use)
        self.start_ns, self.end_ns = min(self.start_ns, start_ns), max(self.end_ns, end_ns)


@dataclass(slots=True)
class RunSums:
    """What one entry used over the slots of a page."""

    names: RunNames
    start_ns: int
    """Of its first slot in this page."""
    end_ns: int
    """Of its newest."""
    power_uw: int = 0
    """Mean over its newest slot."""
    power_until_ns: int = 0
    flags: int = 0
    total: Values | None = None
    buckets: dict[int, Values] = field(default_factory=dict)
    """By start of the 5-minute bucket."""
    gpus: dict[Place, GpuSums] = field(default_factory=dict)


@dataclass(slots=True)
class NodeBucket:
    """What a node used in one 5-minute bucket: the sum of its entries there."""

    accounted_ns: int
    measured_uj: int
    balance: list[int]
    """In the order of `schema.BALANCE_COLUMNS`."""


@dataclass(frozen=True, slots=True)
class SlotSums:
    """One slot as it is kept."""

    seq: int
    start_ns: int
    end_ns: int
    digest: str
    flags: int
    line: bytes
    """As served."""
    controls: str
    """JSON {component: [µJ, span ns, method, source]}."""
    balance: tuple[int | None, ...]
    methods: str
    """JSON {component: [method, source]}."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A slot that is kept and not booked, with the reason."""

    seq: int
    start_ns: int
    end_ns: int
    reason: str
    residual_uj: int
    """What it is off balance by, all components."""
    line: bytes


@dataclass(slots=True)
class PageSums:
    """Everything a page adds to the account."""

    slots: list[SlotSums] = field(default_factory=list)
    held_back: list[HeldBack] = field(default_factory=list)
    runs: dict[RunKey, RunSums] = field(default_factory=dict)
    buckets: dict[int, NodeBucket] = field(default_factory=dict)
    measured: list[bool] = field(default_factory=list)
    """Which figures any entry has; the others need not be written. In the order of `schema.FIGURE_COLUMNS`."""
