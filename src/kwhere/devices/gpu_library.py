"""What a vendor's library must do inside its child process, and the reports that leave it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kwhere.devices.gpu import GpuDevice, GpuProcess, LinkReadings
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup


class LibraryError(Exception):
    """A library does not open; `reason` is one word of `LibraryState.reason`. Stays inside the child process."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class DeviceDown(Exception):  # noqa: N818 - it is a state, told by raising
    """A device does not answer any more; `reason` is one word of `DeviceState.reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Reopen(Exception):  # noqa: N818 - an order, told by raising
    """The driver went away under the library: all handles are dead, the child must end and begin anew."""


@dataclass(frozen=True, slots=True)
class FieldReport:
    """What one round of reading gave."""

    values: Mapping[GpuField, int | float] = field(default_factory=dict)
    missing: Mapping[GpuField, Absence] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What one device's worker read in one rate group. None: this group does not read it."""

    uuid: str
    group: RateGroup
    time_ns: int
    """CLOCK_MONOTONIC, the same in the parent."""
    fields: FieldReport = FieldReport()
    instances: Mapping[str, FieldReport] = field(default_factory=dict)
    """By the instance's uuid."""
    processes: tuple[GpuProcess, ...] | None = None
    processes_missing: Absence | None = None
    links: tuple[LinkReadings, ...] | None = None
    device: GpuDevice | None = None
    """Given where the device was described anew: its layout changed."""
    down: str = ""
    kind: Literal["device"] = "device"


@dataclass(frozen=True, slots=True)
class Opened:
    """The library works; these are its devices."""

    driver: str
    version: str
    cuda: str
    devices: tuple[GpuDevice, ...]
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """Devices that are counted and could not be opened: the reason by index."""
    kind: Literal["opened"] = "opened"


@dataclass(frozen=True, slots=True)
class Failed:
    """The library does not open, or must be opened anew."""

    reason: str
    message: str
    kind: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A GPU raised an XID."""

    uuid: str
    xid: int
    utc_ns: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    kind: Literal["xid"] = "xid"


@dataclass(frozen=True, slots=True)
class EventsWatched:
    """Whether the library tells events; `message` says why not."""

    up: bool
    message: str = ""
    kind: Literal["events"] = "events"


Message = Opened | Failed | DeviceReport | XidEvent | EventsWatched
"""One line from the child to its parent."""


class Library(Protocol):
    """A vendor's library. `read` runs on the device's own worker thread and may hang; the others are never beside it.

    Never raises for a quantity: what is not known goes into `missing`.
    """

    def open(self) -> Opened:
        """Load the library and return its devices. Raises LibraryError."""
        ...

    def read(self, uuid: str, groups: Collection[RateGroup]) -> Sequence[DeviceReport]:
        """Return one report per group. Raises DeviceDown, Reopen."""
        ...

    def events(self, timeout_seconds: float) -> Sequence[XidEvent]:
        """Wait for events; empty at the deadline. Raises LibraryError where there are none to wait for, Reopen."""
        ...

    def close(self) -> None:
        """Give every handle back."""
        ...
