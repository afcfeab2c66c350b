"""Virtual machines by libvirt's XML, running or defined, else by QEMU's command line."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kwhere.discovery.facts import Facts, Witness, names_in, read_small
from kwhere.discovery.libvirt import VirtualMachine, read_command
from kwhere.discovery.match import Match

_NOVA = "{*}"
_MEMORY_UNITS = {"b": 1, "bytes": 1, "KB": 10**3, "k": 2**10, "KiB": 2**10, "MB": 10**6, "M": 2**20, "MiB": 2**20}
_MEMORY_UNITS |= {"GB": 10**9, "G": 2**30, "GiB": 2**30, "TB": 10**12, "T": 2**40, "TiB": 2**40}
_FILES_SEARCHED = 2000
_MOST_DIGITS, _MOST_CPUS, _MOST_BYTES = 19, 1_000_000, 1 << 56
"""What is more is no size of a machine."""


@dataclass(frozen=True, slots=True)
class DomainXml:
    """What a domain's XML says."""

    name: str
    uuid: str | None
    vm_id: int | None
    vcpus: int | None
    memory_bytes: int | None
    title: str | None
    user: str | None
    project: str | None
    flavor: str | None


def find(match: Match, witness: Witness) -> Facts:
    """Return the facts of a VM; its native id is its UUID."""
    command = next((vm for vm in map(read_command, witness.commands()) if vm is not None), None)
    domain = _domain(match, command, witness)
    uuid = (domain.uuid if domain else None) or (command.uuid if command else None)
    # A machine's name in the path is cut to what systemd allows: the domain's own goes first.
    name = (domain.name if domain else None) or (command.name if command else None) or match.name
    labels = {
        "vm": name,
        "vm_flavor": domain.flavor if domain else None,
    }
    return Facts(
        native_id=uuid,
        name=(domain.title if domain else None) or name,
        user=domain.user if domain else None,
        project=domain.project if domain else None,
        labels=tuple((key, value) for key, value in labels.items() if value),
        cpus=domain.vcpus if domain else None,
        starting_cpus=command.vcpus if command else None,
        memory_bytes=(domain.memory_bytes if domain else None) or (command.memory_bytes if command else None),
    )


def parse_domain(text: str) -> DomainXml | None:
    """Return the domain of an XML file, a running one's `<domstatus>` included; None for anything else."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - libvirt's own root-only files, size bounded
    except (ElementTree.ParseError, ValueError):
        return None
    domain = root if root.tag == "domain" else root.find("domain")
    if domain is None:
        return None
    name = (domain.findtext("name") or "").strip()
    if not name:
        return None
    nova = domain.find(f"metadata/{_NOVA}instance")
    return DomainXml(
        name=name,
        uuid=(domain.findtext("uuid") or "").strip().lower() or None,
        vm_id=_number(domain.get("id")),
        vcpus=_vcpus(domain.find("vcpu")),
        memory_bytes=_memory(domain.find("memory")),
        title=_text(nova, "name") or (domain.findtext("title") or "").strip() or None,
        user=_text(nova, "owner/{*}user"),
        project=_text(nova, "owner/{*}project"),
        flavor=_attribute(nova, "flavor", "name"),
    )


def _domain(match: Match, command: VirtualMachine | None, witness: Witness) -> DomainXml | None:
    names = [name for name in (match.name, command.name if command else None) if name and "/" not in name]
    for directory in witness.settings.libvirt_xml_dirs:
        for name in names:
            found = _read(directory / f"{name}.xml")
            if found is not None:
                return found
        found = _search(match, directory) if match.vm_id is not None else None
        if found is not None:
            return found
    return None


def _search(match: Match, directory: Path) -> DomainXml | None:
    """Return the domain whose running number and name fit: machined cuts long names short and drops characters."""
    for entry in names_in(directory)[:_FILES_SEARCHED]:
        if not entry.endswith(".xml"):
            continue
        if match.name and not entry.startswith(match.name[:1]):
            continue
        found = _read(directory / entry)
        if found is not None and found.vm_id == match.vm_id:
            return found
    return None


def _read(path: Path) -> DomainXml | None:
    text = read_small(path)
    return parse_domain(text) if text else None


def _vcpus(element: ElementTree.Element | None) -> int | None:
    if element is None:
        return None
    found = _number(element.get("current")) or _number(element.text)
    return found if found is not None and 0 < found <= _MOST_CPUS else None


def _memory(element: ElementTree.Element | None) -> int | None:
    if element is None:
        return None
    amount = _number(element.text)
    factor = _MEMORY_UNITS.get(element.get("unit", "KiB"))
    found = amount * factor if amount is not None and factor is not None else 0
    return found if 0 < found <= _MOST_BYTES else None


def _text(element: ElementTree.Element | None, path: str) -> str | None:
    found = element.find(_NOVA + path) if element is not None else None
    return (found.text or "").strip() or None if found is not None else None


def _attribute(element: ElementTree.Element | None, path: str, name: str) -> str | None:
    found = element.find(_NOVA + path) if element is not None else None
    return found.get(name) if found is not None else None


def _number(text: str | None) -> int | None:
    word = (text or "").strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) < _MOST_DIGITS else None
