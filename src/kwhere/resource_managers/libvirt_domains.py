"""What libvirt says of a domain and of a host, as units and nodes. Pure."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from xml.etree import ElementTree

from kwhere.core.errors import SourceError
from kwhere.core.managed import NO_ALLOCATION, ManagerAllocation, ManagerNode, ManagerUnit
from kwhere.discovery.gpu_domain import parse_devices
from kwhere.discovery.libvirt import MANAGER as UNITS
from kwhere.discovery.match import unit_id
from kwhere.discovery.vm_facts import DomainXml, parse_domain
from kwhere.resource_managers.libvirt_devices import NodeGpu, gpus_held, gpus_there
from kwhere.resource_managers.libvirt_settings import LibvirtSettings

_HOLDS_NOTHING = frozenset({"shut off", "crashed", "no state"})
_FACT = re.compile(r"(?P<name>[A-Za-z() ]+):\s+(?P<amount>[0-9]{1,15})(?: (?P<unit>KiB))?\s*")


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of one host: its XML and state as libvirt has them."""

    xml: str
    state: str


@dataclass(frozen=True, slots=True)
class HostSays:
    """What one host answered."""

    uuids: tuple[str, ...]
    """Of all its machines, those too that could not be read."""
    domains: tuple[Domain, ...]
    cpus: int | None
    memory_bytes: int | None
    gpus: Mapping[str, NodeGpu] = field(default_factory=dict)
    """By name of the node device."""


@dataclass(frozen=True, slots=True)
class Owners:
    """How a site tells whose a machine is: by what stands in its metadata, else by its name."""

    user_path: str = ""
    project_path: str = ""
    name: re.Pattern[str] | None = None

    @classmethod
    def of(cls, settings: LibvirtSettings) -> "Owners":
        """Return those of the settings."""
        pattern = re.compile(settings.name_pattern) if settings.name_pattern else None
        return cls(settings.user_path, settings.project_path, pattern)


def unit_of(
    domain: Domain, place: tuple[str, str], owners: Owners, seen_at: datetime, gpus: Mapping[str, NodeGpu] | None = None
) -> ManagerUnit:
    """Return a domain of `place` (cluster, host) as a unit that was there at `seen_at`. Raises SourceError.

    `gpus`: the host's, by name of the node device.
    """
    cluster, host = place
    facts = parse_domain(domain.xml)
    if facts is None or facts.uuid is None:
        raise SourceError(f"{host}: expected the XML of a domain with its UUID, found {domain.xml[:60]!r}")
    metadata = _metadata(domain.xml)
    named = owners.name.fullmatch(facts.name) if owners.name is not None else None
    by_name = {} if named is None else named.groupdict()
    holds = domain.state not in _HOLDS_NOTHING
    native = unit_id(facts.uuid)
    return ManagerUnit(
        cluster=cluster,
        manager=UNITS,
        unit=native,
        run=native,
        state=domain.state,
        started_at=seen_at,
        is_start_known=False,
        name=facts.title or facts.name,
        user=_told(metadata, owners.user_path) or facts.user or by_name.get("user") or None,
        project=_told(metadata, owners.project_path) or facts.project or by_name.get("project") or None,
        nodes=None,  # it migrates, and only where it is now is known
        allocation=_allocation(domain, facts, gpus or {}) if holds else NO_ALLOCATION,
        tags={"vm": facts.name, "host": host, **({"flavor": facts.flavor} if facts.flavor else {})},
    )


def node_of(host: str, says: HostSays, units: list[ManagerUnit]) -> ManagerNode:
    """Return a host with what its machines hold."""
    cpus = [unit.allocation.cpus for unit in units if unit.allocation.cpus is not None]
    gpus = sum((Counter(unit.allocation.gpus) for unit in units), Counter[str]())
    memory = [unit.allocation.memory_bytes for unit in units if unit.allocation.memory_bytes is not None]
    return ManagerNode(
        name=host,
        state="up",
        type="libvirt",
        cpus=None if says.cpus is None else float(says.cpus),
        memory_bytes=says.memory_bytes,
        gpus=gpus_there(says.gpus),
        allocated=ManagerAllocation(cpus=sum(cpus), memory_bytes=sum(memory), gpus=dict(gpus)),
    )


def silent_node(host: str, reason: str) -> ManagerNode:
    """Return a host that gave no answer."""
    return ManagerNode(name=host, state="unreachable", is_schedulable=False, reason=reason, type="libvirt")


def read_node_facts(text: str) -> Mapping[str, int]:
    """Return the numbers of `virsh nodeinfo`, sizes in bytes."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        fact = _FACT.fullmatch(line)
        if fact is not None:
            found[fact["name"]] = int(fact["amount"]) << (10 if fact["unit"] else 0)
    return found


def _allocation(domain: Domain, facts: DomainXml, known: Mapping[str, NodeGpu]) -> ManagerAllocation:
    devices = parse_devices(domain.xml)
    return ManagerAllocation(
        cpus=None if facts.vcpus is None else float(facts.vcpus),
        memory_bytes=facts.memory_bytes,
        gpus={} if devices is None else gpus_held(devices, known),
    )


def _metadata(xml: str) -> ElementTree.Element | None:
    root = ElementTree.fromstring(xml)  # noqa: S314 - the host's own answer, size bounded, read before
    return root.find("metadata") if root.tag == "domain" else root.find("domain/metadata")


def _told(metadata: ElementTree.Element | None, path: str) -> str | None:
    if metadata is None or not path:
        return None
    return (metadata.findtext(path) or "").strip() or None
