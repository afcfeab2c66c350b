"""GPUs of a hypervisor by libvirt's description of its PCI and mediated devices. Pure.

Source: libvirt, "Node devices XML format" (nodedev).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from kwhere.discovery.gpu_domain import DomainDevices

_NAME = re.compile(
    r"(?:pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-9a-f]|mdev_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_\w{12,40})"
)
_DISPLAY, _ACCELERATOR = 0x03, 0x12
"""PCI base classes (PCI Code and ID Assignment)."""
_MAKERS = ("0x10de", "0x1002", "0x8086")
"""NVIDIA, AMD, Intel: a BMC's screen is a display controller too."""
_BRACKETS = re.compile(r".*\[([^\[\]]+)\]\s*")
_LONGEST = 60
_VIRTUAL = "vgpu"
_MDEV_LENGTH = len("mdev_") + 36
"""Of a mediated device's name up to the end of its UUID."""


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """A GPU of a host, or a part of one that a machine may be given."""

    model: str
    is_part: bool = False
    """A virtual function or mediated device: it is counted where it is held, not in what the host has."""


def device_names(words: Iterable[str]) -> list[str]:
    """Return the names of PCI and mediated devices among words of `virsh nodedev-list`."""
    return [word for word in words if _NAME.fullmatch(word)]


def parse_node_device(text: str) -> NodeGpu | None:
    """Return what a node device's XML describes; None for anything that is no GPU."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - the host's own answer, size bounded
    except (ElementTree.ParseError, ValueError):
        return None
    for capability in root.findall("capability") if root.tag == "device" else ():
        if capability.get("type") == "pci":
            return _pci(capability)
        if capability.get("type") == "mdev":
            kind = capability.find("type")
            named = _word(kind.get("id", "") if kind is not None else "")
            return NodeGpu(f"{_VIRTUAL}:{named}" if named else _VIRTUAL, is_part=True)
    return None


def gpus_held(devices: DomainDevices, known: Mapping[str, NodeGpu]) -> dict[str, float]:
    """Return the GPUs that a domain was given, by model; `known` by name of the node device."""
    names = [f"pci_{re.sub('[:.]', '_', address)}" for address in devices.pci]
    names += [f"mdev_{uuid.replace('-', '_')}" for uuid in devices.mediated]
    # Newer ones add the parent's address to the name of a mediated device.
    mediated = {name[:_MDEV_LENGTH]: gpu for name, gpu in known.items() if name.startswith("mdev_")}
    held = [known.get(name) or mediated.get(name) for name in names]
    return _counted(gpu for gpu in held if gpu is not None)


def gpus_there(known: Mapping[str, NodeGpu]) -> dict[str, float]:
    """Return the GPUs that a host has, by model."""
    return _counted(gpu for gpu in known.values() if not gpu.is_part)


def _counted(gpus: Iterable[NodeGpu]) -> dict[str, float]:
    return {model: float(number) for model, number in sorted(Counter(gpu.model for gpu in gpus).items())}


def _pci(capability: ElementTree.Element) -> NodeGpu | None:
    product, vendor = capability.find("product"), capability.find("vendor")
    vendor_id = vendor.get("id", "") if vendor is not None else ""
    try:
        kind = int((capability.findtext("class") or "").strip()[:10], 16) >> 16
    except ValueError:
        return None
    if kind != _ACCELERATOR and (kind != _DISPLAY or vendor_id not in _MAKERS):
        return None
    if any(inner.get("type") == "phys_function" for inner in capability.findall("capability")):
        return NodeGpu(_VIRTUAL, is_part=True)
    told = (product.text or "") if product is not None else ""
    short = _BRACKETS.fullmatch(told)
    numbers = f"{vendor_id}:{product.get('id', '') if product is not None else ''}".replace("0x", "")
    return NodeGpu(_word(short[1] if short else told) or _word(numbers) or "gpu")


def _word(text: str) -> str:
    """Return a model as others write it: `A100 PCIe 40GB` is `a100_pcie_40gb`."""
    return "_".join("".join(sign for sign in text.lower() if sign.isprintable()).split())[:_LONGEST]
