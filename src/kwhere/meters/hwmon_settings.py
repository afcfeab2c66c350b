"""Settings of hwmon sensors (`meters.hwmon.…`)."""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kwhere.core.terms import DomainKind

_DOMAINS = (DomainKind.CPU, DomainKind.DRAM, DomainKind.PLATFORM)


class SiteSensor(BaseModel):
    """What a sensor measures that kwhere does not know, e.g. of a board's own monitor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chip: str = Field(min_length=1, description="Regular expression of the chip's `name`.")
    label: str = Field(
        default=".*",
        description="Regular expression of its `powerN_label` or `energyN_label`; a first group is the socket.",
    )
    domain: DomainKind = Field(description="What it measures: cpu, dram or platform.")

    @field_validator("chip", "label")
    @classmethod
    def _is_expression(cls, text: str) -> str:
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"expected a regular expression, found {text!r} ({error})") from error
        return text

    @field_validator("domain")
    @classmethod
    def _is_known(cls, domain: DomainKind) -> DomainKind:
        if domain not in _DOMAINS:
            raise ValueError(f"expected cpu, dram or platform, found {domain}")
        return domain


class HwmonSettings(BaseModel):
    """Which sensors of hwmon count, beside those that are known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sensors: tuple[SiteSensor, ...] = Field(
        default=(), description="Sensors that the site knows; of several that fit, the first; before the known ones."
    )
