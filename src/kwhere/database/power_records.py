"""Power as the account answers it: of a run in buckets, of nodes by slot and by time. Joules are microjoules here."""

from collections.abc import Mapping
from dataclasses import dataclass

from kwhere.core.terms import Component, Flag, Method
from kwhere.core.timespan import Span


@dataclass(frozen=True, slots=True)
class PartEnergy:
    """Microjoules of one component; None where nobody measured that part."""

    dynamic_uj: int | None
    idle_uj: int | None


@dataclass(frozen=True, slots=True)
class BucketPower:
    """Energy of one unit over all its nodes in one bucket, or in as much of it as the unit was seen."""

    span: Span
    energy_uj: Mapping[Component, PartEnergy]
    energy_total_uj: int
    cpu_ns: int | None
    cpu_allocated_ns: int | None


@dataclass(frozen=True, slots=True)
class ComponentBalance:
    """One component in one slot, microjoules; residual = node - units - system - unallocated."""

    component: Component
    node_uj: int
    units_dynamic_uj: int
    units_idle_uj: int
    system_uj: int
    unallocated_uj: int
    residual_uj: int
    span_ns: int
    method: Method
    source: str


@dataclass(frozen=True, slots=True)
class BalanceSlot:
    """A slot's balance; totals are sums over components."""

    span: Span
    node_uj: int
    units_uj: int
    system_uj: int
    unallocated_uj: int
    residual_uj: int
    components: tuple[ComponentBalance, ...]
    flags: frozenset[Flag]


@dataclass(frozen=True, slots=True)
class ComponentShares:
    """Energy of one component by whom it went to, microjoules."""

    units_dynamic_uj: int
    units_idle_uj: int
    system_uj: int
    unallocated_uj: int

    @property
    def total_uj(self) -> int:
        """Return the sum of the four."""
        return self.units_dynamic_uj + self.units_idle_uj + self.system_uj + self.unallocated_uj


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """Energy within one bucket of a chart; mean power = energy / `accounted_seconds` per node.

    `node_seconds` is how much of the nodes' time was accounted in it; `power_uw` is that of all nodes that reported.
    """

    span: Span
    components: Mapping[Component, ComponentShares]
    node_seconds: float
    nodes: int = 1
    """How many nodes have a part in it."""

    @property
    def energy_uj(self) -> int:
        """Return the sum over components."""
        return sum(shares.total_uj for shares in self.components.values())
