"""Settings of the HTTP JSON meter (`meters.http_json`): a PDU, a site's own store of readings, without code."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kwhere.core.terms import DomainKind
from kwhere.meters.json_path import parse_path
from kwhere.meters.node_url import NodeNameRule, check_question
from kwhere.transport.device_settings import DeviceClientSettings


class JsonUnit(StrEnum):
    """Units of a reading: a power, or energy since some beginning."""

    MILLIWATT = "mW"
    WATT = "W"
    KILOWATT = "kW"
    JOULE = "J"
    KILOJOULE = "kJ"
    WATT_HOUR = "Wh"
    KILOWATT_HOUR = "kWh"

    @property
    def is_power(self) -> bool:
        """Return whether this is a power."""
        return self in (JsonUnit.MILLIWATT, JsonUnit.WATT, JsonUnit.KILOWATT)

    @property
    def micro(self) -> int:
        """Return microwatts or microjoules in one of it."""
        return _MICRO[self]


_MICRO = {
    JsonUnit.MILLIWATT: 1_000,
    JsonUnit.WATT: 1_000_000,
    JsonUnit.KILOWATT: 1_000_000_000,
    JsonUnit.JOULE: 1_000_000,
    JsonUnit.KILOJOULE: 1_000_000_000,
    JsonUnit.WATT_HOUR: 3_600_000_000,
    JsonUnit.KILOWATT_HOUR: 3_600_000_000_000,
}


_DOMAINS = (DomainKind.PLATFORM, DomainKind.CPU, DomainKind.DRAM, DomainKind.GPU)


class JsonReading(BaseModel):
    """One figure in one answer: an outlet, a feed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(
        description="Address that is asked; {node}, {short} and {name} as in meters.redfish.url. No secret in it."
    )
    path: str = Field(description="Where the figure is: keys with dots, [n], [key=value], e.g. outlets[id=3].power.")
    unit: JsonUnit = Field(description="mW, W, kW (a power) or J, kJ, Wh, kWh (a counter).")
    time_path: str | None = Field(
        default=None,
        description="Where the time of the figure is (ISO 8601 or epoch seconds); of several figures at path the newest"
        " counts.",
    )
    domain: DomainKind = Field(default=DomainKind.PLATFORM, description="What is measured: platform, cpu, dram or gpu.")
    index: str = Field(default="", max_length=32, description="Socket or device, for domains cpu, dram and gpu.")

    @field_validator("url")
    @classmethod
    def _is_template(cls, value: str) -> str:
        return check_question(value)

    @field_validator("path", "time_path")
    @classmethod
    def _is_path(cls, value: str | None) -> str | None:
        if value is not None:
            parse_path(value)
        return value

    @model_validator(mode="after")
    def _index_fits(self) -> "JsonReading":
        if (self.domain is DomainKind.PLATFORM) != (self.index == ""):
            raise ValueError("expected index for cpu, dram and gpu, none for platform")
        if self.domain not in _DOMAINS:
            raise ValueError("domain: expected platform, cpu, dram or gpu")
        return self


class HttpJsonSettings(BaseModel):
    """Figures of power or energy that HTTP services give as JSON. Several of one domain are summed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    readings: tuple[JsonReading, ...] = Field(
        default=(),
        max_length=64,
        description="Figures; all of a domain must be there (both outlets of a node with two power supplies), or none"
        " counts.",
    )
    node_name: NodeNameRule = Field(default=NodeNameRule(), description="How {name} is made from the node's name.")
    client: DeviceClientSettings = Field(
        default=DeviceClientSettings(), description="User and password file, or token_file; TLS, time limits."
    )
    refresh_seconds: float = Field(
        default=5.0, ge=1, le=600, description="Seconds from one question to the next; power holds for three of them."
    )
    includes_gpus: bool = Field(
        default=True, description="Whether the GPUs of this node are fed from what is measured here (platform)."
    )

    @model_validator(mode="after")
    def _one_kind_and_host(self) -> "HttpJsonSettings":
        if len({reading.unit.is_power for reading in self.readings}) > 1:
            raise ValueError("readings: expected powers or counters, found both")
        hosts = {"/".join(reading.url.split("/", 3)[:3]) for reading in self.readings}
        has_secret = self.client.username is not None or self.client.token_file is not None
        if has_secret and len(hosts) > 1:
            raise ValueError("readings: expected one host, since a password or token is shown to it")
        return self
