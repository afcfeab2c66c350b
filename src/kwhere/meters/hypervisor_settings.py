"""Settings of a guest's feed (`meters.hypervisor.…`)."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kwhere.transport.settings import HttpClientSettings


class HypervisorSettings(BaseModel):
    """Where this virtual machine finds its own energy, as its host's agent tells it; one way at most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = Field(
        default=None, description="File of the feed on a share of the host (virtiofs, 9p): its `energy.json`."
    )
    url: str | None = Field(default=None, description="Address of the host's guest listener, e.g. https://hv1:9813.")
    client: HttpClientSettings = Field(
        default=HttpClientSettings(
            connect_timeout_seconds=3, read_timeout_seconds=5, total_timeout_seconds=8, max_answer_bytes=64 * 1024
        ),
        description="How that listener is asked; token_file holds this guest's token.",
    )
    vsock_port: int | None = Field(default=None, ge=1, le=2**32 - 2, description="Port of the host's vsock listener.")
    interval_seconds: float = Field(
        default=5.0, ge=0.1, le=60.0, description="Seconds between two looks at the feed; it moves every 10 s."
    )
    stale_seconds: float = Field(
        default=60.0, ge=1.0, le=3600.0, description="Seconds after which a feed that stands still counts as stale."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.file, self.url, self.vsock_port)) > 1:
            raise ValueError("expected one of file, url and vsock_port, found several")
        return self

    @property
    def is_set(self) -> bool:
        """Return whether a way is named."""
        return (self.file, self.url, self.vsock_port) != (None, None, None)
