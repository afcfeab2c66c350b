"""Settings of finding out who holds a GPU (`gpu.mapping.…`)."""

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SlurmOrder(StrEnum):
    """Which GPU a number in `SLURM_JOB_GPUS` means."""

    AUTO = "auto"
    PCI = "pci"
    MINOR = "minor"


class PrologNumbers(StrEnum):
    """Which GPU the number in the name of a prolog's file means."""

    INDEX = "index"
    MINOR = "minor"
    SLURM = "slurm"


class ProcessNumbers(StrEnum):
    """Whether the process numbers that a GPU library gives are those of the `/proc` that is read."""

    AUTO = "auto"
    OURS = "ours"
    FOREIGN = "foreign"


SourceName = Literal["prolog", "pod_resources", "dra", "cgroup", "environ", "libvirt", "oar", "processes"]


class GpuMappingSettings(BaseModel):
    """Where it stands which job, pod or machine holds a GPU. Sources that are not here are left out by themselves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    off: frozenset[SourceName] = Field(
        default=frozenset(),
        description="Sources that are left alone: prolog, pod_resources, dra, cgroup, environ, libvirt, oar,"
        " processes.",
    )
    refresh_seconds: float = Field(
        default=10.0,
        ge=1,
        le=600,
        description="Seconds between two looks; units that come or go are looked at at once.",
    )
    prolog_dirs: tuple[Path, ...] = Field(
        default=(Path("/run/gpustat"), Path("/run/gpujobmap"), Path("/var/run/exporter")),
        description="Directories in which a prolog writes a file per GPU, named by index, index.instance or uuid, with"
        " the job's id: those of jobstats, of CEEMS, of AMD's exporter, and your dcgm-exporter's mapping directory.",
    )
    prolog_numbers: PrologNumbers = Field(
        default=PrologNumbers.INDEX,
        description="What a number in the name of such a file counts: index (the library's, as dcgm-exporter has it),"
        " minor (of /dev/nvidiaN), or slurm (as SLURM_JOB_GPUS counts).",
    )
    kubelet_socket: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        description="Socket at which kubelet tells which container holds which device.",
    )
    kubelet_seconds: float = Field(default=5.0, gt=0, le=60, description="Seconds that kubelet may take to answer.")
    resource_names: tuple[str, ...] = Field(
        default=(), description="Further names of Kubernetes resources that are GPUs, besides the vendors' own."
    )
    cdi_dirs: tuple[Path, ...] = Field(
        default=(Path("/var/run/cdi"), Path("/etc/cdi")),
        description="Directories of CDI files, which tell the device files of claimed (DRA) devices.",
    )
    slurm_order: SlurmOrder = Field(
        default=SlurmOrder.AUTO,
        description="What a number in SLURM_JOB_GPUS counts: pci (AutoDetect), minor (device files in their order), or"
        " auto (the files that gres.conf names, else pci).",
    )
    gres_conf: tuple[Path, ...] = Field(
        default=(Path("/etc/slurm/gres.conf"), Path("/run/slurm/conf/gres.conf")),
        description="Files of SLURM's generic resources; the first that is there counts.",
    )
    oar_dirs: tuple[Path, ...] = Field(
        default=(Path("/var/lib/oar"),),
        description="Directories where OAR keeps the resources of a job (JOB_resources).",
    )
    process_numbers: ProcessNumbers = Field(
        default=ProcessNumbers.AUTO,
        description="Whose processes a GPU's process numbers are: ours, foreign (the agent does not see the host's"
        " processes, nothing is booked by them), or auto (looked up).",
    )
