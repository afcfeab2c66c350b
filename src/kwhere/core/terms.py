"""The closed sets of words that travel in metrics, the ledger and the API."""

from enum import StrEnum


class Component(StrEnum):
    """What of a node drew the energy; a node is the sum of these four. The order is that of every legend."""

    CPU = "cpu"
    DRAM = "dram"
    GPU = "gpu"
    OTHER = "other"


class Part(StrEnum):
    """Dynamic energy is caused by work, idle energy by being switched on."""

    DYNAMIC = "dynamic"
    IDLE = "idle"


class Method(StrEnum):
    """How a figure came about, best first."""

    COUNTER = "counter"
    INTEGRATED = "integrated"
    HYPERVISOR = "hypervisor"
    MODELLED = "modelled"


class DomainKind(StrEnum):
    """What a meter's domain measures. `platform` is the whole node and never an addend.

    `other` is a component that a source tells by name, as a hypervisor does; elsewhere it is what a platform leaves.
    """

    CPU = "cpu"
    DRAM = "dram"
    GPU = "gpu"
    OTHER = "other"
    PLATFORM = "platform"


class EntryKind(StrEnum):
    """What a ledger entry stands for."""

    UNIT = "unit"
    SYSTEM = "system"
    UNALLOCATED = "unallocated"


class Flag(StrEnum):
    """Why a figure deserves a second look; on slots and entries, and `quality` of the API."""

    GAP = "gap"
    ENDED = "ended"
    CLOCK = "clock"
    OVERCOMMITTED = "overcommitted"
    IDLE_TABLE = "idle_table"
    UNVERIFIED = "unverified"
    LOST = "lost"
    UNREPORTED = "unreported"
    SLICES = "slices"


class IdlePolicy(StrEnum):
    """How idle energy is shared out; `allocation` is the default."""

    ALLOCATION = "allocation"
    USAGE = "usage"
    EQUAL = "equal"
    NONE = "none"
