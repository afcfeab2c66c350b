"""Water: what cooling evaporates on the site, and what making the electricity took."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaterUse:
    """Litres per kWh: on the site per kWh of IT energy (WUE), at power plants per kWh from the grid (EWIF)."""

    site_litres_per_kwh: float
    grid_litres_per_kwh: float


def litres_per_kwh(use: WaterUse, pue: float) -> float:
    """Return litres per kWh of IT energy: WUE + EWIF x PUE."""
    return use.site_litres_per_kwh + use.grid_litres_per_kwh * pue
