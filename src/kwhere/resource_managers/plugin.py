"""What a module of a resource manager ends with: `plugin = ManagerPlugin(…)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from kwhere.core.clock import Clock
from kwhere.resource_managers.resource_manager import ResourceManager

CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class ManagerSettings(BaseModel):
    """Base of the settings of a manager; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    manager: str = Field(description="Which manager: slurm, kubernetes, openstack, oar, …")
    cluster: str = Field(
        pattern=CLUSTER_PATTERN, description="Cluster whose nodes it manages, as the targets of the server name it."
    )
    interval_seconds: float = Field(default=60.0, ge=1, description="Seconds between two looks for units.")
    overlap_seconds: float = Field(
        default=3600.0,
        ge=0,
        description="How far each look goes back behind the last good one, in seconds: managers write late.",
    )
    backfill_days: float = Field(
        default=14.0, gt=0, le=400, description="How far the first look goes back, in days; agents keep 14."
    )
    window_hours: float = Field(
        default=6.0, gt=0, le=168, description="Longest span asked for at once, in hours: it bounds the answer."
    )
    windows_per_look: int = Field(
        default=60, ge=1, description="Most spans read in one look; the rest of a long backfill follows in the next."
    )
    load_ratio: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="Largest share of the time, 0..1, in which the manager is kept busy: a slow look is followed by a"
        " longer rest, of ten intervals at most.",
    )
    facts_seconds: float = Field(default=600.0, ge=1, description="Seconds between two looks at accounts and nodes.")


SettingsT = TypeVar("SettingsT", bound=ManagerSettings)


@dataclass(frozen=True, slots=True)
class ManagerPlugin(Generic[SettingsT]):
    """One kind of manager: its name, its settings and how it is built. `build` raises ConfigError."""

    name: str
    summary: str
    settings_class: type[SettingsT]
    build: Callable[[SettingsT, Clock], ResourceManager]
    unit_manager: str = ""
    """`manager` of its units as agents report it, where that is another word than `name`."""

    @property
    def claims(self) -> str:
        """Return the `manager` of the units that are its own."""
        return self.unit_manager or self.name


AnyManagerPlugin = ManagerPlugin[Any]
