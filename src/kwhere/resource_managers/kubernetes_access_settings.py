"""Settings of reaching a Kubernetes API."""

from pathlib import Path

from pydantic import BaseModel, Field

from kwhere.transport.settings import HttpClientSettings


class ClusterAccess(BaseModel):
    """How a cluster's API is reached: by address, by kubeconfig, else as the service account of our own pod."""

    url: str | None = Field(
        default=None, description="Address of the API, https://…; none: the kubeconfig's, else the pod's own cluster."
    )
    http: HttpClientSettings = Field(
        default=HttpClientSettings(),
        description="Limits, authorities and credentials; `token_file` is read again when it changes.",
    )
    kubeconfig: Path | None = Field(default=None, description="File of addresses and credentials as kubectl reads it.")
    context: str | None = Field(default=None, description="Context of the kubeconfig; none: its current one.")
    page_size: int = Field(default=500, ge=1, le=10_000, description="Objects asked for at once.")
