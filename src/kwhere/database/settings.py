"""Where the account is kept, for how long, and what the site says of itself."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator


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
    pue_ratio: float = Field(default=1.0, ge=1.0, le=5.0, description="Power usage effectiveness of the site, a ratio.")

    @field_validator("time_zone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"unknown time zone {value!r}") from error
        return value

    @property
    def tz(self) -> ZoneInfo:
        """Return the time zone of the site's days."""
        return ZoneInfo(self.time_zone)
