"""Settings of the face in the names of AMD's device-metrics-exporter (`amd_exporter.…`)."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class AmdExporterSettings(BaseModel):
    """Whether the agent serves AMD's names too, where, and in which release's spelling."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=False, description="Whether the agent serves this face too.")
    address: str = Field(default=":5000", description="Address to listen on: :PORT, HOST:PORT or [IPV6]:PORT.")
    web_config_file: Path | None = Field(
        default=None, description="A Prometheus web config file with TLS and basic authentication."
    )
    prefix: str = Field(
        default="",
        pattern=r"^(?:[a-zA-Z_][a-zA-Z0-9_]*)?$",
        description="Stands before every name; newer releases of AMD's exporter have amd_.",
    )
    short_clock_types: bool = Field(
        default=False,
        description="Whether clock_type is system and memory, as in newer releases, not GPU_CLOCK_TYPE_SYSTEM.",
    )
