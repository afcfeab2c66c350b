"""Kubernetes: pods as units, namespaces as projects, Kubeflow's profiles as their users; by list and watch."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.core.managed import Accounts, Changes, ManagerAllocation, ManagerNode, ManagerUnit, Queue
from kwhere.core.metrics import Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.devices.json_answer import JsonValue, member, text
from kwhere.resource_managers import kubernetes_api
from kwhere.resource_managers.kubernetes_access import find_access
from kwhere.resource_managers.kubernetes_api import Gone, KubernetesApi
from kwhere.resource_managers.kubernetes_facts import FactKeeper
from kwhere.resource_managers.kubernetes_memory import PodMemory
from kwhere.resource_managers.kubernetes_nodes import read_node, sum_allocations
from kwhere.resource_managers.kubernetes_pods import Pod, PodReader
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.resource_managers.kubernetes_stamps import SealFile
from kwhere.resource_managers.kubernetes_tenancy import Tenancy
from kwhere.resource_managers.kubernetes_users import PodUsers
from kwhere.resource_managers.plugin import ManagerPlugin

_FRESH = timedelta(seconds=60)
_MOST_FAILURES = 3


class KubernetesManager:
    """One cluster. It remembers the pods it has heard of: a watch goes on where the last one ended. Any thread."""

    name = "kubernetes"

    def __init__(self, settings: KubernetesSettings, source: KubernetesApi, clock: Clock) -> None:
        """Raises ConfigError where the key of stamps cannot be used."""
        self.cluster = settings.cluster
        self._settings = settings
        self._source = source
        self._clock = clock
        self._lock = Lock()
        self._memory = PodMemory(timedelta(hours=settings.kept_hours))
        self._facts = FactKeeper(source, settings, clock)
        self._seals = SealFile(settings.stamp_key_file) if settings.stamp_key_file is not None else None
        self._version: str | None = None
        """What was heard of last; None: list anew."""
        self._known_tenancy: Tenancy | None = None
        """Whose namespaces were when units were last told and written; None: nobody knows."""
        self._told_tenancy: Tenancy | None = None
        self._told: str | None = None
        """The cursor that was given out last."""
        self._is_whole = False
        """Whether the memory holds all pods, rather than what changed since a cursor of an earlier process."""
        self._heard_at: datetime | None = None
        self._failures = 0
        """How many watches failed one after the other."""

    def fetch_units(self, span: Span) -> Iterable[ManagerUnit]:
        """Return the pods that lived within `span`, those that are gone too as far as they were heard of."""
        with self._lock:
            if not self._is_whole or self._heard_at is None or self._heard_at < span.end:
                self._catch_up(self._watch_seconds())
            tenancy = self._facts.facts.tenancy
            return [tenancy.of(unit) for unit in self._memory.units() if unit.lived_within(span)]

    def fetch_accounts(self) -> Accounts:
        """Return a project per namespace, and who owns it or may work in it."""
        with self._lock:
            self._facts.refresh()
            return self._facts.facts.tenancy.accounts()

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        """Return the nodes and what their pods were given."""
        with self._lock:
            self._be_whole()
            held: dict[str, list[ManagerAllocation]] = {}
            for unit in self._memory.here():
                if unit.ended_at is None:
                    held.setdefault((unit.nodes or ("",))[0], []).append(unit.allocation)
            items = self._source.list_all(kubernetes_api.NODES).items
            read = (read_node(item, sum_allocations(held.get(_name(item), []))) for item in items)
            return [node for node in read if node is not None]

    def fetch_queue(self) -> Queue:
        """Return the pods that have not begun on a node; which live is what a watch tells."""
        with self._lock:
            self._be_whole()
            tenancy = self._facts.facts.tenancy
            return Queue(tuple(tenancy.of(unit) for unit in self._memory.waiting()))

    def _be_whole(self) -> None:
        if not self._is_whole or self._heard_at is None or self._now() - self._heard_at > _FRESH:
            self._catch_up(self._watch_seconds())

    def watch(self, cursor: str | None) -> Changes:
        """Return what changed since `cursor`; the cursor is the API's resource version."""
        with self._lock:
            if cursor == self._told:
                self._known_tenancy = self._told_tenancy
            else:  # another process heard of what is between
                self._is_whole, self._known_tenancy = False, None
            # What was heard since the cursor is heard once more: whoever keeps it has not written that.
            self._version = cursor
            changed = self._catch_up(self._watch_seconds(), keep_parts=True)
            tenancy, version = self._facts.facts.tenancy, self._version or ""
            self._told, self._told_tenancy = version, tenancy if self._is_whole else self._known_tenancy
            if changed is None:
                listed = tuple(tenancy.of(unit) for unit in self._memory.here())
                return Changes(version, listed, is_relisted=True, unread=self._memory.unread())
            return Changes(version, tuple(tenancy.of(unit) for unit in (*self._owned_anew(tenancy), *changed)))

    def _owned_anew(self, tenancy: Tenancy) -> list[ManagerUnit]:
        """Return the units that are another's now, or whose notebook is in another state: no watch tells of that."""
        before = self._known_tenancy
        if not self._is_whole or tenancy == before:
            return []
        return [unit for unit in self._memory.here() if before is None or before.of(unit) != tenancy.of(unit)]

    def samples(self, cluster: str) -> Iterable[Sample]:
        """Return what was last read of Kubeflow as metrics; none where there is no Kubeflow."""
        return list(self._facts.kubeflow().samples(cluster))

    def close(self) -> None:
        """Give back the connections."""
        self._source.close()

    def _catch_up(self, seconds: float, *, keep_parts: bool = False) -> list[ManagerUnit] | None:
        """Hear what happened since the last time; returns the units that changed, None where all were listed anew."""
        self._facts.refresh()
        if self._version and (self._is_whole or keep_parts):
            try:
                changed = self._hear(self._version, seconds)
            except (Gone, SourceError, Unavailable) as error:
                self._judge(error)
            else:
                self._failures = 0
                return changed
        self._list()
        return None

    def _judge(self, error: KwhereError) -> None:
        """Raise what failed of a watch, unless a list may do: what is out of order, forbidden, or failed for long."""
        if isinstance(error, Gone):
            return
        self._failures += 1
        is_brief = self._failures < _MOST_FAILURES
        if isinstance(error, Unavailable) and error.reason != "permission" and is_brief:
            raise error
        self._facts.tell("changes of pods", str(error))

    def _list(self) -> None:
        self._version = None
        began_at = self._now()
        listed = self._source.list_as(kubernetes_api.PODS, self._read)
        self._memory.relist(listed.items, began_at)
        self._memory.forget(began_at)
        self._version, self._is_whole, self._heard_at = listed.version or None, True, began_at

    def _hear(self, version: str, seconds: float) -> list[ManagerUnit]:
        began_at = self._now()
        heard = self._source.watch(kubernetes_api.PODS, version, seconds)
        now = self._now()
        pods = self._read([item for _, item in heard.events])
        changed: dict[str, ManagerUnit] = {}
        for (kind, _), pod in zip(heard.events, pods, strict=True):
            unit = self._memory.delete(pod, now) if kind == "DELETED" else self._memory.change(pod)
            if unit is not None:
                changed[pod.uid] = unit
        self._memory.forget(now)
        self._version, self._heard_at = heard.version, began_at
        return list(changed.values())

    def _read(self, items: Sequence[JsonValue]) -> list[Pod]:
        self._facts.know_nodes({node for item in items if (node := text(member(item, "spec", "nodeName")))})
        seal = self._seals.current() if self._seals is not None else None
        users = PodUsers(self._settings.user_annotation, seal)
        reader = PodReader(self.cluster, self._facts.facts.types, users)
        pods = [reader.read(item) for item in items]
        broken = [pod for pod in pods if pod.is_broken]
        if broken:
            self._facts.tell("pods", f"{broken[0].why_not}; {len(broken)} skipped, the first has uid {broken[0].uid!r}")
        return pods

    def _watch_seconds(self) -> float:
        return min(self._settings.watch_seconds, max(1.0, self._settings.http.read_timeout_seconds / 2))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.utc_ns() / NANOSECONDS_PER_SECOND, UTC)


def _name(item: JsonValue) -> str:
    return text(member(item, "metadata", "name"))


def build(settings: KubernetesSettings, clock: Clock) -> KubernetesManager:
    """Return the manager of a cluster; nothing is asked yet. Raises ConfigError."""
    access = find_access(settings)
    access.read_token()
    return KubernetesManager(settings, KubernetesApi(access, clock, page_size=settings.page_size), clock)


plugin = ManagerPlugin("kubernetes", "pods of a Kubernetes cluster, with Kubeflow's owners", KubernetesSettings, build)
