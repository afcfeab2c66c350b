"""Graphics cards as the kernel's Direct Rendering Manager lists them, each with the PCI device behind it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import decimal
from kwhere.kernel.pci import DEVICES, find_pci_gpus

DRM = "sys/class/drm"
_CARD = re.compile(r"card([0-9]{1,4})", re.ASCII)
_RENDER = re.compile(r"renderD([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class DrmCard:
    """A GPU that one of the wanted drivers holds."""

    pci: str
    """As sysfs has it: `0000:41:00.0`."""
    vendor: int
    device: int
    driver: str
    place: str
    """Directory of the PCI device."""
    card: str = ""
    """`card1`; empty where DRM shows none."""
    render: int | None = None
    """Minor number of its render node."""


def find_cards(fs: HostFS, vendor: int, drivers: Sequence[str]) -> list[DrmCard]:
    """Return a vendor's GPUs by PCI address; those that another driver holds (`vfio-pci`) are a guest's."""
    cards, renders = _nodes(fs)
    return [
        DrmCard(
            pci=gpu.address,
            vendor=gpu.vendor,
            device=gpu.device,
            driver=gpu.driver,
            place=f"{DEVICES}/{gpu.address}",
            card=cards.get(gpu.address, ""),
            render=renders.get(gpu.address),
        )
        for gpu in find_pci_gpus(fs, vendor)
        if gpu.driver in drivers
    ]


def hwmon_directories(fs: HostFS, place: str) -> list[tuple[str, str]]:
    """Return name and directory of every hwmon chip of a device, the card's own first."""
    found = []
    for directory in names_in(fs, f"{place}/hwmon"):
        path = f"{place}/hwmon/{directory}"
        found.append((word_of(fs, f"{path}/name"), path))
    return sorted(found, key=lambda chip: (len(chip[0]), chip))


def names_in(fs: HostFS, path: str) -> list[str]:
    """Return the names in a directory; none where it is not there or closed."""
    try:
        return fs.list_dir(path)
    except (Unavailable, SourceError):
        return []


def word_of(fs: HostFS, path: str) -> str:
    """Return a file's text without white space around it; empty where it cannot be read or is no plain text."""
    try:
        text = fs.read_word(path)
    except (Unavailable, SourceError):
        return ""
    return text if text.isprintable() else ""


def number_of(fs: HostFS, path: str) -> int | None:
    """Return a file's number of 0 or more; None where it cannot be read or holds none."""
    try:
        value = decimal(fs.read_word(path), path)
    except (Unavailable, SourceError):
        return None
    return value if value >= 0 else None


def _nodes(fs: HostFS) -> tuple[dict[str, str], dict[str, int]]:
    """Return cards and minor numbers of render nodes by the name of the device behind them."""
    cards: dict[str, str] = {}
    renders: dict[str, int] = {}
    for name in names_in(fs, DRM):
        render = _RENDER.fullmatch(name)
        if render is None and _CARD.fullmatch(name) is None:
            continue
        try:
            device = fs.read_link(f"{DRM}/{name}/device").rstrip("/").rpartition("/")[2]
        except (Unavailable, SourceError):
            continue
        if render is not None:
            renders[device] = int(render[1])
        else:
            cards.setdefault(device, name)
    return cards, renders
