"""Settings of the dcgm-exporter face (`dcgm_exporter.…`); the program `dcgm-exporter` has a flag for each."""

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kwhere.core.errors import ConfigError
from kwhere.dcgm.device_choice import parse_choice
from kwhere.dcgm.names import GpuIdType, HostnameLabel, MappingLabels, MigValues

DEFAULT_FILE = Path("/etc/dcgm-exporter/default-counters.csv")
NO_CONFIGMAP = "none"
IN_MILLISECONDS = frozenset({"collect_interval", "xid_count_window_size", "clock_events_count_window_size"})
_CONFIGMAP = re.compile(r"[a-z0-9.-]+:[a-z0-9.-]+", re.ASCII)
_PREFIX = re.compile(r"(?!__)(?:[a-zA-Z_][a-zA-Z0-9_]*)?", re.ASCII)


class DcgmExporterSettings(BaseModel):
    """What dcgm-exporter 4.8.2 can be told, and a few things more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=False, description="Whether the agent serves this face too.")
    collectors: Path = Field(
        default=DEFAULT_FILE,
        description="Counters file: FIELD, type, help; read again when it changes. The default need not exist.",
    )
    address: str = Field(default=":9400", description="Address to listen on: :PORT, HOST:PORT or [IPV6]:PORT.")
    collect_interval: int = Field(
        default=30_000,
        ge=100,
        le=3_600_000,
        description="Milliseconds between two samples of clock events; GPUs are read as often, at least every 2 s.",
    )
    kubernetes: bool = Field(default=False, description="Whether series bear the pods that hold a GPU.")
    use_old_namespace: bool = Field(
        default=False, description="Whether labels are those of 1.x: uuid, pod_name, pod_namespace, container_name."
    )
    configmap_data: str = Field(
        default=NO_CONFIGMAP,
        description="NAMESPACE:NAME of a ConfigMap whose key `metrics` is the counters file; none: the file.",
    )
    kubernetes_enable_pod_labels: bool = Field(default=False, description="Whether pods' own labels are added.")
    kubernetes_enable_pod_uid: bool = Field(default=False, description="Whether the label pod_uid is added.")
    kubernetes_gpu_id_type: GpuIdType = Field(
        default=GpuIdType.UID, description="How a device plugin names devices; both kinds are always understood."
    )
    kubernetes_pod_label_allowlist_regex: tuple[str, ...] = Field(
        default=(), description="Expressions; pod labels whose names hold one are added. Empty: all."
    )
    kubernetes_virtual_gpus: bool = Field(
        default=False, description="Whether each pod and replica on a shared GPU has series of its own."
    )
    kubernetes_enable_dra: bool = Field(default=False, description="Whether devices of resource claims are mapped.")
    kubernetes_label_prefix: str = Field(
        default="", description="Stands before the labels of pods, so that a scrape leaves them as they are."
    )
    nvidia_resource_names: tuple[str, ...] = Field(default=(), description="More resource names of GPUs.")
    pod_resources_kubelet_socket: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"), description="kubelet's socket of pod resources."
    )
    hpc_job_mapping_dir: Path | None = Field(
        default=None, description="Directory of job files, one per GPU, one job id per line."
    )
    devices: str = Field(default="f", description="GPUs shown: f, g, g:0,2-3, i or i:0-6.")
    switch_devices: str = Field(default="f", description="Checked, without effect: NvSwitches are not read.")
    cpu_devices: str = Field(default="f", description="Checked, without effect: CPUs are other collectors' work.")
    no_hostname: bool = Field(default=False, description="Whether the label Hostname is left out.")
    hostname_label: HostnameLabel = Field(
        default=HostnameLabel.UPPER, description="The label of the node's name: Hostname, hostname or both."
    )
    mig_device_values: MigValues = Field(
        default=MigValues.REPEAT,
        description="What belongs to a whole divided GPU: repeat on each instance, or once without GPU_I_ID.",
    )
    mapping_labels: MappingLabels = Field(
        default=MappingLabels.SERIES, description="Where pods and jobs are told: series, info (one to join) or both."
    )
    remote_hostengine_info: str = Field(
        default="", description="HOST:PORT; names the host in the label Hostname. GPUs are those of this machine."
    )
    xid_count_window_size: int = Field(
        default=300_000, ge=1000, le=86_400_000, description="Milliseconds in which XIDs are counted."
    )
    clock_events_count_window_size: int = Field(
        default=300_000, ge=1000, le=86_400_000, description="Milliseconds in which clock events are counted."
    )
    replace_blanks_in_model_name: bool = Field(
        default=False, description="Whether blanks in a model's name become dashes."
    )
    web_config_file: Path | None = Field(default=None, description="Prometheus web config file: TLS, users.")
    web_systemd_socket: bool = Field(default=False, description="Whether systemd hands over the listening socket.")
    log_format: Literal["text", "json"] = Field(default="text", description="How the program's log is written.")
    debug: bool = Field(default=False, description="Whether the program's log tells more.")

    @field_validator("devices", "switch_devices", "cpu_devices")
    @classmethod
    def _choice(cls, value: str) -> str:
        try:
            parse_choice(value, "devices")
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("devices: ").partition(", found")[0]) from None
        return value

    @field_validator("kubernetes_pod_label_allowlist_regex")
    @classmethod
    def _expressions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for expression in value:
            try:
                re.compile(expression)
            except re.error as error:
                raise ValueError(f"expected regular expressions: {error}") from None
        return value

    @field_validator("configmap_data")
    @classmethod
    def _configmap(cls, value: str) -> str:
        if value != NO_CONFIGMAP and not _CONFIGMAP.fullmatch(value):
            raise ValueError("expected NAMESPACE:NAME or none")
        return value

    @field_validator("kubernetes_label_prefix")
    @classmethod
    def _prefix(cls, value: str) -> str:
        if not _PREFIX.fullmatch(value):
            raise ValueError("expected the beginning of a label's name, not __, which Prometheus drops")
        return value
