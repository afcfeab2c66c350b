"""Settings of a Kubernetes cluster."""

from pathlib import Path

from pydantic import Field

from kwhere.resource_managers.kubernetes_access_settings import ClusterAccess
from kwhere.resource_managers.plugin import ManagerSettings


class KubernetesSettings(ManagerSettings, ClusterAccess):
    """How a cluster's API is reached, and whose its namespaces are.

    Without `url` and `kubeconfig` the server takes the service account of the pod it runs in.
    """

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
    stamp_key_file: Path | None = Field(
        default=None,
        description="The `key_file` of the admission webhook: pods that it stamped are charged to who made them.",
    )
