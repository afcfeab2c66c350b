"""Settings of the agent's HTTP face."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_PORT = 9810


class HttpSettings(BaseModel):
    """Where the agent answers, to whom, and what strangers may see (config keys `web.…`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen_addresses: tuple[str, ...] = Field(
        default=(f"127.0.0.1:{DEFAULT_PORT}",),
        description="Addresses to listen on: HOST:PORT, [IPV6]:PORT, :PORT for every interface, or unix:PATH.",
    )
    config_file: Path | None = Field(
        default=None,
        description="A Prometheus web config file with TLS and basic authentication; read again when it changes.",
    )
    allow_unprotected: bool = Field(
        default=False,
        description="Whether to listen beyond loopback without TLS and authentication.",
    )
    systemd_socket: bool = Field(
        default=False, description="Whether to take the listening sockets from systemd instead of listen_addresses."
    )
    next_free_port: bool = Field(
        default=False, description="Whether to take one of the next 20 ports where a port is taken."
    )
    anonymous_names: bool = Field(
        default=True,
        description="Whether unauthenticated /metrics tells user, project, name and the user:comm of process groups.",
    )
    max_connections: int = Field(default=128, ge=4, le=10_000, description="Connections held at once; more get a 503.")
    reload_seconds: float = Field(
        default=5.0, gt=0, le=3600, description="Seconds between looks at the web config file and its certificates."
    )
