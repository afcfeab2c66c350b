"""Figures that a site may switch on, cost and water, and grams by basis: one of each kind for a line of a list."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.database.records import SiteFigure, UnitEmissions

COST, WATER = "cost", "water"
MARGINAL = "marginal"


@dataclass(frozen=True, slots=True)
class OptionalFigures:
    """Which figures this site has switched on: lists have a column for those alone."""

    currency: str | None = None
    """None: no cost."""
    water: bool = False
    embodied: bool = False


def cost_of(figures: Sequence[SiteFigure]) -> SiteFigure | None:
    """Return the cost; None without one, or where it is in several currencies, which are never added."""
    found = [figure for figure in figures if figure.kind == COST]
    return found[0] if len(found) == 1 else None


def water_of(figures: Sequence[SiteFigure]) -> SiteFigure | None:
    """Return the water."""
    return next((figure for figure in figures if figure.kind == WATER), None)


def marginal_grams(emissions: Sequence[UnitEmissions]) -> float | None:
    """Return grams by the first marginal source; never added to averages, nor to those of another source."""
    return next((item.grams for item in emissions if item.basis == MARGINAL), None)
