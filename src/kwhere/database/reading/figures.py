"""Stored columns as the records show them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Double, FromClause, RowMapping, cast, func

from kwhere.core.terms import Component, Method
from kwhere.database.power_records import ComponentShares, PartEnergy
from kwhere.database.records import ComponentMethod
from kwhere.database.schema import BALANCE_COLUMNS, SHARE_NAMES
from kwhere.ledger.pages import ENERGY_COLUMN_NAMES

Row = Mapping[str, Any] | RowMapping


def energies(row: Row) -> dict[Component, PartEnergy]:
    """Return the components of a row of figures that were measured."""
    found: dict[Component, PartEnergy] = {}
    for component in Component:
        dynamic, idle = row[f"{component}_dynamic_uj"], row[f"{component}_idle_uj"]
        if dynamic is not None or idle is not None:
            found[component] = PartEnergy(_int(dynamic), _int(idle))
    return found


def total_uj(parts: Mapping[Component, PartEnergy]) -> int:
    """Return the sum of what was measured."""
    return sum((part.dynamic_uj or 0) + (part.idle_uj or 0) for part in parts.values())


def shares(row: Row) -> dict[Component, ComponentShares]:
    """Return the balance columns of a row by component; a component that was not measured is absent."""
    found: dict[Component, ComponentShares] = {}
    for component in Component:
        values = [row[f"{component}_{name}"] for name in SHARE_NAMES]
        if any(value is not None for value in values):
            found[component] = ComponentShares(*(int(value or 0) for value in values))
    return found


def methods(text: str | None) -> tuple[ComponentMethod, ...]:
    """Return the methods kept as JSON {component: [method, source]}, in the order of components."""
    if not text:
        return ()
    held = json.loads(text)
    return tuple(
        ComponentMethod(component, Method(held[component][0]), held[component][1])
        for component in Component
        if component in held
    )


def sums(table: FromClause, names: Iterable[str]) -> list[ColumnElement[float]]:
    """Return sums that cannot overflow: exact to 2^53 (2.5 MWh in microjoules), to 16 digits beyond."""
    return [func.sum(cast(table.c[name], Double)).label(name) for name in names]


def energy_total(table: FromClause) -> ColumnElement[int]:
    """Return the sum of a row's energies."""
    columns = [func.coalesce(table.c[name], 0) for name in ENERGY_COLUMN_NAMES]
    return _added(columns)


def balance_total(table: FromClause) -> ColumnElement[int]:
    """Return the sum of a row's balance columns."""
    return _added([func.coalesce(table.c[name], 0) for name in BALANCE_COLUMNS])


def _added(columns: Sequence[ColumnElement[int]]) -> ColumnElement[int]:
    total = columns[0]
    for column in columns[1:]:
        total = total + column
    return total


def _int(value: float | None) -> int | None:
    return None if value is None else int(value)


def whole(value: float | None) -> int | None:
    """Return a sum as an integer; None where nothing was measured."""
    return _int(value)
