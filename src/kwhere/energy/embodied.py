"""Carbon that was emitted to make a node, and the part of it that a unit answers for (SCI, ISO/IEC 21031)."""

from dataclasses import dataclass

SECONDS_PER_YEAR = 8760 * 3600
"""A year of service is 8760 hours, as in the tools that give such figures."""


@dataclass(frozen=True, slots=True)
class Range:
    """A figure with its bounds: low <= value <= high."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Range":
        """Return all three, scaled by a factor of 0 or more."""
        return Range(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: "Range") -> "Range":
        """Return the sum; bounds add up, for the uncertainty is the same of all nodes of a type."""
        return Range(self.value + other.value, self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class NodeType:
    """What making a node of a type emitted, in grams of CO2e, and for how long it serves, in seconds."""

    total_grams: Range
    life_seconds: float


def embodied_grams(node: NodeType, allocated_cpu_seconds: float, cpus: int) -> Range:
    """Return M = TE x (TR / EL) x (RR / ToR): allocated CPU-seconds are TR x RR, the node's CPUs ToR. Grams of CO2e.

    Raises ValueError for a node without CPUs.
    """
    if cpus <= 0:
        raise ValueError(f"embodied: expected CPUs of a node, found {cpus}")
    return node.total_grams.times(allocated_cpu_seconds / cpus / node.life_seconds)
