"""Settings of a Proxmox VE cluster."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.transport.settings import HttpClientSettings


class ProxmoxSettings(ManagerSettings):
    """How a cluster's API is reached, and whose its guests are. Any of its nodes answers for all of them."""

    url: str = Field(description="Address of a node's API, as https://pve1.example:8006.")
    token_file: Path = Field(
        description="File with an API token, one line: USER@REALM!TOKENID=SECRET; the role PVEAuditor is enough."
    )
    owner_tag: str = Field(
        default="owner-", min_length=1, description="Tags of guests that begin with this name their user: owner-alice."
    )
    gpu_mappings: Mapping[str, str] = Field(
        default_factory=dict,
        description="GPU model by resource mapping of passed-through devices; mappings with `gpu` in their name count"
        " in any case.",
    )
    kept_seconds: float = Field(
        default=3600.0, ge=1, description="How long a guest's configuration is taken for unchanged, in seconds."
    )
    http: HttpClientSettings = Field(
        default=HttpClientSettings(), description="Time limits, size limit and authorities."
    )

    @model_validator(mode="after")
    def _one_token(self) -> "ProxmoxSettings":
        if self.http.token_file is not None:
            raise ValueError("http.token_file: Proxmox takes no bearer token; set token_file")
        return self
