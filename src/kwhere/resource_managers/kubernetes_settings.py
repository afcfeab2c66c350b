"""Settings of a Kubernetes cluster."""

from pathlib import Path

from pydantic import Field

from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.transport.settings import HttpClientSettings


class KubernetesSettings(ManagerSettings):
    """How a cluster's API is reached, and whose its namespaces are.

    Without `url` and `kubeconfig` the server takes the service account of the pod it runs in.
    """

    url: str | None = Field(
        default=None, description="Address of the API, https://…; none: the kubeconfig's, else the pod's own cluster."
    )
    http: HttpClientSettings = Field(
        default=HttpClientSettings(),
        description="Limits, authorities and credentials; `token_file` is read again when it changes.",
    )
    kubeconfig: Path | None = Field(default=None, description="File of addresses and credentials as kubectl reads it.")
    context: str | None = Field(default=None, description="Context of the kubeconfig; none: its current one.")
    page_size: int = Field(default=500, ge=1, le=10_000, description="Pods asked for at once.")
    watch_seconds: float = Field(
        default=1.0, ge=1, le=20, description="How long one look waits for changes of pods, in seconds."
    )
    tenancy_seconds: float = Field(
        default=300.0, ge=1, description="Seconds between two looks at namespaces, profiles, notebooks and nodes."
    )
    kept_hours: float = Field(
        default=24.0, gt=0, le=336, description="How long pods that are gone stay in memory, in hours."
    )
    kubeflow: bool = Field(
        default=True, description="Whether Kubeflow's profiles, contributors and notebooks are asked for."
    )
    namespace_user: str = Field(default="", description="Label or annotation of namespaces that names their user.")
    namespace_project: str = Field(
        default="", description="Label or annotation of namespaces that names their project; none: the namespace."
    )
    namespace_group: str = Field(default="", description="Label or annotation of namespaces that names their group.")
    user_annotation: str = Field(
        default="",
        description="Annotation of pods that names their user; only one that users cannot write themselves.",
    )
