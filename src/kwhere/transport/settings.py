"""Settings of an HTTP client, embedded by every part that speaks to another machine."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class HttpClientSettings(BaseModel):
    """How one remote is spoken to: limits, trust, credentials."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect_timeout_seconds: float = Field(default=5.0, gt=0, description="Longest wait for a connection, in seconds.")
    read_timeout_seconds: float = Field(default=30.0, gt=0, description="Longest wait for the next bytes, in seconds.")
    total_timeout_seconds: float = Field(
        default=120.0, gt=0, description="Longest time for one whole answer, in seconds."
    )
    max_answer_bytes: int = Field(
        default=64 * 1024 * 1024, gt=0, description="Largest answer taken in, in bytes after decompression."
    )
    ca_file: Path | None = Field(default=None, description="PEM file of certificate authorities; none: the system's.")
    client_certificate_file: Path | None = Field(
        default=None, description="PEM file of the certificate shown to the remote."
    )
    client_key_file: Path | None = Field(
        default=None, description="PEM file of its key; none: in the certificate's file."
    )
    token_file: Path | None = Field(default=None, description="File whose first line is sent as a bearer token.")
    server_name: str | None = Field(
        default=None, description="Name the remote's certificate must carry; none: the host of its address."
    )
    proxy_url: str | None = Field(
        default=None, description="HTTP proxy to go through; the environment's is never used."
    )
