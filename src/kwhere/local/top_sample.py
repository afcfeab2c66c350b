"""One look at the running totals, as the agent's local socket tells them (see agent/local_view.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kwhere.core.errors import SourceError
from kwhere.core.terms import Component, Method

ByComponent = Mapping[Component, int]
"""Microjoules; a component that nothing measures is absent."""


@dataclass(frozen=True, slots=True)
class UnitNow:
    """One unit run: cumulative microjoules and nanoseconds; None is unknown."""

    manager: str
    unit: str
    run: str
    name: str | None = None
    user: str | None = None
    live: bool = True
    energy_uj: int | None = None
    """None where no component is measured."""
    cpu_ns: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    gpu_busy_ns: int | None = None
    """GPU time; None without a GPU or where nothing is known of its use."""

    @property
    def label(self) -> str:
        """Return what a person calls it: its name, after its id where the id says more than the name."""
        if not self.name:
            return self.unit
        return self.name if self.name in self.unit else f"{self.unit} {self.name}"


@dataclass(frozen=True, slots=True)
class TopSample:
    """All totals after one step. What belongs to no unit is None for a caller who sees own units alone."""

    utc_ns: int
    units: tuple[UnitNow, ...] = ()
    node_uj: ByComponent | None = None
    system_uj: int | None = None
    unallocated_uj: int | None = None
    methods: Mapping[Component, Method] = field(default_factory=dict)
    sees_all: bool = True


def parse_sample(answer: Mapping[str, Any]) -> TopSample:
    """Return the answer to `{"get": "top"}`. Raises SourceError where it has another form."""
    try:
        node = answer["node"]
        return TopSample(
            utc_ns=int(answer["utc_ns"]),
            units=tuple(_unit(item) for item in answer["units"]),
            node_uj=None if node is None else {Component(name): int(energy) for name, energy in node.items()},
            system_uj=_sum(answer["system"]),
            unallocated_uj=_sum(answer["unallocated"]),
            methods={Component(name): Method(item["method"]) for name, item in answer["methods"].items()},
            sees_all=bool(answer["sees_all"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(f"agent: expected totals of this version, found another form ({error!r})") from error


def _unit(item: Mapping[str, Any]) -> UnitNow:
    return UnitNow(
        manager=str(item["manager"]),
        unit=str(item["unit"]),
        run=str(item["run"]),
        name=item["name"],
        user=item["user"],
        live=bool(item["live"]),
        energy_uj=_sum(item["energy_uj"]),
        cpu_ns=item["cpu_ns"],
        memory_bytes=item["memory_bytes"],
        processes=item["processes"],
        gpu_busy_ns=item.get("gpu_busy_ns"),
    )


def _sum(row: Mapping[str, Mapping[str, int]] | None) -> int | None:
    """Return the sum over components and parts; None where there is none."""
    if not row:
        return None
    return sum(amount for parts in row.values() for amount in parts.values())
