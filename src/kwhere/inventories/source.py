"""The seam: what a source of inventory and directory is asked for, and what its module ends with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from kwhere.core.clock import Clock
from kwhere.core.inventory import Inventory

CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class InventorySource(Protocol):
    """One source. `read` raises Unavailable (not reached, not permitted) and SourceError (nonsense)."""

    def read(self) -> Inventory:
        """Return all it knows now; any number of times the same."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class SourceSettings(BaseModel):
    """Base of the settings of a source; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: str = Field(description="Which kind: csv, ldap, keystone, kubeflow, passwd, …")
    name: str = Field(
        default="",
        max_length=64,
        description="What this entry is called; needed where two are of one kind. Facts are kept under this name.",
    )
    cluster: str | None = Field(
        default=None, pattern=CLUSTER_PATTERN, description="Cluster it speaks of; none: every cluster."
    )
    interval_seconds: float = Field(default=600.0, ge=1, description="Seconds between two looks.")


SettingsT = TypeVar("SettingsT", bound=SourceSettings)


@dataclass(frozen=True, slots=True)
class InventoryPlugin(Generic[SettingsT]):
    """One kind of source: its name, its settings and how it is built. `build` raises ConfigError."""

    name: str
    summary: str
    settings_class: type[SettingsT]
    build: Callable[[SettingsT, Clock], InventorySource]


AnyInventoryPlugin = InventoryPlugin[Any]
