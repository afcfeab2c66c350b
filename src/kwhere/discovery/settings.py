"""Settings of finding units (`units.…`)."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kwhere.transport.settings import HttpClientSettings

MANAGERS = ("slurm", "oar", "kubernetes", "libvirt", "docker", "podman", "lxc", "run", "systemd", "session", "process")


class ProcessMode(StrEnum):
    """Whether processes that no cgroup unit owns become units, grouped by user and command."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class SiteRule(BaseModel):
    """A site's own way of naming cgroups, tried before every built-in rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manager: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Manager label of the units found, lower case.")
    pattern: str = Field(
        description="Regular expression searched for in the cgroup path; group `unit` is the id; `host`, `name`, `user`"
        " and `uid` are optional groups."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            compiled = re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"pattern {self.pattern!r}: not a regular expression: {error}") from error
        unknown = set(compiled.groupindex) - {"unit", "host", "name", "user", "uid"}
        if "unit" not in compiled.groupindex or unknown:
            raise ValueError(
                f"pattern {self.pattern!r}: expected a group `unit` and none but host, name, user, uid;"
                f" found {', '.join(sorted(compiled.groupindex)) or 'none'}"
            )
        return self


class KubeletSettings(BaseModel):
    """How this node's kubelet is asked for its pods; without an address it is not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = Field(
        default=None,
        description="https://NODE:10250, which wants the right to get nodes/pods (nodes/proxy before Kubernetes 1.33),"
        " or the read-only http://127.0.0.1:10255; none: pods are named by the node's directories alone.",
    )
    client: HttpClientSettings = Field(
        default=HttpClientSettings(), description="Limits, authorities and credentials; read anew for each question."
    )
    interval_seconds: float = Field(
        default=5.0,
        ge=1,
        le=3600,
        description="Least time between two questions, in seconds; it is asked when a pod is new.",
    )
    retry_seconds: float = Field(
        default=60.0, ge=1, le=3600, description="Time after a question that failed, in seconds."
    )

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return value if value is None else value.rstrip("/")


class UnitsSettings(BaseModel):
    """How units are found on this node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    managers: tuple[str, ...] | None = Field(
        default=None,
        description="Managers whose units are shown one by one. Default: all, but systemd services and login sessions"
        " fold into one unit `services` where slurmd, kubelet, libvirtd or OAR is found.",
    )
    processes: ProcessMode = Field(
        default=ProcessMode.AUTO,
        description="Process groups by user and command for processes outside every cgroup unit: auto (where most"
        " processes lie in the root cgroup), on, off.",
    )
    site_rules: tuple[SiteRule, ...] = Field(default=(), description="A site's own rules, tried first, in order.")
    rescan_seconds: float = Field(
        default=60.0, ge=1, le=3600, description="Seconds between full scans of the cgroup tree, a net under events."
    )
    per_cpu: bool = Field(
        default=False,
        description="Read each unit's CPU time by CPU too where cgroup v1 tells it: exact sockets for units that no"
        " cpuset pins, at twice the cost of a step.",
    )
    max_watches: int = Field(
        default=20_000, ge=0, description="Directories watched for new units at most; the rest waits for the scan."
    )
    oar_prefix: str = Field(
        default="oar", pattern=r"^[^/]+$", description="OAR's CPUSET_PATH without its slash (a directory name)."
    )
    oar_env_dirs: tuple[Path, ...] = Field(
        default=(Path("/var/lib/oar"), Path("/tmp/oar_runtime")),  # noqa: S108 - OAR's own default
        description="Directories where OAR keeps USER_JOB.env of running jobs.",
    )
    slurm_job_dir: Path = Field(
        default=Path("/run/kwhere/slurm-jobs"),
        description="Directory of root's where slurmd's prolog and epilog note jobs, if `job-note` is installed.",
    )
    libvirt_xml_dirs: tuple[Path, ...] = Field(
        default=(Path("/run/libvirt/qemu"), Path("/etc/libvirt/qemu")),
        description="Directories of libvirt domain XML, tried in order.",
    )
    pod_log_dir: Path = Field(
        default=Path("/var/log/pods"), description="Directory whose NAMESPACE_NAME_UID entries name the node's pods."
    )
    container_log_dir: Path = Field(
        default=Path("/var/log/containers"),
        description="Directory whose POD_NAMESPACE_CONTAINER-ID.log links name the node's containers.",
    )
    crio_dirs: tuple[Path, ...] = Field(
        default=(Path("/run/containers/storage/overlay-containers"),),
        description="Directories of CRI-O with a directory per container, read for names (root only).",
    )
    kubelet: KubeletSettings = Field(default=KubeletSettings(), description="kubelet, asked for names and owners.")
    docker_dirs: tuple[Path, ...] = Field(
        default=(Path("/var/lib/docker"),), description="Data roots of Docker, read for container names (root only)."
    )
    podman_dirs: tuple[Path, ...] = Field(
        default=(Path("/var/lib/containers/storage"),),
        description="Storage roots of Podman, read for container names.",
    )
    containerd_dirs: tuple[Path, ...] = Field(
        default=(Path("/run/containerd/io.containerd.runtime.v2.task"),),
        description="Directories of containerd with a directory per namespace, read for nerdctl's names (root only).",
    )
    container_sockets: tuple[Path, ...] = Field(
        default=(Path("/run/docker.sock"), Path("/run/podman/podman.sock")),
        description="Sockets of Docker and Podman, asked for names where their files are closed to the agent.",
    )

    @field_validator("processes", mode="before")
    @classmethod
    def _yaml_switch(cls, value: object) -> object:
        """Return `on` and `off` as the words they are: YAML reads them as booleans."""
        return ("on" if value else "off") if isinstance(value, bool) else value
