"""OpenStack: Nova's servers with the names of their users and projects. Agents know them as units of libvirt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit, Queue
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.discovery.libvirt import MANAGER as UNITS
from kwhere.discovery.match import unit_id
from kwhere.resource_managers.keystone import Keystone
from kwhere.resource_managers.nova import Nova
from kwhere.resource_managers.openstack_flavors import FlavorBook
from kwhere.resource_managers.openstack_lists import compute_rows, identity_rows
from kwhere.resource_managers.openstack_names import Names, accounts_of, names_by_id
from kwhere.resource_managers.openstack_servers import Reading, node_of, unit_of, waiting_of
from kwhere.resource_managers.openstack_settings import OpenStackSettings
from kwhere.resource_managers.plugin import ManagerPlugin
from kwhere.resource_managers.rest_values import text

log = structlog.get_logger(__name__)

NAME = "openstack"
_ALL = {"all_tenants": "1"}
_LIVE_KEPT_NS = 30_000_000_000
"""A first look asks for many spans at once: what exists now is not listed again for each."""
_MAY_COME_BACK = "SOFT_DELETED"
_EVER = "1970-01-01T00:00:00Z"
_EMBEDDED_FLAVORS = 47
"""From microversion 2.47 on a server carries its flavour."""


class OpenStackManager:
    """One region. A server is one run from its creation to its end, stopped times included."""

    name = NAME

    def __init__(self, settings: OpenStackSettings, clock: Clock) -> None:
        """Raises ConfigError."""
        self.cluster = settings.cluster
        self._settings = settings
        self._clock = clock
        self._keystone = Keystone(settings)
        self._nova = Nova(self._keystone, settings)
        self._names: Names | None = None
        self._named_ns = 0
        self._told_unnamed = False
        self._live: tuple[Mapping[str, object], ...] | None = None
        self._listed_ns = 0
        is_old = int(settings.microversion.partition(".")[2]) < _EMBEDDED_FLAVORS
        self._flavors = FlavorBook(self._nova, settings.page_size) if is_old else None
        self._flavored_ns: int | None = None

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        """Yield the servers that existed within `span`, each once."""
        servers: Iterable[Mapping[str, object]] = self._servers(span)
        if self._flavors is not None:
            servers = list(servers)
        reading = self._reading(servers)
        seen: set[str] = set()
        faults: list[str] = []
        for record in servers:
            try:
                unit = unit_of(record, reading)
            except SourceError as error:
                faults.append(str(error))
                continue
            if unit is None or unit.unit in seen or not unit.lived_within(span):
                continue
            seen.add(unit.unit)
            yield unit
        if faults:
            log.warning("servers left out", manager=NAME, cluster=self.cluster, count=len(faults), first=faults[:5])

    def fetch_queue(self) -> Queue:
        """Return the servers that are being built, and which there are: one that Nova purged is told by its absence."""
        servers = self._live_servers()
        reading = self._reading(servers)
        waiting = (waiting_of(record, reading) for record in servers)
        ids = [text(record.get("id")) for record in servers]
        living = frozenset(unit_id(uuid.lower()) for uuid in ids if uuid is not None)
        # One without an id may be any of them.
        return Queue(tuple(unit for unit in waiting if unit is not None), None if None in ids else living)

    def fetch_accounts(self) -> Accounts:
        """Return all projects and the users with a role in them, groups resolved."""
        names = self._fresh_names()
        projects = identity_rows(self._keystone, "/projects", "projects", is_whole=True)
        assignments = identity_rows(
            self._keystone, "/role_assignments", "role_assignments", {"effective": ""}, is_whole=True
        )
        return accounts_of(projects, assignments, names)

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the hypervisors."""
        records = self._rows("/os-hypervisors/detail", "hypervisors", {})
        return tuple(node for record in records if (node := node_of(record)) is not None)

    def close(self) -> None:
        """Give back the connections."""
        self._keystone.close()

    def _servers(self, span: Span) -> Iterator[Mapping[str, object]]:
        """Yield those deleted since the span's start, then those that are: one deleted in between is in the first."""
        since = span.start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield from self._rows("/servers/detail", "servers", {**_ALL, "deleted": "true", "changes-since": since})
        yield from self._live_servers()

    def _live_servers(self) -> Sequence[Mapping[str, object]]:
        now_ns = self._clock.monotonic_ns()
        if self._live is None or now_ns - self._listed_ns > _LIVE_KEPT_NS:
            plain = self._rows("/servers/detail", "servers", _ALL)
            self._live, self._listed_ns = (*plain, *self._asleep()), now_ns
        return self._live

    def _asleep(self) -> Iterator[Mapping[str, object]]:
        """Yield servers that are deleted softly: they are in no plain list, and `deleted` needs one more right."""
        params = {**_ALL, "changes-since": _EVER, "status": _MAY_COME_BACK}
        rows = self._rows("/servers/detail", "servers", params)
        return (record for record in rows if text(record.get("status")) == _MAY_COME_BACK)

    def _rows(self, path: str, key: str, params: Mapping[str, str]) -> Iterator[Mapping[str, object]]:
        return compute_rows(self._nova, path, key, params, self._settings.page_size)

    def _reading(self, servers: Iterable[Mapping[str, object]]) -> Reading:
        flavors: Mapping[str, Mapping[str, object]] = {}
        if self._flavors is not None:
            if self._flavored_ns is None or self._is_old(self._flavored_ns):
                self._flavors.refresh()
                self._flavored_ns = self._clock.monotonic_ns()
            flavors = self._flavors.of(servers)
        return Reading(self.cluster, self._known_names(), flavors, self._settings.gpu_aliases)

    def _is_old(self, asked_ns: int) -> bool:
        return self._clock.monotonic_ns() - asked_ns >= self._settings.facts_seconds * NANOSECONDS_PER_SECOND

    def _known_names(self) -> Names:
        """Return the names; ids are shown where Keystone does not let us list them."""
        if self._names is not None and not self._is_old(self._named_ns):
            return self._names
        try:
            return self._fresh_names()
        except Unavailable as error:
            if error.reason != "permission":
                raise
            if not self._told_unnamed:
                self._told_unnamed = True
                log.warning("users and projects are shown by id", manager=NAME, cluster=self.cluster, error=str(error))
            return self._names or Names()

    def _fresh_names(self) -> Names:
        domains = names_by_id(identity_rows(self._keystone, "/domains", "domains"), {})
        users = names_by_id(identity_rows(self._keystone, "/users", "users"), domains)
        projects = names_by_id(identity_rows(self._keystone, "/projects", "projects"), domains)
        self._names, self._named_ns = Names(users, projects), self._clock.monotonic_ns()
        return self._names


plugin = ManagerPlugin(
    name=NAME,
    summary="Servers of OpenStack (Nova) with the names that Keystone has for users and projects.",
    settings_class=OpenStackSettings,
    build=OpenStackManager,
    unit_manager=UNITS,
)
