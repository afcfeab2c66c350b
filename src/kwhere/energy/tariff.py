"""What a kWh costs at a time of day: prices by weekday and minute, in the site's local time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

MINUTES_PER_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Period:
    """Minutes of the day [start, end) on some weekdays; Monday is 0.

    One that ends at or before its start goes on past midnight, and belongs to the day it began on.
    """

    weekdays: frozenset[int]
    start_minute: int
    end_minute: int
    price: float
    """Per kWh."""

    def holds(self, weekday: int, minute: int) -> bool:
        """Return whether a minute of a weekday lies within."""
        if self.start_minute < self.end_minute:
            return weekday in self.weekdays and self.start_minute <= minute < self.end_minute
        if weekday in self.weekdays and minute >= self.start_minute:
            return True
        return (weekday - 1) % 7 in self.weekdays and minute < self.end_minute


@dataclass(frozen=True, slots=True)
class Tariff:
    """A price per kWh, and others at some times; of several periods that hold a minute the first counts."""

    price: float
    periods: Sequence[Period] = ()

    def price_at(self, local: datetime) -> float:
        """Return the price per kWh at a local time: the clock on the wall decides, also on a day of 23 or 25 hours."""
        minute = local.hour * 60 + local.minute
        for period in self.periods:
            if period.holds(local.weekday(), minute):
                return period.price
        return self.price


def cost(energy_uj: int, pue: float, price_per_kwh: float) -> float:
    """Return what energy cost, in the price's currency: energy x PUE x price / 3.6e12, energy in microjoules."""
    return energy_uj * pue * price_per_kwh / 3.6e12
