"""libvirt's domains as a source of who holds a GPU: passed through whole, as a virtual function, or mediated (vGPU)."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.unit import UnitKey
from kwhere.discovery import libvirt
from kwhere.discovery.facts import is_there, names_in, read_small
from kwhere.discovery.gpu_claims import WHOLE, ClaimSource
from kwhere.discovery.gpu_domain import DomainDevices, parse_devices
from kwhere.discovery.gpu_holds import GpuNode, Hold
from kwhere.discovery.gpu_names import Places
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.pci import find_pci_gpus

_PCI = "sys/bus/pci/devices"
_MEDIATED = "sys/bus/mdev/devices"
_MOST_FILES = 2000


@dataclass(frozen=True, slots=True)
class HiddenGpu:
    """A GPU that was given to a guest whole: the host's driver does not see it, so nothing is known of its energy."""

    unit: UnitKey
    pci: str


class MachineFinder:
    """What the XML of running domains says. Files are read again when they change; for one thread."""

    sources = (ClaimSource.LIBVIRT,)

    def __init__(self, fs: HostFS, directories: Sequence[Path]) -> None:
        self._fs = fs
        self._directories = directories
        self._known: dict[Path, tuple[int, DomainDevices | None]] = {}
        self.hidden: tuple[HiddenGpu, ...] = ()

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return which machine holds what. Raises Unavailable where libvirt keeps no domains, or they are closed."""
        self.hidden = ()
        listed = [directory for directory in self._directories if is_there(directory)]
        if not listed:
            raise Unavailable("absent", "no directory of libvirt's domains is here")
        machines = node.of_managers((libvirt.MANAGER,))
        if not machines:
            return ()
        if not any(os.access(directory, os.R_OK | os.X_OK) for directory in listed):
            raise Unavailable("permission", f"{listed[0]}: expected a directory that may be read")
        domains = list(self._domains(listed))
        holds: list[Hold] = []
        hidden: list[HiddenGpu] = []
        on_bus = {gpu.address for gpu in find_pci_gpus(self._fs)}
        for unit in machines:
            domain = _domain_of(unit, domains)
            if domain is None:
                continue
            holds += self._mediated(unit.key, domain, node)
            for address in domain.pci:
                parent = self._parent(address)
                places = node.names.by_pci(parent or address)
                if not places and address in on_bus:
                    hidden.append(HiddenGpu(unit.key, address))
                exclusive = parent is None
                share = WHOLE if exclusive else None
                holds += (Hold(unit.key, place, ClaimSource.LIBVIRT, share, exclusive) for place in places)
        self.hidden = tuple(hidden)
        return holds

    def _domains(self, directories: Sequence[Path]) -> Iterator[DomainDevices]:
        """Yield every domain once: a running one's own file goes before its definition."""
        seen: set[str] = set()
        for directory in directories:
            for name in names_in(directory)[:_MOST_FILES]:
                domain = self._read(directory / name) if name.endswith(".xml") else None
                if domain is not None and (domain.uuid or domain.name) not in seen:
                    seen.add(domain.uuid or domain.name)
                    yield domain

    def _read(self, path: Path) -> DomainDevices | None:
        try:
            changed_ns = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._known.get(path)
        if known is None or known[0] != changed_ns:
            known = self._known[path] = changed_ns, parse_devices(read_small(path) or "")
        return known[1]

    def _mediated(self, unit: UnitKey, domain: DomainDevices, node: GpuNode) -> Iterator[Hold]:
        for uuid in domain.mediated:
            address = self._below(uuid)
            if address is None:
                continue
            places = node.names.by_pci(self._parent(address) or address)
            share = self._share(uuid, places, node)
            yield from (Hold(unit, place, ClaimSource.LIBVIRT, share, exclusive=False) for place in places)

    def _share(self, uuid: str, places: Places, node: GpuNode) -> int | None:
        """Return the share of a vGPU: one of those that there are and that could still be made of its type."""
        try:
            spare = self._fs.read_int(f"{_MEDIATED}/{uuid}/mdev_type/available_instances")
            others = self._fs.list_dir(_MEDIATED)
        except (Unavailable, SourceError):
            return None
        made = sum(self._is_on(other, places, node) for other in others)
        return WHOLE // max(1, made + max(0, spare))

    def _is_on(self, uuid: str, places: Places, node: GpuNode) -> bool:
        address = self._below(uuid)
        return address is not None and node.names.by_pci(self._parent(address) or address) == places

    def _below(self, uuid: str) -> str | None:
        """Return the PCI address of what a mediated device was made on."""
        try:
            parts = self._fs.read_link(f"{_MEDIATED}/{uuid}").rstrip("/").split("/")
        except (Unavailable, SourceError, ValueError):
            return None
        return parts[-2] if len(parts) > 1 else None

    def _parent(self, address: str) -> str | None:
        """Return the physical function that a virtual one belongs to; None for a device of its own."""
        try:
            return self._fs.read_link(f"{_PCI}/{address}/physfn").rpartition("/")[2]
        except (Unavailable, SourceError):
            return None


def _domain_of(unit: TrackedUnit, domains: Sequence[DomainDevices]) -> DomainDevices | None:
    """Return a machine's domain by its uuid; by name only where it bears none."""
    name = dict(unit.info.labels).get("vm")
    by_uuid = next((domain for domain in domains if domain.uuid and domain.uuid == unit.key.unit), None)
    return by_uuid or next((domain for domain in domains if not domain.uuid and domain.name == name), None)
