"""Settings of GPUs (`gpu.…`)."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from kwhere.devices.dcgm_exporter import AUTO
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings


class GpuSettings(BaseModel):
    """Whose GPUs are read, how often, and how long an answer may take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    off: frozenset[Vendor] = Field(
        default=frozenset(), description="Vendors whose GPUs are left alone: nvidia, amd, intel."
    )
    nvml_library: str = Field(
        default="",
        description="File of NVIDIA's library, e.g. of a driver container; default: where the linker finds it.",
    )
    amdsmi_path: str = Field(
        default="/opt/rocm/share/amd_smi",
        description="Directory that holds AMD's Python package amdsmi, looked at where the agent's Python has none; "
        "where neither has it, AMD's GPUs are read by the driver's files. Empty: the driver's files, always.",
    )
    hostengine: str = Field(
        default=AUTO,
        description="HOST:PORT of an nv-hostengine that tells how active the parts of GPUs are where NVIDIA's library"
        " does not (before Hopper). auto: the one on this machine's port 5555, if there is one; empty: none.",
    )
    dcgm_library: str = Field(
        default="", description="File of libdcgm, to speak to nv-hostengine; default: where the linker finds it."
    )
    dcgm_exporter_url: str = Field(
        default=AUTO,
        description="A dcgm-exporter that tells it where no nv-hostengine does. auto: the one on this machine's port"
        " 9400, if there is one; empty: none.",
    )
    interval_seconds: float = Field(
        default=1.0, ge=0.1, le=60, description="Seconds between two readings of power, energy, use and memory."
    )
    medium_seconds: float = Field(
        default=10.0, ge=1, le=3600, description="Seconds between two readings of temperatures, links and errors."
    )
    slow_seconds: float = Field(
        default=60.0, ge=1, le=3600, description="Seconds between two readings of limits and of what seldom changes."
    )
    answer_seconds: float = Field(
        default=5.0, gt=0, le=120, description="Seconds after which a GPU that has not answered is shown as hung."
    )
    start_seconds: float = Field(
        default=10.0, ge=0, le=600, description="Seconds that the agent waits at its start for GPUs to answer."
    )
    release_seconds: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="Seconds after which GPUs that were released on request are taken again by themselves.",
    )
    release_file: Path | None = Field(
        default=None,
        description="File that asks the agent to give GPUs back for as long as it is there: empty, or with node labels"
        " of which one under nvidia.com/gpu.deploy is paused-for-….",
    )
    open_seconds: float = Field(
        default=60.0, gt=0, le=600, description="Seconds that opening a vendor's library may take; many GPUs take long."
    )
    mapping: GpuMappingSettings = Field(
        default=GpuMappingSettings(), description="Where it stands which job, pod or machine holds a GPU."
    )
