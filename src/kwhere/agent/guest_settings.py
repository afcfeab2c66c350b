"""Settings of what this host tells its virtual machines (`agent.guests.…`)."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class GuestVmSettings(BaseModel):
    """One virtual machine, named by its uuid, its name or its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: Path | None = Field(
        default=None, description="Directory that is shared with this guest alone; energy.json is kept in it."
    )
    owner: str | None = Field(default=None, min_length=1, description="User whose file it is, by name or number.")
    token_file: Path | None = Field(
        default=None, description="File of this guest's token for listen_addresses, mode 0600; 16 characters or more."
    )
    cid: int | None = Field(
        default=None, ge=3, le=2**32 - 2, description="vsock CID of this guest; default: as QEMU was started with."
    )


class GuestSettings(BaseModel):
    """Tells virtual machines on this host their own energy, every 10 s and nothing else; off unless a way is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vms: dict[str, GuestVmSettings] = Field(
        default_factory=dict, description="Guests by uuid, name or unit, each with its own ways."
    )
    directory: Path | None = Field(
        default=None,
        description="Directory in which every virtual machine gets one of its own, named after its unit, to be shared.",
    )
    owner: str | None = Field(
        default=None, min_length=1, description="User whose those directories and files are, by name or number."
    )
    listen_addresses: tuple[str, ...] = Field(
        default=(), description="Addresses at which guests ask with their tokens: host:port; TLS, or loopback only."
    )
    web_config_file: Path | None = Field(
        default=None, description="TLS of listen_addresses, in the format of the agent's web.config_file."
    )
    vsock_port: int | None = Field(
        default=None, ge=1, le=2**32 - 2, description="vsock port at which every guest with a CID is told its own."
    )

    @property
    def is_on(self) -> bool:
        """Return whether any guest can be told anything."""
        return bool(self.vms or self.directory or self.vsock_port)
