"""The program `dcgm-exporter`, and the same face inside an agent: GPUs, counters file, holders, HTTP."""

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import FrameType

import structlog

from kwhere.agent.dcgm_face import DcgmFace
from kwhere.agent.http_settings import HttpSettings
from kwhere.apps.configuration import validate
from kwhere.apps.gpus import open_gpus, start_gpus
from kwhere.apps.logs import set_up_logs
from kwhere.core.clock import Clock, SystemClock
from kwhere.core.errors import ConfigError, NotFound, SourceError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.dcgm.cluster import api_of
from kwhere.dcgm.counters import CounterSet, parse_counters, read_counters
from kwhere.dcgm.device_choice import absent_of, parse_choice
from kwhere.dcgm.holdings import Holders, Jobs, NoJobs, PodFacts, PodHold, PodOptions
from kwhere.dcgm.job_files import read_job_files
from kwhere.dcgm.page import Page, PageOptions
from kwhere.dcgm.pods import FactsByPod, PodPlaces, PodWatch, pod_of
from kwhere.dcgm.settings import DEFAULT_FILE, IN_MILLISECONDS, NO_CONFIGMAP, DcgmExporterSettings
from kwhere.dcgm.sharing import Sharing
from kwhere.dcgm.watching import Watcher, Windows
from kwhere.devices.gpu import GpuSnapshot, Vendor
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.gpu_watch import GpuWatch
from kwhere.discovery.gpu_node_facts import sees_host_processes
from kwhere.kernel.hostfs import HostFS

NANOSECONDS_PER_MILLISECOND = 1_000_000
_LOOK_SECONDS = 1.0
_RELOAD_SECONDS = 2.0
"""A counters file is read again at most so often."""
_SLOWEST_SECONDS = 2.0

log = structlog.get_logger(__name__)


