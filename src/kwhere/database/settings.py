"""Where the account is kept, for how long, and what the site says of itself."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kwhere.database.figure_settings import CostSettings, EmbodiedEntry, PueEntry, Since, WaterEntry
from kwhere.database.grid import to_ns
from kwhere.database.local_time import to_utc


class DatabaseSettings(BaseModel):
    """The database behind the server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(
        default="sqlite:///kwhere.db",
        description="SQLAlchemy URL: `sqlite:////var/lib/kwhere/kwhere.db` or `postgresql+psycopg://user@host/name`. "
        "A password belongs in `password_file` or PGPASSFILE, not here.",
    )
    password_file: str | None = Field(default=None, description="File that holds the database password, one line.")
    pool_size: int = Field(default=5, ge=1, le=100, description="Connections kept open (PostgreSQL).")
    busy_seconds: float = Field(default=30.0, gt=0, description="Seconds to wait for a locked SQLite file.")


class RetentionSettings(BaseModel):
    """How long each resolution is kept; days and lifetime totals are kept for ever."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slots_hours: int = Field(default=48, ge=1, description="Hours that slots are kept as they were served.")
    buckets_days: int = Field(default=14, ge=1, description="Days that 5-minute usage is kept.")
    hours_days: int = Field(default=730, ge=31, description="Days that hourly usage is kept.")
    audit_days: int = Field(default=730, ge=1, description="Days that the audit log is kept.")


class SiteSettings(BaseModel):
    """What the account needs to know of the site."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_zone: str = Field(default="UTC", description="IANA time zone of days and weeks, e.g. `Europe/Paris`.")
    zone: str | None = Field(
        default=None,
        description="Zone of emission factors, e.g. `FR`. One chosen on the page wins; without one: no grams.",
    )
    cluster_zones: dict[str, str] = Field(default_factory=dict, description="Zone by cluster, where it differs.")
    pue_ratio: float = Field(
        default=1.0,
        ge=1.0,
        le=5.0,
        description="Power usage effectiveness of the site, a ratio. A change holds from then on.",
    )
    pue: tuple[PueEntry, ...] = Field(
        default=(), description="PUE by the time it begins; before the first `pue_ratio` holds. An edit is retroactive."
    )
    pue_file: Path | None = Field(
        default=None, description="CSV with columns `start` and `pue`, read again when it changes; in place of `pue`."
    )
    cost: CostSettings = Field(default=CostSettings(), description="What energy costs; off without a tariff.")
    water: tuple[WaterEntry, ...] = Field(
        default=(), description="Water per kWh by the time it begins; before the first there is no figure. None: off."
    )
    embodied: tuple[EmbodiedEntry, ...] = Field(
        default=(), description="Embodied carbon by type of node; the first whose pattern fits counts. None: off."
    )

    @field_validator("time_zone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"unknown time zone {value!r}") from error
        return value

    @model_validator(mode="after")
    def _in_order(self) -> "SiteSettings":
        if self.pue and self.pue_file is not None:
            raise ValueError("expected pue or pue_file, found both")
        for key, entries in (("pue", self.pue), ("cost.tariffs", self.cost.tariffs), ("water", self.water)):
            self._check_starts(key, [entry.since for entry in entries])
        return self

    def _check_starts(self, key: str, since: Sequence[Since]) -> None:
        starts = [self.start_ns(moment) for moment in since]
        if any(one >= other for one, other in pairwise(starts)):
            raise ValueError(f"{key}: expected entries in the order of `since`, each later than the one before")

    def start_ns(self, since: Since) -> int:
        """Return UTC ns of a moment of the settings. Raises ValueError for one that the clocks skip or repeat."""
        return to_ns(to_utc(since, self.tz))

    @property
    def tz(self) -> ZoneInfo:
        """Return the time zone of the site's days."""
        return ZoneInfo(self.time_zone)
