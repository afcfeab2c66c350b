"""What kubelet knows of this node's pods: names, and the owner references that directories do not show.

Asked beside the steps, in a thread of its own, and only where a pod is met that it has not told of: an answer of a busy
node has megabytes.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.devices.json_answer import elements, member, parse_object, text
from kwhere.discovery.kubernetes_objects import name_of
from kwhere.discovery.kubernetes_owners import Owner, top_owner
from kwhere.discovery.settings import KubeletSettings, UnitsSettings
from kwhere.kernel.hostfs import HostFS

if TYPE_CHECKING:
    from kwhere.transport.http import HttpClient

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KubeletPod:
    """A pod as kubelet tells it."""

    namespace: str
    name: str
    owner: Owner | None = None


class KubeletPods:
    """Pods by uid; a static one by the hash of its file, as its cgroup bears it. Any thread."""

    def __init__(
        self, settings: KubeletSettings, clock: Clock, connect: "Callable[[], HttpClient] | None" = None
    ) -> None:
        """`connect` makes a client for one question; none: as the settings say."""
        self._settings = settings
        self._clock = clock
        self._connect = connect or self._client
        self._pods: Mapping[str, KubeletPod] = {}
        self._failures = FailureMemory()
        self._is_wanted = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def find(self, uid: str) -> KubeletPod | None:
        """Return a pod as last told, at once; one that is not known is asked for and may be known the next time."""
        found = self._pods.get(uid)
        if found is None and not self._over.is_set():
            self._is_wanted.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
                self._thread.start()
        return found

    def close(self) -> None:
        """Ask no more."""
        self._over.set()
        self._is_wanted.set()
        if self._thread is not None:
            self._thread.join(2.0)

    def ask(self) -> bool:
        """Take in all pods there are; return whether that went well."""
        place = f"{self._settings.url}/pods"
        try:
            with self._connect() as client:
                answer = client.get("/pods")
            if answer.status != 200:
                raise SourceError(f"{place}: expected status 200, found {answer.status}")
            self._pods = parse_pods(answer.body, place)
        except (Unavailable, SourceError, ConfigError) as error:
            count = self._failures.failed("kubelet", str(error), self._clock.monotonic_ns())
            if count is not None:
                log.warning("kubelet tells no pods", fault=str(error), times=count)
            return False
        if self._failures.recovered("kubelet"):
            log.info("kubelet tells pods again")
        return True

    def _run(self) -> None:
        while not self._over.is_set():
            self._is_wanted.wait()
            self._is_wanted.clear()
            if self._over.is_set():
                return
            went_well = self.ask()
            self._over.wait(self._settings.interval_seconds if went_well else self._settings.retry_seconds)

    def _client(self) -> "HttpClient":
        # a client for each question: its token and authorities are files that are renewed
        from kwhere.transport.credentials import read_token
        from kwhere.transport.http import HttpClient

        settings = self._settings.client
        assert self._settings.url is not None
        return HttpClient(
            self._settings.url, settings.model_copy(update={"token_file": None}), token=read_token(settings)
        )


def kubelet_of(fs: HostFS, settings: UnitsSettings, clock: Clock) -> KubeletPods | None:
    """Return this node's kubelet; None where it is not to be asked, and for a recorded host, which has none."""
    if settings.kubelet.url is None or fs.is_recorded:
        return None
    return KubeletPods(settings.kubelet, clock)


def parse_pods(body: bytes, place: str) -> dict[str, KubeletPod]:
    """Return pods by uid. Raises SourceError for what is no list; what is no pod in it is left out."""
    document = parse_object(body, place)
    if not isinstance(document.get("items", ()), list | tuple | None):
        raise SourceError(f"{place}: expected a list of pods, found something else")
    found = {}
    for item in elements(document.get("items")):
        uid, namespace, name = (
            text(member(item, "metadata", "uid")),
            text(member(item, "metadata", "namespace")),
            name_of(item),
        )
        if uid and namespace and name:
            found[uid] = KubeletPod(namespace, name, top_owner(item))
    return found
