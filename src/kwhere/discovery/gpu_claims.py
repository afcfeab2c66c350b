"""The seam between finding who holds which GPU and splitting its energy."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kwhere.core.unit import UnitKey

WHOLE = 1000
"""All of a device or instance, in thousandths."""


class ClaimSource(StrEnum):
    """How it is known that a unit holds a GPU, in the order in which it is believed; label `source`."""

    PROLOG = "prolog"
    POD_RESOURCES = "pod_resources"
    DRA = "dra"
    CGROUP = "cgroup"
    ENVIRON = "environ"
    LIBVIRT = "libvirt"
    OAR = "oar"
    PROCESSES = "processes"
    """It runs there, and nothing else is known."""


@dataclass(frozen=True, slots=True)
class GpuClaim:
    """One unit's hold on a GPU or on one instance of it. Several of one unit on the same add their shares."""

    unit: UnitKey
    device: str
    """Uuid of the physical device, also where an instance of it is held."""
    instance: str = ""
    """Uuid of the MIG instance; empty: the whole device."""
    share: int = WHOLE
    """Thousandths of the device or instance: replicas held of replicas, shards of shards."""
    exclusive: bool = True
    """Whether it was given to this unit alone."""
    live: bool = True
    """Whether its job or pod is alive: of two exclusive claims the live one counts."""
    source: ClaimSource = ClaimSource.PROCESSES


class NoHolders:
    """Holders on a node where nothing says who holds a GPU: its energy is the system's and unallocated."""

    def claims(self) -> Sequence[GpuClaim]:
        """Return no claim."""
        return ()

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return nobody."""
        return None


class GpuHolders(Protocol):
    """Who holds what, as the mapping last found it. Neither method waits; called once per step."""

    def claims(self) -> Sequence[GpuClaim]:
        """Return every claim on this node's GPUs."""
        ...

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return the unit that a process on a GPU belongs to; None: not known, or of no unit."""
        ...
