"""Settings of who may come in at all."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class AccessSettings(BaseModel):
    """How the API and the pages are kept from strangers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_file: Path | None = Field(
        default=None,
        description="File with the access token (mode 0600), asked for by `Authorization: Bearer` and by the cookie of "
        "the pages. Required where the server listens off loopback. No unit.",
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="Host names, besides loopback's and the address listened on, that a request may name in its `Host` "
        "header; others are refused. No unit.",
    )
    secure_cookie: bool = Field(
        default=False,
        description="Mark the cookie `Secure`: set it where a proxy in front serves HTTPS. No unit.",
    )
    cookie_days: int = Field(default=30, ge=1, le=400, description="How long a browser keeps the cookie, in days.")
