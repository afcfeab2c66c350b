"""Settings of the admission webhook (`admission_webhook`)."""

from pathlib import Path

from pydantic import Field

from kwhere.agent.listen_settings import ListenSettings, listen_field

DEFAULT_PORT = 9443


class AdmissionWebhookSettings(ListenSettings):
    """How a Kubernetes API server asks who made what; nothing runs unless `kwhere admission-webhook` is started."""

    listen_addresses: tuple[str, ...] = listen_field(DEFAULT_PORT)
    config_file: Path | None = Field(
        default=None,
        description="Prometheus web config file: TLS, needed beyond loopback; read again when it or a certificate"
        " changes. With required client certificates only the API server is answered.",
    )
    key_file: Path | None = Field(
        default=None,
        description="File with the key that seals names, at least 32 characters, one key a line: the first seals. The"
        " server's `stamp_key_file` is the same one.",
    )
    controllers: tuple[str, ...] = Field(
        default=(
            "system:kube-controller-manager",
            "system:kube-scheduler",
            "system:node:*",
            "system:serviceaccount:kube-system:*",
            "system:serviceaccount:kubeflow:*",
            "system:serviceaccount:kubeflow-system:*",
            "system:serviceaccount:argo:*",
            "system:serviceaccount:jobset-system:*",
            "system:serviceaccount:kserve:*",
            "system:serviceaccount:knative-serving:*",
            "system:serviceaccount:kuberay-operator:*",
            "system:serviceaccount:kuberay-system:*",
            "system:serviceaccount:kueue-system:*",
            "system:serviceaccount:lws-system:*",
            "system:serviceaccount:openshift-*",
            "system:serviceaccount:spark-operator:*",
        ),
        description="Users, `*` for any characters, who make objects for others: controllers and dashboards. Their own"
        " name is never written, and of what they make a stamp stays only if its seal is good.",
    )
    max_body_bytes: int = Field(
        default=8 << 20, ge=1 << 16, le=64 << 20, description="Longest review that is read; a longer one is refused."
    )
