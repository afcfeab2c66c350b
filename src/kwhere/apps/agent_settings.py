"""The agent's configuration file, section by section."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kwhere.agent.settings import AgentSettings
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.cgroups import CgroupVersion
from kwhere.ledger.settings import JournalSettings
from kwhere.meters.settings import MeterSettings


class PathSettings(BaseModel):
    """Where the kernel's files are: this host's, or a recorded one's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    procfs: Path = Field(default=Path("/proc"), description="Where procfs is mounted, or its recorded copy.")
    sysfs: Path = Field(default=Path("/sys"), description="Where sysfs is mounted, or its recorded copy.")
    cgroupfs: Path = Field(default=Path("/sys/fs/cgroup"), description="Where cgroups are mounted, or their copy.")


class CgroupsSettings(BaseModel):
    """How cgroups are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: CgroupVersion = Field(default=CgroupVersion.AUTO, description="Hierarchy to read: auto, v1 or v2.")


class AgentConfig(BaseModel):
    """Everything an agent can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: AgentSettings = AgentSettings()
    path: PathSettings = PathSettings()
    cgroups: CgroupsSettings = CgroupsSettings()
    units: UnitsSettings = UnitsSettings()
    meters: MeterSettings = MeterSettings()
    gpu: GpuSettings = GpuSettings()
    journal: JournalSettings = JournalSettings()
    collector: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Settings of collectors by name; `enabled: false` leaves one out, `true` takes one in.",
    )
