"""Proxmox VE: its machines with the names, pools and owners that the cluster has for them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.managed import Accounts, Changes, ManagerNode, ManagerUnit
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.discovery.libvirt import MANAGER as UNITS
from kwhere.resource_managers.plugin import ManagerPlugin
from kwhere.resource_managers.proxmox_api import ProxmoxApi, Record
from kwhere.resource_managers.proxmox_guests import (
    NO_FACTS,
    QEMU,
    Guest,
    GuestFacts,
    accounts_of,
    facts_of,
    guest_of,
    is_nameless,
    nearest_start,
    node_of,
    start_of,
    unit_of,
)
from kwhere.resource_managers.proxmox_settings import ProxmoxSettings

NAME = "proxmox"
_START_TASKS = {QEMU: "qmstart", "lxc": "vzstart"}
_TASK_TOLERANCE = timedelta(seconds=120)
"""A guest's uptime is told in whole seconds, by a node with its own clock."""
_NOW = timedelta(seconds=60)

log = structlog.get_logger(__name__)


class ProxmoxManager:
    """The guests of one kind of one cluster: machines, or containers."""

    name = NAME

    def __init__(self, settings: ProxmoxSettings, clock: Clock, kind: str = QEMU) -> None:
        """Raises ConfigError."""
        self.cluster = settings.cluster
        self._settings = settings
        self._clock = clock
        self._kind = kind
        self._api = ProxmoxApi(settings)
        self._failures = FailureMemory()
        self._facts: dict[tuple[str, int, str | None], tuple[int, GuestFacts]] = {}
        self._starts: dict[int, datetime] = {}

    def fetch_units(self, span: Span) -> Iterable[ManagerUnit]:
        """Return the guests there are, for the span that ends now; the API remembers nothing of the past."""
        return self.watch(None).units if span.end >= self._now() - _NOW else ()

    def watch(self, cursor: str | None) -> Changes:
        """Return the guests there are: all of them unless one's configuration could not be read."""
        rows, now = self._resources(), self._now()
        guests = [guest for row in rows if (guest := guest_of(row)) is not None and guest.kind == self._kind]
        units: list[ManagerUnit] = []
        is_whole = not any(is_nameless(row, self._kind) for row in rows)
        for guest in guests:
            facts = self._facts_of(guest)
            is_whole = is_whole and facts is not None
            if facts is not None and (unit := self._unit(guest, facts, now)) is not None:
                units.append(unit)
        self._forget({guest.vm_id for guest in guests})
        # Two guests restored from one backup share a UUID: the one that runs is meant.
        latest = {(unit.unit, unit.run): unit for unit in sorted(units, key=lambda unit: unit.allocation.cpus or 0)}
        return Changes("", tuple(latest.values()), is_relisted=is_whole)

    def fetch_accounts(self) -> Accounts:
        """Return pools as projects, and the users with a right on one as far as the token may see rights."""
        if self._kind != QEMU:
            return Accounts()
        return accounts_of(self._api.rows("/pools"), self._permitted("/access/acl"), self._permitted("/access/groups"))

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the nodes of the cluster with what both kinds of guests hold; the machines' manager tells them."""
        if self._kind != QEMU:
            return ()
        guests = [guest for row in self._resources() if (guest := guest_of(row)) is not None]
        rows = self._api.rows("/nodes")
        return tuple(node for row in rows if (node := node_of(row, guests)) is not None)

    def close(self) -> None:
        """Give back the connections."""
        self._api.close()

    def _resources(self) -> list[Record]:
        return self._api.rows("/cluster/resources", {"type": "vm"})

    def _unit(self, guest: Guest, facts: GuestFacts, now: datetime) -> ManagerUnit | None:
        started_at = facts.created_at or start_of(guest, now) or now
        if guest.kind != QEMU or facts.uuid is None:
            numbered = self._numbered_start(guest, now)
            if numbered is None:
                return None
            started_at = numbered
        return unit_of(guest, facts, self.cluster, self._settings.owner_tag, started_at)

    def _numbered_start(self, guest: Guest, now: datetime) -> datetime | None:
        """Return the start that names a run: the same each time it is asked, a task's where one tells of it."""
        guess = start_of(guest, now)
        if guess is None:
            self._starts.pop(guest.vm_id, None)
            return None
        held = self._starts.get(guest.vm_id)
        if held is not None and abs(held - guess) <= _TASK_TOLERANCE:
            return held
        params = {"vmid": str(guest.vm_id), "typefilter": _START_TASKS[guest.kind], "source": "all", "limit": "50"}
        tasks = self._permitted(f"/nodes/{guest.node}/tasks", params)
        found = nearest_start(guess, tasks, _TASK_TOLERANCE) or guess
        self._starts[guest.vm_id] = found
        return found

    def _facts_of(self, guest: Guest) -> GuestFacts | None:
        """Return what a machine's configuration says; None where it cannot be read now and was not before."""
        if guest.kind != QEMU:
            return NO_FACTS
        key, now_ns = (guest.node, guest.vm_id, guest.name), self._clock.monotonic_ns()
        held = self._facts.get(key)
        if held is not None and now_ns - held[0] < self._settings.kept_seconds * NANOSECONDS_PER_SECOND:
            return held[1]
        path = f"/nodes/{guest.node}/{guest.kind}/{guest.vm_id}/config"
        try:
            facts = facts_of(self._api.record(path), self._settings.gpu_mappings)
        except Unavailable as error:
            self._tell(f"guest {guest.vm_id}", error)
            return None if held is None else held[1]
        self._facts[key] = (now_ns, facts)
        return facts

    def _permitted(self, path: str, params: dict[str, str] | None = None) -> list[Record]:
        """Return a list that the token may not see as an empty one, after telling so."""
        try:
            return self._api.rows(path, params)
        except Unavailable as error:
            if error.reason not in ("permission", "absent"):
                raise
            self._tell(path, error)
            return []

    def _tell(self, subject: str, error: Unavailable) -> None:
        times = self._failures.failed(subject, str(error), self._clock.monotonic_ns())
        if times is not None:
            log.warning("proxmox does not tell", manager=NAME, cluster=self.cluster, fault=str(error), times=times)

    def _forget(self, vm_ids: set[int]) -> None:
        self._facts = {key: held for key, held in self._facts.items() if key[1] in vm_ids}
        self._starts = {vm_id: at for vm_id, at in self._starts.items() if vm_id in vm_ids}

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.utc_ns() / NANOSECONDS_PER_SECOND, UTC)


plugin = ManagerPlugin(
    name=NAME,
    summary="Machines of a Proxmox VE cluster, with pools as projects and owners by tag.",
    settings_class=ProxmoxSettings,
    build=ProxmoxManager,
    unit_manager=UNITS,
)
