"""What runs now: by power, with those of which no power is known behind them."""

from collections.abc import Sequence
from dataclasses import replace

from kwhere.database.records import UnitQuery, UnitRecord, UnitSort
from kwhere.reports.account import Account


def running_units(account: Account, asked: UnitQuery) -> Sequence[UnitRecord]:
    """Return up to `asked.limit` running units; an agent that is late, or is not there, hides none of them."""
    live = replace(asked, span=None, states=("running",), sort=UnitSort.POWER_WATTS)
    drawing = account.units(live).items
    if len(drawing) >= asked.limit:
        return drawing
    named = {(unit.cluster, unit.manager, unit.unit, unit.run, unit.nodes) for unit in drawing}
    every = account.units(replace(live, sort=UnitSort.ENERGY_JOULES, limit=asked.limit + len(drawing))).items
    others = [u for u in every if (u.cluster, u.manager, u.unit, u.run, u.nodes) not in named]
    return [*drawing, *others[: asked.limit - len(drawing)]]
