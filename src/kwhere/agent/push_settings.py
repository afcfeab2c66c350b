"""Settings of the ledger's outbound road."""

from pydantic import BaseModel, ConfigDict, Field

from kwhere.transport.settings import HttpClientSettings


class PushSettings(BaseModel):
    """Sends the ledger to a server that cannot reach this node (config keys `push.…`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = Field(
        default=None, description="Address of the server that takes the ledger in, e.g. `https://kwhere.example`."
    )
    interval_seconds: float = Field(default=30.0, ge=1, le=3600, description="Seconds between two rounds of sending.")
    page_slots: int = Field(default=100, ge=1, le=1000, description="Most slots sent in one request.")
    client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="How the server is spoken to: CA, certificate, token, time-outs."
    )
