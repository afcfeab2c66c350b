"""A GPU as every vendor's library shows it: who it is, what was read of it, who runs on it. Frozen records."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from kwhere.devices.gpu_fields import Absence, GpuField

_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.ASCII)


class Vendor(StrEnum):
    """Who made it; label `vendor`."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


class ProcessKind(StrEnum):
    """How a process uses a GPU."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"
    """A client of the MPS server."""


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A MIG device, or a partition: a compute instance inside a GPU instance."""

    uuid: str
    """Stable while the layout stands; GPU instance ids are used again, uuids are not."""
    name: str
    profile: str
    """As the driver names it: `1g.5gb`, `1c.3g.20gb`, `1g.10gb+me`."""
    gpu_instance: int
    compute_instance: int
    compute_slices: int
    multiprocessors: int | None = None
    memory_bytes: int | None = None
    """Of its GPU instance: compute instances of one GPU instance share it."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A physical GPU. Index, minor number, uuid and PCI address are four different things."""

    uuid: str
    """Identity everywhere: domain of its energy, label `uuid`."""
    index: int
    """The library's; label `gpu`."""
    vendor: Vendor
    model: str
    minor: int | None = None
    """N of `/dev/nvidiaN`."""
    pci: str = ""
    """As the library prints it, e.g. `00000000:41:00.0`; compare with `pci_address`."""
    serial: str | None = None
    mig: bool | None = None
    """Whether it is divided; None: it cannot be."""
    mig_pending: bool | None = None
    compute_slices: int = 1
    """Of the whole device: 7, of A30 and RTX PRO 6000 4; 1 where it cannot be divided."""
    instances: tuple[GpuInstance, ...] = ()
    carrier: str = ""
    """Uuid of the device whose meter holds this one's energy too: of two dies in one package one is measured."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """More that is known and seldom asked: brand, architecture, vbios, inforom_image, inforom_ecc, …"""


@dataclass(frozen=True, slots=True)
class Readings:
    """What is known now of a device or an instance: of each quantity the newest reading."""

    time_ns: int = 0
    """Monotonic time of the newest FAST reading: power, energy, use, memory."""
    values: Mapping[GpuField, int | float] = field(default_factory=dict)
    missing: Mapping[GpuField, Absence] = field(default_factory=dict)
    medium_ns: int = 0
    """Monotonic time of the newest MEDIUM reading: links, temperatures, errors."""
    activity: str = ""
    """Who tells `PROF_*`: `gpm` (the library), `hostengine`, `dcgm_exporter`; empty: nobody."""

    def integer(self, wanted: GpuField) -> int | None:
        """Return an integer quantity; None where it is not known."""
        value = self.values.get(wanted)
        return None if value is None else int(value)

    def ratio(self, wanted: GpuField) -> float | None:
        """Return a ratio; None where it is not known."""
        value = self.values.get(wanted)
        return None if value is None else float(value)


@dataclass(frozen=True, slots=True)
class LinkReadings:
    """One NVLink."""

    link: int
    up: bool | None = None
    values: Mapping[GpuField, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU. `None` is not known; a percentage of 0 is a process that did nothing."""

    pid: int
    """In the agent's process namespace."""
    kind: ProcessKind = ProcessKind.COMPUTE
    memory_bytes: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    sm_percent: int | None = None
    """Of the whole device, mean over the last samples."""
    memory_percent: int | None = None
    encoder_percent: int | None = None
    decoder_percent: int | None = None


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance and what was read of it."""

    instance: GpuInstance
    readings: Readings = Readings()


@dataclass(frozen=True, slots=True)
class XidCount:
    """How often a GPU raised one XID since the node booted, as far as is known, and when last."""

    xid: int
    count: int
    last_utc_ns: int
    gpu_instance: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device as it stands. One that went away stays, with `up` False and what was last read."""

    device: GpuDevice
    up: bool = False
    reason: str = ""
    """Empty while up, else lost, reset_required, timeout, absent, error, or the library's reason."""
    readings: Readings | None = None
    instances: tuple[InstanceState, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    """None: not known (see `processes_missing`), not "no process"."""
    processes_missing: Absence | None = None
    links: tuple[LinkReadings, ...] = ()
    xids: tuple[XidCount, ...] = ()


@dataclass(frozen=True, slots=True)
class LibraryState:
    """A vendor's library: whether it works, and its versions (empty where not known)."""

    up: bool = False
    reason: str = ""
    """Empty while up, else absent, driver, mismatch, permission, timeout, asleep, released, error."""
    message: str = ""
    driver: str = ""
    version: str = ""
    cuda: str = ""


@dataclass(frozen=True, slots=True)
class EventWatch:
    """Whether a library tells events as they come; `message` says why not."""

    up: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class GpuSnapshot:
    """All GPUs of one vendor, in the order of their indices."""

    vendor: Vendor
    library: LibraryState = LibraryState()
    devices: tuple[DeviceState, ...] = ()
    answered: bool = False
    """Whether the library has worked or failed yet; before that nothing is known."""
    events: EventWatch | None = None
    """Whether events (XIDs) are told; None: not known yet."""

    def device(self, uuid: str) -> DeviceState | None:
        """Return one device."""
        return next((state for state in self.devices if state.device.uuid == uuid), None)


class GpuSource(Protocol):
    """Where one vendor's GPUs are seen."""

    @property
    def vendor(self) -> Vendor:
        """Whose they are."""
        ...

    @property
    def source(self) -> str:
        """By what they are read: the name of their energy source (nvml, amdsmi, amdgpu, intel_gpu)."""
        ...

    @property
    def interval_seconds(self) -> float:
        """How often they are read."""
        ...

    def snapshot(self) -> GpuSnapshot:
        """Return all GPUs as they stand; never waits, any thread."""
        ...


def pci_address(text: str) -> str:
    """Return a PCI address in one form, `0000:41:00.0`: libraries, sysfs and libvirt write it differently.

    What is no PCI address comes back in lower case, as it is.
    """
    found = _PCI.fullmatch(text.strip().lower())
    if found is None:
        return text.strip().lower()
    domain, bus, slot, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}.{function}"
