"""What is asked for beside the pods: namespaces, Kubeflow's objects, nodes. Each may be missing or forbidden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.json_answer import JsonValue
from kwhere.discovery.kubernetes_objects import labels_of, name_of
from kwhere.resource_managers import kubernetes_api as api
from kwhere.resource_managers.kubernetes_gpus import GpuTypes, gpu_types
from kwhere.resource_managers.kubernetes_kubeflow import Kubeflow, read_owners
from kwhere.resource_managers.kubernetes_notebooks import read_notebooks, read_workspaces
from kwhere.resource_managers.kubernetes_pipelines import RUN_LABEL, read_runs
from kwhere.resource_managers.kubernetes_settings import KubernetesSettings
from kwhere.resource_managers.kubernetes_tenancy import NamespaceKeys, Tenancy, read_members, read_tenants

_KUBEFLOW = (api.PROFILES, api.NOTEBOOKS, api.WORKSPACES, api.ROLE_BINDINGS, api.WORKFLOWS)
_SELECTORS = {api.WORKFLOWS: RUN_LABEL}
"""Of what is long, the objects that are wanted, by their metadata alone."""
_STALE_LOOKS = 3
_STALE_SECONDS = 60
"""After so many looks that failed, and so long, what was known is no longer shown as if it were so."""
_SOONEST_NS = 30 * NANOSECONDS_PER_SECOND

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known beside the pods."""

    tenancy: Tenancy = field(default_factory=Tenancy)
    types: Mapping[str, GpuTypes] = field(default_factory=dict)
    """What each node's GPUs are, by node."""


class FactKeeper:
    """Asks now and then; what fails is told once and leaves what was known. Not thread-safe."""

    def __init__(self, source: api.KubernetesApi, settings: KubernetesSettings, clock: Clock) -> None:
        self._source = source
        self._settings = settings
        self._clock = clock
        self._failures = FailureMemory()
        self._lists: dict[str, Sequence[JsonValue]] = {}
        self._read_ns: dict[str, int] = {}
        self._asked_ns: int | None = None
        self._missing: set[str] = set()
        """Nodes that pods name and the last list had not: pods outlive their node in the API."""
        self.facts = Facts()

    def refresh(self) -> None:
        """Ask where it is time."""
        if self._is_due(int(self._settings.tenancy_seconds * NANOSECONDS_PER_SECOND)):
            self._ask()
            self._missing.clear()

    def know_nodes(self, names: set[str]) -> None:
        """Ask where one of these nodes is new, but not all the time, and not again for one that is not there."""
        unknown = names - self.facts.types.keys() - self._missing
        if unknown and self._is_due(_SOONEST_NS):
            self._ask()
            self._missing |= unknown - self.facts.types.keys()

    def _is_due(self, after_ns: int) -> bool:
        return self._asked_ns is None or self._clock.monotonic_ns() - self._asked_ns >= after_ns

    def _ask(self) -> None:
        self._asked_ns = self._clock.monotonic_ns()
        for path in (api.NAMESPACES, api.NODES, *(_KUBEFLOW if self._settings.kubeflow else ())):
            self._ask_for(path)
        keys = NamespaceKeys(
            self._settings.namespace_user, self._settings.namespace_project, self._settings.namespace_group
        )
        self.facts = Facts(
            Tenancy(
                read_tenants(self._known(api.NAMESPACES), self._known(api.PROFILES), keys),
                read_notebooks(self._known(api.NOTEBOOKS)),
                read_runs(self._known(api.WORKFLOWS)),
                read_members(self._known(api.ROLE_BINDINGS)),
                read_workspaces(self._known(api.WORKSPACES)),
            ),
            {name_of(node): gpu_types(labels_of(node)) for node in self._known(api.NODES)},
        )

    def kubeflow(self) -> Kubeflow:
        """Return what is known of Kubeflow now, without what could not be read for too long."""
        tenancy = self.facts.tenancy
        return Kubeflow(
            read_owners(self._known(api.PROFILES)) if self._is_fresh(api.PROFILES) else {},
            {
                **(tenancy.workspaces if self._is_fresh(api.WORKSPACES) else {}),
                **(tenancy.notebooks if self._is_fresh(api.NOTEBOOKS) else {}),  # of one name, the first kind
            },
            tenancy.runs if self._is_fresh(api.WORKFLOWS) else {},
        )

    def _is_fresh(self, path: str) -> bool:
        read_ns = self._read_ns.get(path)
        usual_s = _STALE_LOOKS * max(self._settings.tenancy_seconds, self._settings.interval_seconds)
        longest_s = max(_STALE_SECONDS, usual_s)
        return read_ns is not None and self._clock.monotonic_ns() - read_ns <= longest_s * NANOSECONDS_PER_SECOND

    def _known(self, path: str) -> Sequence[JsonValue]:
        return self._lists.get(path, ())

    def _ask_for(self, path: str) -> None:
        try:
            self._lists[path] = self._list(path)
        except (Unavailable, SourceError) as error:
            if isinstance(error, Unavailable) and error.reason == "absent":  # no Kubeflow here
                self._lists.pop(path, None)
                return
            self.tell(path, str(error))
        else:
            self._read_ns[path] = self._clock.monotonic_ns()
            if self._failures.recovered(path):
                log.info("kubernetes objects are read again", cluster=self._settings.cluster, path=path)

    def _list(self, path: str) -> Sequence[JsonValue]:
        selector = _SELECTORS.get(path)
        return (self._source.list_all(path) if selector is None else self._source.list_metadata(path, selector)).items

    def tell(self, subject: str, text: str) -> None:
        """Log what failed, on change and then hourly."""
        count = self._failures.failed(subject, text, self._clock.monotonic_ns())
        if count is not None:
            log.warning(
                "kubernetes objects are not read", cluster=self._settings.cluster, of=subject, error=text, times=count
            )
