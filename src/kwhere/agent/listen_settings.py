"""What every program that answers over HTTP beside the server is told of its listening."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def listen_field(port: int) -> Any:
    """Return the key of the addresses to listen on: by default loopback with `port`."""
    return Field(
        default=(f"127.0.0.1:{port}",),
        description="Addresses to listen on: HOST:PORT, [IPV6]:PORT, :PORT for every interface, or unix:PATH.",
    )


class ListenSettings(BaseModel):
    """How many are answered at once, and how soon a changed certificate is taken up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_connections: int = Field(default=512, ge=4, le=10_000, description="Connections held at once; more get a 503.")
    reload_seconds: float = Field(
        default=5.0, gt=0, le=3600, description="Seconds between looks at the web config file and its certificates."
    )
