"""Settings of what is derived from energy beside grams: PUE by time, cost, water; and of embodied carbon."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kwhere.energy.embodied import SECONDS_PER_YEAR, NodeType, Range
from kwhere.energy.tariff import MINUTES_PER_DAY, Period, Tariff
from kwhere.energy.water import WaterUse

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)")
_GRID_MINUTES = 5
"""Five minutes is the finest that is kept of energy."""


def _no_number(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError(f"expected a date or time such as 2026-01-01, found the number {value}")
    return value


Since = Annotated[
    datetime | date,
    BeforeValidator(_no_number),
    Field(description="From when on: a date (midnight in the site's time zone), or a time, local or with its offset."),
]


def _minute(value: object) -> object:
    """Return minutes since midnight of `HH:MM`; YAML itself reads an unquoted 22:00 as 1320."""
    if isinstance(value, str):
        found = _CLOCK.fullmatch(value.strip())
        if found is None:
            raise ValueError(f"expected a time of day such as 07:00, found {value[:20]!r}")
        value = int(found[1]) * 60 + int(found[2])
    if isinstance(value, int) and (value % _GRID_MINUTES or not 0 <= value <= MINUTES_PER_DAY):
        raise ValueError(f"expected a time from 00:00 to 24:00 on a multiple of {_GRID_MINUTES} minutes")
    return value


Clock = Annotated[int, BeforeValidator(_minute)]


class Weekday(StrEnum):
    """Days of a week, Monday first."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


class PueEntry(BaseModel):
    """A PUE from a time on."""

    model_config = _STRICT

    since: Since
    ratio: float = Field(ge=1.0, le=5.0, description="Power usage effectiveness from then on, a ratio.")


class PriceTime(BaseModel):
    """Times of the week at which another price holds."""

    model_config = _STRICT

    days: tuple[Weekday, ...] = Field(
        default=tuple(Weekday), min_length=1, description="On which days: mon, tue, wed, thu, fri, sat, sun."
    )
    start: Clock = Field(
        default=0, lt=MINUTES_PER_DAY, description="From this time of day on, `HH:MM` on the site's wall clock."
    )
    end: Clock = Field(
        default=MINUTES_PER_DAY,
        description="Up to this time of day; at or before `start`: past midnight, until then on the next day.",
    )
    price_per_kwh: float = Field(ge=-1e6, le=1e6, description="Price per kWh, in the currency of the tariff.")

    def period(self) -> Period:
        """Return it as the arithmetic wants it."""
        order = list(Weekday)
        days = frozenset(order.index(day) for day in self.days)
        return Period(days, self.start, self.end, self.price_per_kwh)


class TariffEntry(BaseModel):
    """A tariff from a time on."""

    model_config = _STRICT

    since: Since
    price_per_kwh: float = Field(ge=-1e6, le=1e6, description="Price per kWh at all other times.")
    periods: tuple[PriceTime, ...] = Field(
        default=(), description="Times at which another price holds; the first that fits counts."
    )

    def tariff(self) -> Tariff:
        """Return it as the arithmetic wants it."""
        return Tariff(self.price_per_kwh, tuple(period.period() for period in self.periods))


class CostSettings(BaseModel):
    """What energy costs. Off while there is no tariff."""

    model_config = _STRICT

    currency: str = Field(default="EUR", pattern=r"^[A-Z]{3}$", description="Currency of all prices, as in ISO 4217.")
    tariffs: tuple[TariffEntry, ...] = Field(
        default=(), description="Tariffs by the time they begin; before the first there is no cost. None: off."
    )


class WaterEntry(BaseModel):
    """Water per kWh from a time on."""

    model_config = _STRICT

    since: Since
    site_litres_per_kwh: float = Field(
        default=0.0, ge=0, le=1000, description="WUE: litres that the site evaporates per kWh of IT energy."
    )
    grid_litres_per_kwh: float = Field(
        default=0.0, ge=0, le=1000, description="EWIF: litres that making a kWh of electricity takes."
    )

    def use(self) -> WaterUse:
        """Return it as the arithmetic wants it."""
        return WaterUse(self.site_litres_per_kwh, self.grid_litres_per_kwh)


class EmbodiedEntry(BaseModel):
    """What making a node of a type emitted."""

    model_config = _STRICT

    nodes: str = Field(min_length=1, description="Names of its nodes; `*` and `?` stand for other characters.")
    kilograms: float = Field(gt=0, le=1e7, description="TE: kg of CO2e that making one node emitted.")
    kilograms_min: float | None = Field(default=None, gt=0, description="Its lower bound, kg.  [`kilograms`]")
    kilograms_max: float | None = Field(default=None, gt=0, le=1e7, description="Its upper bound, kg.  [`kilograms`]")
    life_years: float = Field(default=4.0, gt=0, le=50, description="How long a node serves, in years of 8760 hours.")

    @model_validator(mode="after")
    def _ordered(self) -> "EmbodiedEntry":
        bounds = self._range()
        if not bounds.low <= bounds.value <= bounds.high:
            raise ValueError("expected kilograms_min <= kilograms <= kilograms_max")
        return self

    def _range(self) -> Range:
        low = self.kilograms if self.kilograms_min is None else self.kilograms_min
        high = self.kilograms if self.kilograms_max is None else self.kilograms_max
        return Range(self.kilograms, low, high)

    def node_type(self) -> NodeType:
        """Return it as the arithmetic wants it: grams and seconds."""
        return NodeType(self._range().times(1000.0), self.life_years * SECONDS_PER_YEAR)


def node_type_of(entries: Sequence[EmbodiedEntry], node: str) -> NodeType | None:
    """Return the type of a node: of the first entry whose pattern fits; None where none does."""
    return next((entry.node_type() for entry in entries if fnmatchcase(node, entry.nodes)), None)
