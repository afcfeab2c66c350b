"""Settings of energy sources (`meters.…`)."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kwhere.meters.http_json_settings import HttpJsonSettings
from kwhere.meters.hwmon_settings import HwmonSettings
from kwhere.meters.hypervisor_settings import HypervisorSettings
from kwhere.meters.ipmi_dcmi_settings import IpmiDcmiSettings
from kwhere.meters.model_settings import ModelSettings
from kwhere.meters.perf_settings import PerfSettings
from kwhere.meters.redfish_settings import RedfishSettings
from kwhere.meters.sources import PLATFORM_ORDER, SOURCES


class MeterSettings(BaseModel):
    """Which energy sources are read, and what is believed of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    off: frozenset[str] = Field(
        default=frozenset(),
        description="Sources that are not read: powercap, perf, hwmon_power, model, … (docs/meters.md has all).",
    )
    platform: str | None = Field(
        default=None,
        min_length=1,
        description="Source of the node's total; default: the first that works, in the order of docs/meters.md.",
    )
    platform_headroom_watts: float = Field(
        default=2000.0,
        ge=0,
        le=100_000,
        description="Watts that a node may draw beside its components; a total above that is nonsense.",
    )
    ipmi_dcmi: IpmiDcmiSettings = Field(default=IpmiDcmiSettings(), description="The BMC, asked by IPMI DCMI.")

    hypervisor: HypervisorSettings = Field(
        default=HypervisorSettings(), description="Where a virtual machine finds its own energy; it alone counts then."
    )

    model: ModelSettings = Field(default=ModelSettings(), description="The model, where nothing measures.")

    hwmon: HwmonSettings = Field(default_factory=HwmonSettings, description="Sensors that only the site knows.")
    perf: PerfSettings = Field(default_factory=PerfSettings, description="RAPL by perf events.")

    http_json: HttpJsonSettings = Field(
        default=HttpJsonSettings(), description="A PDU or a site's own store of readings, asked by HTTP."
    )
    redfish: RedfishSettings = Field(default=RedfishSettings(), description="The BMC, asked by Redfish.")

    @field_validator("off")
    @classmethod
    def _are_sources(cls, value: frozenset[str]) -> frozenset[str]:
        unknown = sorted(value - SOURCES)
        if unknown:
            raise ValueError(f"expected names of sources ({', '.join(sorted(SOURCES))}), found {unknown[0]!r}")
        return value

    @field_validator("platform")
    @classmethod
    def _measures_the_node(cls, value: str | None) -> str | None:
        if value is not None and value not in PLATFORM_ORDER:
            raise ValueError(f"expected a source of the node's total ({', '.join(PLATFORM_ORDER)})")
        return value

    @property
    def platform_headroom_uw(self) -> int:
        """Return the headroom in microwatts."""
        return round(self.platform_headroom_watts * 1_000_000)
