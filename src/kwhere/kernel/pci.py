"""Graphics processors as sysfs lists them, without touching one: whose, where, and whether it sleeps."""

from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

DEVICES = "sys/bus/pci/devices"
NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
_DISPLAY = 0x03
"""PCI base class of VGA, 3D and other display controllers (PCI Code and ID Assignment)."""
_ACCELERATOR = 0x12


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A display controller or accelerator on the PCI bus."""

    address: str
    """As sysfs has it: `0000:41:00.0`."""
    vendor: int
    device: int
    driver: str = ""
    """Empty where none is bound; `vfio-pci`: it was given to a guest, the host's driver does not see it."""
    runtime_status: str = ""
    """`active`, `suspended`, …; empty where the kernel does not tell."""
    sleeps: bool = False
    """Whether it may fall asleep by itself (`power/control` is `auto`): a laptop's."""


def find_pci_gpus(fs: HostFS, vendor: int | None = None) -> list[PciGpu]:
    """Return the GPUs on the bus by address, of one vendor or of all; none where there is no such bus."""
    try:
        addresses = fs.list_dir(DEVICES)
    except (Unavailable, SourceError):
        return []
    found = (_read(fs, address) for address in addresses)
    return [gpu for gpu in found if gpu is not None and vendor in (None, gpu.vendor)]


def is_asleep(fs: HostFS, gpu: PciGpu) -> bool:
    """Return whether it sleeps now: then it is not to be touched, it would wake up."""
    return _word(fs, f"{DEVICES}/{gpu.address}/power/runtime_status") == "suspended"


def _read(fs: HostFS, address: str) -> PciGpu | None:
    place = f"{DEVICES}/{address}"
    try:
        kind = int(fs.read_word(f"{place}/class"), 16) >> 16
        vendor = int(fs.read_word(f"{place}/vendor"), 16)
        device = int(fs.read_word(f"{place}/device"), 16)
    except (Unavailable, SourceError, ValueError):
        return None
    if kind not in (_DISPLAY, _ACCELERATOR):
        return None
    return PciGpu(
        address=address,
        vendor=vendor,
        device=device,
        driver=_driver(fs, place),
        runtime_status=_word(fs, f"{place}/power/runtime_status"),
        sleeps=_word(fs, f"{place}/power/control") == "auto",
    )


def _driver(fs: HostFS, place: str) -> str:
    try:
        return fs.read_link(f"{place}/driver").rsplit("/", 1)[-1]
    except (Unavailable, SourceError):
        return ""


def _word(fs: HostFS, path: str) -> str:
    try:
        return fs.read_word(path)
    except (Unavailable, SourceError):
        return ""
