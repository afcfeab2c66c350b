"""GPUs in libvirt's domain XML: whole PCI devices and mediated devices, by their addresses on the host."""

from dataclasses import dataclass
from xml.etree import ElementTree

_SOURCE = "./devices/hostdev"


@dataclass(frozen=True, slots=True)
class DomainDevices:
    """What a domain was given of the host."""

    name: str
    uuid: str
    pci: tuple[str, ...] = ()
    """Addresses on the host as `0000:15:00.0`; the guest's own addresses are another thing."""
    mediated: tuple[str, ...] = ()
    """Uuids of mediated devices (vGPU), lower case."""


def parse_devices(text: str) -> DomainDevices | None:
    """Return the devices of a domain's XML, a running one's `<domstatus>` included; None for anything else."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - libvirt's own root-only files, size bounded
    except (ElementTree.ParseError, ValueError):
        return None
    domain = root if root.tag == "domain" else root.find("domain")
    if domain is None:
        return None
    pci: list[str] = []
    mediated: list[str] = []
    for device in domain.findall(_SOURCE):
        source = device.find("source/address")
        if source is None:
            continue
        if device.get("type") == "mdev" and source.get("uuid"):
            mediated.append(source.get("uuid", "").strip().lower())
        elif device.get("type") == "pci":
            address = _address(source)
            if address is not None:
                pci.append(address)
    return DomainDevices(
        (domain.findtext("name") or "").strip(),
        (domain.findtext("uuid") or "").strip().lower(),
        tuple(dict.fromkeys(pci)),
        tuple(dict.fromkeys(mediated)),
    )


def _address(source: ElementTree.Element) -> str | None:
    parts = [_number(source.get(name, default)) for name, default in _PARTS]
    known = [part for part in parts if part is not None]
    if len(known) != len(_PARTS) or known[3] > 7:
        return None
    domain, bus, slot, function = known
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"


_PARTS = (("domain", "0"), ("bus", ""), ("slot", ""), ("function", "0"))


def _number(text: str) -> int | None:
    """Return a number as XML has it, `0x15` or `21`; None for anything else."""
    try:
        return int(text, 0) if len(text) < 12 and not text.startswith("-") else None
    except ValueError:
        return None
