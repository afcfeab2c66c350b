"""Plain libvirt: the machines of hypervisors that no cloud manages, with the state, size and owner they have there."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.managed import Account, Accounts, Changes, ManagerNode, ManagerUnit, Membership
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.resource_managers.libvirt_domains import HostSays, Owners, node_of, silent_node, unit_of
from kwhere.resource_managers.libvirt_host import LibvirtHost
from kwhere.resource_managers.libvirt_settings import LibvirtSettings
from kwhere.resource_managers.plugin import ManagerPlugin

NAME = "libvirt"
_FRESH_NS = 30 * NANOSECONDS_PER_SECOND
"""One pass asks for units, queue and nodes: the hosts are asked once."""
_NOW = timedelta(seconds=60)
_AT_ONCE = 8

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    """What all hosts said at one time; a host that did not has its reason."""

    at: datetime
    monotonic_ns: int
    units: tuple[ManagerUnit, ...]
    nodes: tuple[ManagerNode, ...]
    uuids: frozenset[str]
    """Of all machines, those too that could not be read."""
    unread: frozenset[str]
    """Of the machines that hosts without an answer had when they last gave one."""
    is_whole: bool
    """Whether every host answered, now or before."""
    seen: Mapping[str, datetime]
    """When machines that nobody lists now were listed last."""


class LibvirtManager:
    """Hypervisors of one cluster. A machine is one run, from when it was first seen until it is defined no longer."""

    name = NAME

    def __init__(self, settings: LibvirtSettings, clock: Clock) -> None:
        self.cluster = settings.cluster
        self._clock = clock
        self._hosts = [LibvirtHost(node, uri, settings) for node, uri in sorted(settings.hosts.items())]
        self._owners = Owners.of(settings)
        self._failures = FailureMemory()
        self._look: _Look | None = None
        self._had: dict[str, frozenset[str]] = {}
        self._seen: dict[str, datetime] = {}

    def fetch_units(self, span: Span) -> Iterable[ManagerUnit]:
        """Return the machines there are, for the span that ends now; libvirt remembers nothing of the past."""
        look = self._fresh_look()
        return look.units if span.end >= look.at - _NOW else ()

    def watch(self, cursor: str | None) -> Changes:
        """Return the machines there are: all of them but those of a host that is silent, which stay as they were."""
        look = self._fresh_look()
        unread = (look.uuids | look.unread) - {unit.unit for unit in look.units}
        if look.is_whole:  # who is missing is told now, and once is enough
            there = look.uuids | look.unread
            self._seen = {uuid: at for uuid, at in self._seen.items() if uuid in there}
        return Changes("", look.units, is_relisted=look.is_whole, unread=unread, seen=look.seen)

    def fetch_accounts(self) -> Accounts:
        """Return the projects that machines name, and their users."""
        units = self._fresh_look().units
        projects = sorted({unit.project for unit in units if unit.project})
        members = {Membership(unit.user, unit.project) for unit in units if unit.user and unit.project}
        return Accounts(tuple(map(Account, projects)), tuple(sorted(members)))

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the hosts, silent ones too."""
        return self._fresh_look().nodes

    def close(self) -> None:
        """Nothing is held."""

    def _fresh_look(self) -> _Look:
        now_ns = self._clock.monotonic_ns()
        if self._look is None or now_ns - self._look.monotonic_ns > _FRESH_NS:
            self._look = self._ask_all(now_ns)
        return self._look

    def _ask_all(self, now_ns: int) -> _Look:
        at = datetime.fromtimestamp(self._clock.utc_ns() / NANOSECONDS_PER_SECOND, UTC)
        with ThreadPoolExecutor(min(_AT_ONCE, len(self._hosts))) as workers:
            answers = list(workers.map(_answer, self._hosts))
        units: list[ManagerUnit] = []
        nodes: list[ManagerNode] = []
        for host, answer in zip(self._hosts, answers, strict=True):
            if isinstance(answer, HostSays):
                self._had[host.node] = frozenset(answer.uuids)
                theirs = self._units(host.node, answer, at)
                units += theirs
                nodes.append(node_of(host.node, answer, theirs))
            else:
                nodes.append(silent_node(host.node, str(answer)))
            self._tell(host.node, answer if isinstance(answer, KwhereError) else None)
        faults = [answer for answer in answers if isinstance(answer, KwhereError)]
        if len(faults) == len(self._hosts):
            raise Unavailable("remote", f"no host answers: {faults[0]}")
        uuids = frozenset(uuid for says in answers if isinstance(says, HostSays) for uuid in says.uuids)
        silent = [
            host.node for host, answer in zip(self._hosts, answers, strict=True) if isinstance(answer, KwhereError)
        ]
        # One that was never heard may have any machine.
        is_whole = all(node in self._had for node in silent)
        unread = frozenset(uuid for node in silent for uuid in self._had.get(node, ()))
        self._seen |= dict.fromkeys(uuids, at)
        seen = {uuid: last for uuid, last in self._seen.items() if uuid not in uuids}
        return _Look(at, now_ns, tuple(_each_once(units)), tuple(nodes), uuids, unread, is_whole, seen)

    def _units(self, host: str, says: HostSays, at: datetime) -> list[ManagerUnit]:
        found: list[ManagerUnit] = []
        faults: list[str] = []
        for domain in says.domains:
            try:
                found.append(unit_of(domain, (self.cluster, host), self._owners, at, says.gpus))
            except SourceError as error:
                faults.append(str(error))
        if faults:
            log.warning("machines left out", manager=NAME, cluster=self.cluster, count=len(faults), first=faults[0])
        return found

    def _tell(self, host: str, fault: KwhereError | None) -> None:
        if fault is None:
            if self._failures.recovered(host):
                log.info("host answers again", manager=NAME, cluster=self.cluster, host=host)
            return
        times = self._failures.failed(host, str(fault), self._clock.monotonic_ns())
        if times is not None:
            log.warning("host gave no answer", manager=NAME, cluster=self.cluster, fault=str(fault), times=times)


def _answer(host: LibvirtHost) -> HostSays | KwhereError:
    try:
        return host.ask()
    except KwhereError as error:
        return error


def _each_once(units: Iterable[ManagerUnit]) -> Iterable[ManagerUnit]:
    """Return each machine once: one that migrates is on two hosts, and runs on one of them."""
    found: dict[str, ManagerUnit] = {}
    for unit in units:
        held = found.get(unit.unit)
        if held is None or held.state != "running":
            found[unit.unit] = unit
    return found.values()


plugin = ManagerPlugin(
    name=NAME,
    summary="Machines of libvirt hosts that no cloud manages, asked by virsh for reading.",
    settings_class=LibvirtSettings,
    build=LibvirtManager,
)
