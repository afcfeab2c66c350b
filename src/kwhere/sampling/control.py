"""The control sum: what the meters said, added up before anything is split, by code that knows no unit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwhere.core.terms import Component, Method
from kwhere.ledger.rows import Control


@dataclass(slots=True)
class _Line:
    method: Method
    source: str
    total_uj: int = 0
    open_uj: int = 0
    spans_ns: dict[str, int] = field(default_factory=dict)
    ways_uj: dict[tuple[Method, str], int] = field(default_factory=dict)
    """Of the open slot, by how it is known: an old GPU beside new ones."""


class ControlSums:
    """Node energy per component since the process began, and of the open slot with the length of its spans."""

    def __init__(self) -> None:
        self._lines: dict[Component, _Line] = {}

    def add(
        self, component: Component, domain: str, energy_uj: int, span_ns: int, *, method: Method, source: str
    ) -> None:
        """Take in what a meter measured over one span of one domain."""
        line = self._lines.get(component)
        if line is None:
            line = self._lines[component] = _Line(method, source)
        line.ways_uj[(method, source)] = line.ways_uj.get((method, source), 0) + energy_uj
        line.method, line.source = max(sorted(line.ways_uj), key=lambda way: line.ways_uj[way])
        line.total_uj += energy_uj
        line.open_uj += energy_uj
        line.spans_ns[domain] = line.spans_ns.get(domain, 0) + span_ns

    def open(self) -> tuple[Control, ...]:
        """Return the controls of the open slot: components of which a span ended in it, in the order of legends."""
        return tuple(
            Control(component, line.open_uj, max(line.spans_ns.values()), line.method, line.source)
            for component in Component
            if (line := self._lines.get(component)) is not None and line.spans_ns
        )

    def start_slot(self) -> None:
        """Begin the next slot: the last one is durable."""
        for line in self._lines.values():
            line.open_uj = 0
            line.spans_ns = {}
            line.ways_uj = {}

    def rebase(self) -> None:
        """Let totals begin at 0 from here on; the open slot is not touched."""
        for line in self._lines.values():
            line.total_uj = 0

    def totals_uj(self) -> Mapping[Component, int]:
        """Return node energy since the process began, by component that anything measures."""
        return {component: line.total_uj for component, line in self._lines.items()}

    def sources(self) -> Mapping[Component, tuple[Method, str]]:
        """Return how each component is known, and from which source."""
        return {component: (line.method, line.source) for component, line in self._lines.items()}
