"""Settings of the agent's HTTP face."""

from pathlib import Path

from pydantic import Field

from kwhere.agent.listen_settings import ListenSettings, listen_field

DEFAULT_PORT = 9810


class HttpSettings(ListenSettings):
    """Where the agent answers, to whom, and what strangers may see (config keys `web.…`)."""

    listen_addresses: tuple[str, ...] = listen_field(DEFAULT_PORT)
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
