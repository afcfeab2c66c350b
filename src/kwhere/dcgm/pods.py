"""Pods of this node and the GPUs they hold, kept fresh by a thread of its own: kubelet's list, uids, processes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.dcgm.holdings import Labels, PodFacts, PodHold
from kwhere.devices.gpu import GpuInstance, GpuSnapshot
from kwhere.discovery import kubernetes
from kwhere.discovery.classify import paths_of
from kwhere.discovery.gpu_cdi import CdiFiles
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holds import GpuNode
from kwhere.discovery.gpu_names import GpuNames
from kwhere.discovery.gpu_pods import PodDevice, pod_devices
from kwhere.discovery.match import segments_of
from kwhere.discovery.pod_resources import LIST, parse_list
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_cgroup_text
from kwhere.transport import grpc

REFRESH_SECONDS = 5.0
KEPT_NS = 300 * NANOSECONDS_PER_SECOND
"""A kubelet that does not answer, as while it is started anew, leaves the pods as they were for so long."""
_ANSWER_SECONDS = 10.0
_LOG_DIRECTORY = re.compile(r"([^_]+)_([^_]+)_([0-9a-fA-F-]+)")

FactsByPod = Mapping[tuple[str, str], PodFacts]


@dataclass(frozen=True, slots=True)
class PodPlaces:
    """Where pods are looked for."""

    kubelet_socket: Path
    resource_names: tuple[str, ...] = ()
    with_claims: bool = False
    log_directory: Path = Path("/var/log/pods")
    """Its entries NAMESPACE_NAME_UID tell uids, which kubelet's list does not."""
    cdi_directories: tuple[Path, ...] = (Path("/var/run/cdi"), Path("/etc/cdi"))


class PodWatch:
    """The pods that hold GPUs, as kubelet last listed them; any thread, never waits."""

    def __init__(
        self,
        places: PodPlaces,
        snapshot: Callable[[], GpuSnapshot],
        tell: Callable[[str, str], None],
        clock_ns: Callable[[], int],
        facts: Callable[[], FactsByPod] | None = None,
    ) -> None:
        """`facts` asks the cluster what it knows of pods, and may wait; `tell` gets what failed and why."""
        self._places = places
        self._snapshot = snapshot
        self._tell = tell
        self._clock_ns = clock_ns
        self._ask_cluster = facts
        self._cdi = CdiFiles(places.cdi_directories)
        self._lock = Lock()
        self._pods: tuple[PodHold, ...] = ()
        self._facts: FactsByPod = {}
        self._listed_ns: int | None = None
        self._stop = Event()
        self._thread: Thread | None = None

    def pods(self) -> Sequence[PodHold]:
        """Return who holds what."""
        with self._lock:
            if self._listed_ns is not None and self._clock_ns() - self._listed_ns > KEPT_NS:
                return ()
            return [one if one.pod_uid else replace(one, pod_uid=self._uid(one)) for one in self._pods]

    def _uid(self, hold: PodHold) -> str:
        found = self._facts.get((hold.namespace, hold.pod))
        return found.uid if found is not None else ""

    def facts(self, namespace: str, pod: str) -> PodFacts | None:
        """Return what is known of a pod besides."""
        with self._lock:
            return self._facts.get((namespace, pod))

    def start(self) -> None:
        """Begin to ask."""
        self._thread = Thread(target=self._run, name="dcgm-pods", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """End; a question under way is left to itself."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def refresh(self) -> None:
        """Ask once. What fails is told, and leaves what was known."""
        uids = read_uids(self._places.log_directory)
        try:
            pods = self._list(uids)
        except (Unavailable, SourceError) as error:
            self._tell(str(self._places.kubelet_socket), str(error))
        else:
            with self._lock:
                self._pods, self._listed_ns = tuple(pods), self._clock_ns()
        if self._ask_cluster is not None:
            try:
                facts = self._ask_cluster()
            except (Unavailable, SourceError) as error:
                self._tell("pods of the cluster", str(error))
            else:
                with self._lock:
                    self._facts = facts

    def _list(self, uids: Mapping[tuple[str, str], str]) -> list[PodHold]:
        data = grpc.ask(self._places.kubelet_socket, LIST, timeout_seconds=_ANSWER_SECONDS)
        listed = parse_list(data, f"{self._places.kubelet_socket} {LIST}")
        devices = [state.device for state in self._snapshot().devices]
        node = GpuNode(GpuNames(devices))
        instances = {one.uuid: one for device in devices for one in device.instances}
        found = pod_devices(listed, node, self._places.resource_names, self._cdi.device_files)
        return [
            _hold(one, uids.get((one.namespace, one.pod), ""), instances)
            for one in found
            if one.place is not None and (self._places.with_claims or one.source is not ClaimSource.DRA)
        ]

    def _run(self) -> None:
        while not self._stop.is_set():
            self.refresh()
            self._stop.wait(REFRESH_SECONDS)


def read_uids(directory: Path) -> dict[tuple[str, str], str]:
    """Return uids by namespace and name; of a pod that was made anew under its name the newest."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    try:
        entries = list(directory.iterdir())
    except OSError:
        return {}
    for entry in entries:
        told = _LOG_DIRECTORY.fullmatch(entry.name)
        if told is None:
            continue
        try:
            made_ns = entry.stat().st_mtime_ns
        except OSError:
            continue
        key = told[1], told[2]
        found[key] = max(found.get(key, (0, "")), (made_ns, told[3]))
    return {key: uid for key, (_, uid) in found.items()}


def pod_of(fs: HostFS, pid: int) -> str | None:
    """Return the uid of the pod that a process is in; None for one in no pod, or that has gone."""
    try:
        text = read_cgroup_text(fs, pid)
    except (Unavailable, SourceError):
        return None
    found = (kubernetes.match(segments_of(path)) for path in paths_of(text))
    return next((one.pod_uid for one in found if one is not None and one.pod_uid), None)


def _hold(device: PodDevice, uid: str, instances: Mapping[str, GpuInstance]) -> PodHold:
    assert device.place is not None
    dra: Labels = ()
    if device.source is ClaimSource.DRA:
        instance = instances.get(device.place.instance)
        told = {
            "dra_claim_name": device.claim,
            "dra_claim_namespace": device.claim_namespace,
            "dra_driver_name": device.driver,
            "dra_pool_name": device.pool,
            "dra_device_name": device.device_id,
            "dra_mig_profile": instance.profile if instance else "",
            "dra_mig_device_uuid": device.place.instance,
        }
        dra = tuple((name, value) for name, value in told.items() if value)
    return PodHold(
        device.namespace,
        device.pod,
        device.container,
        device.place.device,
        device.place.instance,
        device.replica,
        uid,
        dra,
    )
