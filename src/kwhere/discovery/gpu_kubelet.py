"""kubelet as a source of who holds a GPU: asked over its pod-resources socket."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings
from kwhere.discovery import kubernetes
from kwhere.discovery.gpu_cdi import CdiFiles
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holds import GpuNode, Hold
from kwhere.discovery.gpu_names import Place
from kwhere.discovery.gpu_pods import PodDevice, all_replicas, holds_of, pod_devices
from kwhere.discovery.pod_resources import ALLOCATABLE, LIST, PodResources, parse_allocatable, parse_list
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.transport import grpc

_TOTALS_KEPT_NS = 60 * NANOSECONDS_PER_SECOND
"""How many replicas a device has changes when its plugin is set anew."""


class KubeletFinder:
    """What kubelet says: device plugins' devices, and claimed ones."""

    sources = (ClaimSource.POD_RESOURCES, ClaimSource.DRA)

    def __init__(
        self,
        settings: GpuMappingSettings,
        is_alive: Callable[[TrackedUnit], bool],
        clock_ns: Callable[[], int],
        host_name: Callable[[TrackedUnit], str | None] = lambda pod: None,
    ) -> None:
        """`is_alive` tells whether anything but the sandbox still runs in a pod, `host_name` what its processes see."""
        self._settings = settings
        self._is_alive = is_alive
        self._clock_ns = clock_ns
        self._host_name = host_name
        self._named: dict[UnitKey, TrackedUnit] = {}
        self._cdi = CdiFiles(settings.cdi_dirs)
        self._totals: dict[tuple[str, str], int] = {}
        self._totals_due_ns: int | None = None
        self.pods: tuple[PodDevice, ...] = ()
        """As last listed, those that hold no GPU of ours included."""

    def find(self, node: GpuNode) -> Sequence[Hold]:
        """Return who holds what. Raises Unavailable where there is no kubelet, SourceError for nonsense."""
        settings = self._settings
        data = grpc.ask(settings.kubelet_socket, LIST, timeout_seconds=settings.kubelet_seconds)
        listed = parse_list(data, f"{settings.kubelet_socket} {LIST}")
        node = self._with_names(node, listed)
        devices = pod_devices(listed, node, settings.resource_names, self._cdi.device_files)
        if any(device.replica is not None for device in devices):
            self._ask_totals()
        self.pods = tuple(devices)
        return self._marked(holds_of(devices, lambda resource, base: self._totals.get((resource, base))), node)

    def _with_names(self, node: GpuNode, listed: PodResources) -> GpuNode:
        """Return the node with names for pods whose log directories cannot be seen: a pod's host name is its own.

        Only where one listed pod has that name: namespaces are not part of it.
        """
        nameless = [
            unit for unit in node.of_managers((kubernetes.MANAGER,)) if "kube_pod" not in dict(unit.info.labels)
        ]
        if not nameless:
            return node
        holders = {(one.namespace, one.pod) for one in listed.devices}
        holders |= {(one.namespace, one.pod) for one in listed.claimed}
        known = {unit.key: self._named[unit.key] for unit in nameless if unit.key in self._named}
        for unit in nameless:
            name = None if unit.key in known else self._host_name(unit)
            found = [(namespace, pod) for namespace, pod in holders if pod == name]
            if len(found) == 1:
                labels = (*unit.info.labels, ("kube_namespace", found[0][0]), ("kube_pod", found[0][1]))
                known[unit.key] = replace(unit, info=replace(unit.info, labels=labels))
        self._named = known
        return GpuNode(node.names, {**node.units, **known})

    def _ask_totals(self) -> None:
        """Ask how many replicas there are; a kubelet that does not say (before 1.23) leaves what the pods show."""
        now_ns = self._clock_ns()
        if self._totals_due_ns is not None and now_ns < self._totals_due_ns:
            return
        settings = self._settings
        try:
            data = grpc.ask(settings.kubelet_socket, ALLOCATABLE, timeout_seconds=settings.kubelet_seconds)
            self._totals = all_replicas(parse_allocatable(data, f"{settings.kubelet_socket} {ALLOCATABLE}"))
        except (Unavailable, SourceError):
            self._totals = {}
        self._totals_due_ns = now_ns + _TOTALS_KEPT_NS

    def _marked(self, holds: Sequence[Hold], node: GpuNode) -> list[Hold]:
        """Return the holds; where two pods have one device, one that has ended is marked so."""
        users: dict[Place, set[UnitKey]] = {}
        for hold in holds:
            if hold.exclusive is not False:
                users.setdefault(hold.place, set()).add(hold.unit)
        contested = {place for place, units in users.items() if len(units) > 1}
        alive = {unit: self._is_alive(node.units[unit]) for place in contested for unit in users[place]}
        return [
            replace(hold, live=alive[hold.unit]) if hold.place in contested and hold.unit in alive else hold
            for hold in holds
        ]