class CountersFile:
    """The counters in force, and the file they came from."""

    def __init__(self, settings: DcgmExporterSettings, environ: Mapping[str, str] = os.environ) -> None:
        """Raises ConfigError where the file is wrong; the default file need not be there."""
        self._path = settings.collectors
        self._configmap = settings.configmap_data
        self._environ = environ
        self._lock = threading.Lock()
        self._seen = self._fingerprint()
        self.counters = self._read()

    def reload(self, *, asked: bool = False) -> bool:
        """Read the file again if it changed or a person `asked`; return whether other counters are in force."""
        with self._lock:
            seen = self._fingerprint()
            if seen == self._seen and not asked:
                return False
            self._seen = seen
            try:
                counters = self._read()
            except ConfigError as error:
                log.error("counters file is wrong, the old one stays in force", error=str(error))
                return False
            is_other, self.counters = counters != self.counters, counters
        log.info("counters file read again", file=str(self._path), counters=len(counters.counters))
        tell_counters(counters)
        return is_other

    def _read(self) -> CounterSet:
        if self._configmap != NO_CONFIGMAP:
            try:
                return parse_counters(api_of(self._environ).counters(self._configmap), f"configmap {self._configmap}")
            except (NotFound, Unavailable, SourceError) as error:
                raise ConfigError(f"configmap_data: {self._configmap}: {error}") from error
        uses_default = self._path == DEFAULT_FILE and not self._path.exists()
        return read_counters(None if uses_default else self._path)

    def _fingerprint(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


class Exporter:
    """Everything behind the face: looks at the GPUs once a second, and writes a page when one is asked for."""

    def __init__(
        self,
        settings: DcgmExporterSettings,
        snapshot: Callable[[], GpuSnapshot] | None,
        counters: CountersFile,
        hostname: str,
        *,
        environ: Mapping[str, str] = os.environ,
        host: HostFS | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`snapshot` None: this node has no GPU of NVIDIA's; the page is then empty."""
        self._settings = settings
        self._snapshot = snapshot
        self._counters = counters
        self._clock = clock or SystemClock()
        self._failures = FailureMemory()
        self._failures_lock = threading.Lock()
        self._choice = parse_choice(settings.devices, "devices")
        self.watcher = Watcher(_windows(settings), self._clock.monotonic_ns)
        self._page = Page(page_options(settings, hostname), self.watcher)
        self._pod_options = pod_options(settings)
        self._host = host or HostFS()
        self._pods = self._pod_watch(environ, hostname) if settings.kubernetes else None
        self._sees_processes = settings.kubernetes_virtual_gpus and sees_host_processes(self._host)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        if self._pods is not None:
            self._pods.start()
        self._thread = threading.Thread(target=self._run, name="dcgm-watch", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 1.8) -> None:
        """End."""
        self._stop.set()
        if self._pods is not None:
            self._pods.stop()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def page(self) -> bytes:
        """Return the page of this moment; any thread, never waits for a GPU."""
        snapshot, pods = self._look()
        facts = self._pods.facts if self._pods is not None else _no_facts
        holders = Holders(pods, self._jobs(), self._pod_options, facts)
        return self._page.render(snapshot, self._counters.counters, holders, self._sharing(pods))

    def _look(self) -> tuple[GpuSnapshot, Sequence[PodHold]]:
        snapshot = self._now()
        pods = self._pods.pods() if self._pods is not None else ()
        sharing = self._sharing(pods)
        self.watcher.observe(snapshot, sharing.weights if sharing is not None else None)
        if snapshot.library.up and (absent := absent_of(self._choice, snapshot)):
            self._tell(f"--devices {self._settings.devices}", f"not on this node, and not shown: {absent}")
        return snapshot, pods

    def _now(self) -> GpuSnapshot:
        return GpuSnapshot(Vendor.NVIDIA) if self._snapshot is None else self._snapshot()

    def _sharing(self, pods: Sequence[PodHold]) -> Sharing | None:
        if not (self._settings.kubernetes and self._settings.kubernetes_virtual_gpus):
            return None
        return Sharing(pods, cache(partial(pod_of, self._host)) if self._sees_processes else lambda _pid: None)

    def _pod_watch(self, environ: Mapping[str, str], hostname: str) -> PodWatch:
        settings = self._settings
        places = PodPlaces(
            settings.pod_resources_kubelet_socket, settings.nvidia_resource_names, settings.kubernetes_enable_dra
        )
        facts: Callable[[], FactsByPod] | None = None
        if settings.kubernetes_enable_pod_labels or settings.kubernetes_enable_pod_uid:
            try:
                facts = partial(api_of(environ).pods, environ.get("NODE_NAME") or hostname)
            except NotFound as error:
                self._tell("pods of the cluster", str(error))
        return PodWatch(places, self._now, self._tell, self._clock.monotonic_ns, facts)

    def _jobs(self) -> Jobs:
        directory = self._settings.hpc_job_mapping_dir
        if directory is None:
            return NoJobs()
        if not directory.is_dir():
            self._tell("--hpc-job-mapping-dir", f"{directory}: no such directory; no job is shown until there is one")
        return read_job_files(directory, self._tell)

    def _tell(self, subject: str, fault: str) -> None:
        with self._failures_lock:
            repeats = self._failures.failed(subject, fault, self._clock.monotonic_ns())
        if repeats is not None:
            log.warning("not all that was asked for is here", what=subject, fault=fault, count=repeats)

    def _run(self) -> None:
        looks = 0
        while not self._stop.wait(_LOOK_SECONDS):
            self._look()
            if not looks:
                self._jobs()  # what is amiss with them is told before anybody scrapes
            looks += 1
            if looks % int(_RELOAD_SECONDS / _LOOK_SECONDS) == 0:
                self._counters.reload()


class ExporterFace:
    """The face as a part of an agent, over the GPUs that the agent reads anyway."""

    def __init__(self, settings: DcgmExporterSettings, snapshot: Callable[[], GpuSnapshot] | None) -> None:
        """Raises ConfigError where the counters file is wrong."""
        counters = CountersFile(settings)
        tell_counters(counters.counters)
        self._exporter = Exporter(settings, snapshot, counters, hostname_of(settings, os.environ))
        self._face = DcgmFace(http_settings(settings), SystemClock(), self._exporter.page)

    def start(self) -> None:
        """Begin to serve. Raises ConfigError."""
        try:
            self._face.start()
        except ConfigError as error:
            text = str(error).replace("web.listen_addresses", "dcgm_exporter.address")
            raise ConfigError(text.replace("web.config_file", "dcgm_exporter.web_config_file")) from error
        self._exporter.start()

    def stop(self) -> None:
        """End."""
        self._face.stop()
        self._exporter.stop()


def agent_faces(settings: DcgmExporterSettings, gpus: Iterable[object]) -> list[ExporterFace]:
    """Return the face over an agent's GPUs, where it is turned on. Raises ConfigError."""
    if not settings.enabled:
        return []
    watches = (one for one in gpus if isinstance(one, GpuWatch) and one.vendor is Vendor.NVIDIA)
    watch = next(watches, None)
    return [ExporterFace(settings, watch.snapshot if watch is not None else None)]


def _no_facts(_namespace: str, _pod: str) -> PodFacts | None:
    return None


def run_exporter(
    given: Mapping[str, object], idle: Sequence[str], *, nvml_library: str, environ: Mapping[str, str]
) -> int:
    """Run until SIGTERM or SIGINT, return the exit code; SIGHUP reads the counters file again.

    Raises ConfigError at start. `idle` are flags that were given and do nothing here.
    """
    settings = as_settings(given)
    set_up_logs("debug" if settings.debug else "info", as_json=settings.log_format == "json")
    if idle:
        log.warning("flags without effect here", flags=list(idle))
    counters = CountersFile(settings, environ)
    tell_counters(counters.counters)
    over, wake, again = threading.Event(), threading.Event(), threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        (again if number == signal.SIGHUP else over).set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    watches = open_gpus(gpu_settings(settings, nvml_library), HostFS())
    source = next((watch for watch in watches if watch.vendor is Vendor.NVIDIA), None)
    exporter = Exporter(
        settings, source.snapshot if source else None, counters, hostname_of(settings, environ), environ=environ
    )
    face = DcgmFace(http_settings(settings), SystemClock(), exporter.page)
    start_gpus([source] if source else [], gpu_settings(settings, nvml_library).start_seconds)
    tell_gpus(source.snapshot() if source else None)
    exporter.start()
    try:
        with_flag_names(face.start)
        while not over.is_set():
            wake.wait()
            wake.clear()
            if again.is_set():
                again.clear()
                counters.reload(asked=True)
                face.reload()
    finally:
        face.stop()
        exporter.stop()
        if source is not None:
            source.close()
    return 0


def as_settings(given: Mapping[str, object]) -> DcgmExporterSettings:
    """Return the settings by key. Raises ConfigError that names flags, as they were typed."""
    try:
        return validate(DcgmExporterSettings, dict(given))
    except ConfigError as error:
        told = str(error).replace(": value error, ", ": ")
        raise ConfigError("\n".join(map(_in_flags, told.split("\n")))) from None


def _in_flags(line: str) -> str:
    """Return an error about a setting in the words of the flags, with the unit of what has one."""
    key = line.partition(":")[0]
    if key in IN_MILLISECONDS:
        line = re.sub(r"(equal to \d+)", r"\1 milliseconds", line)
    return re.sub(r"^([a-z_]+)", lambda key: "--" + key[1].replace("_", "-"), line)


def with_flag_names(start: Callable[[], None]) -> None:
    """Start a face. Raises ConfigError in the words of this program's flags."""
    try:
        start()
    except ConfigError as error:
        text = str(error).replace("web.listen_addresses", "--address").replace("web.config_file", "--web-config-file")
        raise ConfigError(text.replace("web.systemd_socket", "--web-systemd-socket")) from error


def tell_counters(counters: CounterSet) -> None:
    """Log what of a counters file stays without effect, in one line each."""
    if counters.refused:
        log.error("rows of the counters file are left out, the others count", rows=list(counters.refused))
    if counters.absent:
        log.warning("counters without a source here", fields=list(counters.absent))
    if counters.repeated:
        log.warning("counters named more than once, the first row counts", fields=list(counters.repeated))


def tell_gpus(found: GpuSnapshot | None) -> None:
    """Log in one line why no GPU is shown: an empty page looks like one of a node that is well."""
    if found is None:
        log.warning("no NVIDIA GPU on the PCI bus, and no --nvml-library: no GPU is shown")
    elif not found.library.up:
        log.warning("no GPU is shown until the library answers", reason=found.library.reason, why=found.library.message)


def hostname_of(settings: DcgmExporterSettings, environ: Mapping[str, str]) -> str:
    """Return what the label Hostname says; empty where it is left out."""
    if settings.no_hostname:
        return ""
    remote = settings.remote_hostengine_info
    if remote and not settings.kubernetes:
        found = re.fullmatch(r"\[(.+)\](?::\d+)?|([^:]+):\d+", remote)
        return (found[1] or found[2]) if found else remote
    return environ.get("NODE_NAME") or socket.gethostname()


def page_options(settings: DcgmExporterSettings, hostname: str) -> PageOptions:
    """Return how lines are written."""
    return PageOptions(
        hostname=hostname,
        hostname_label=settings.hostname_label,
        old_namespace=settings.use_old_namespace,
        replace_blanks=settings.replace_blanks_in_model_name,
        choice=parse_choice(settings.devices, "devices"),
        mig_values=settings.mig_device_values,
        mapping_labels=settings.mapping_labels,
        virtual_gpus=settings.kubernetes and settings.kubernetes_virtual_gpus,
        windows_ms=(settings.xid_count_window_size, settings.clock_events_count_window_size),
    )


def pod_options(settings: DcgmExporterSettings) -> PodOptions:
    """Return how pods are shown."""
    return PodOptions(
        old_namespace=settings.use_old_namespace,
        virtual_gpus=settings.kubernetes_virtual_gpus,
        with_uid=settings.kubernetes_enable_pod_uid,
        with_labels=settings.kubernetes_enable_pod_labels,
        allowed_labels=tuple(re.compile(one) for one in settings.kubernetes_pod_label_allowlist_regex),
        prefix=settings.kubernetes_label_prefix,
    )


def gpu_settings(settings: DcgmExporterSettings, nvml_library: str) -> GpuSettings:
    """Return how the GPUs are read: as often as asked, and at least every two seconds."""
    seconds = min(settings.collect_interval / 1000, _SLOWEST_SECONDS)
    return GpuSettings(nvml_library=nvml_library, interval_seconds=seconds, medium_seconds=max(1.0, seconds))


def http_settings(settings: DcgmExporterSettings) -> HttpSettings:
    """Return where the face listens."""
    return HttpSettings(
        listen_addresses=(settings.address,),
        config_file=settings.web_config_file,
        systemd_socket=settings.web_systemd_socket,
        allow_unprotected=True,
    )


def _windows(settings: DcgmExporterSettings) -> Windows:
    return Windows(
        xid_ns=settings.xid_count_window_size * NANOSECONDS_PER_MILLISECOND,
        clock_events_ns=settings.clock_events_count_window_size * NANOSECONDS_PER_MILLISECOND,
        sample_ns=settings.collect_interval * NANOSECONDS_PER_MILLISECOND,
    )
