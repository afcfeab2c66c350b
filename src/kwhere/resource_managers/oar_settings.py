"""Settings of OAR."""

from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.transport.settings import HttpClientSettings


class OarVersion(StrEnum):
    """Which REST interface answers."""

    OAR2 = "2"
    OAR3 = "3"


class OarSettings(ManagerSettings):
    """OAR 2.5 or 3: by its commands on this machine, or by REST where `url` is set."""

    url: str | None = Field(
        default=None, description="Address of OAR's REST interface, as https://frontend/oarapi; none: by its commands."
    )
    version: OarVersion = Field(
        default=OarVersion.OAR2, description="Which REST interface: 2 (OAR 2.5) or 3. The commands tell by themselves."
    )
    http: HttpClientSettings = Field(
        default=HttpClientSettings(),
        description="Limits, trust and bearer token of REST; the token's file is read at each question.",
    )
    login_file: Path | None = Field(
        default=None, description="File with `user:password` in one line, for REST behind basic authentication."
    )
    page_size: int = Field(default=500, ge=1, le=100_000, description="Records asked for at once by REST.")
    command_prefix: tuple[str, ...] = Field(
        default=(), description="Words before oarstat and oarnodes, as `sudo -u oar`; none: none."
    )
    command_timeout_seconds: float = Field(default=120.0, gt=0, description="Longest time for one command, in seconds.")
    resources_seconds: float = Field(
        default=600.0, ge=0, description="How long the table of resources is used before it is asked for again, in s."
    )
    time_zone: str | None = Field(
        default=None, description="Zone of OAR's server, as Europe/Paris, for versions that write times as local text."
    )

    @field_validator("version", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else value  # `version: 3` is a number to YAML

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ValueError(f"expected a time zone as Europe/Paris, found {value!r}") from error
        return value

    @model_validator(mode="after")
    def _one_credential(self) -> "OarSettings":
        if self.login_file is not None and self.http.token_file is not None:
            raise ValueError("expected one of login_file and http.token_file")
        return self
