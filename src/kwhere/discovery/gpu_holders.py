"""Puts the mapping of a node together: its sources, and what each needs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.gpu import GpuSource
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings
from kwhere.discovery.gpu_finders import CgroupFinder, EnvironFinder, HoldFinder, OarFinder, PrologFinder, SlurmBits
from kwhere.discovery.gpu_kubelet import KubeletFinder
from kwhere.discovery.gpu_machines import HiddenGpu, MachineFinder
from kwhere.discovery.gpu_mapping import GpuMapping, MappingParts
from kwhere.discovery.gpu_node_facts import read_node_facts, sees_host_processes
from kwhere.discovery.gpu_pods import PodDevice
from kwhere.discovery.gpu_prolog import PrologJob
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_pids import UnitPids
from kwhere.discovery.unit_source import TrackedUnit, UnitSource
from kwhere.kernel.cgroups import CgroupLayout, CgroupVersion, detect_layout
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_environment, read_stat

_SANDBOX = "pause"
_PROCESSES_ASKED = 16


@dataclass(frozen=True, slots=True)
class NodeMapping:
    """The mapping, and what single sources tell besides; all may be asked from any thread but the holders' two."""

    holders: GpuMapping
    prolog: PrologFinder
    kubelet: KubeletFinder
    machines: MachineFinder

    def pods(self) -> tuple[PodDevice, ...]:
        """Return every GPU that a pod's container uses, as kubelet last listed them."""
        return self.kubelet.pods

    def jobs(self) -> tuple[PrologJob, ...]:
        """Return the jobs in the files of a prolog, as written."""
        return self.prolog.jobs

    def hidden(self) -> tuple[HiddenGpu, ...]:
        """Return GPUs that guests have whole: not visible here, which is not 0."""
        return self.machines.hidden


def build_mapping(
    host: HostFS,
    gpus: Sequence[GpuSource],
    units: Sequence[UnitSource],
    clock: Clock,
    *,
    settings: GpuMappingSettings,
    unit_settings: UnitsSettings,
    node_names: Collection[str],
    cgroups_version: CgroupVersion = CgroupVersion.AUTO,
) -> NodeMapping:
    """Return a node's mapping; nothing is asked yet. `node_names` are what managers may call this node.

    Of a copied host only its own files are read.
    """
    if host.is_recorded:
        settings = settings.model_copy(update={"gres_conf": ()})
    layout = _layout(host, cgroups_version)
    bits = SlurmBits(settings, node_names)
    prolog = PrologFinder(settings, bits, unit_settings.slurm_job_dir)
    of_pods = UnitPids(host, layout, unit_settings, clock.boottime_ns)
    alive, host_name = partial(_is_alive, host, of_pods), partial(_host_name, host, of_pods)
    kubelet = KubeletFinder(settings, alive, clock.boottime_ns, host_name)
    machines = MachineFinder(host, unit_settings.libvirt_xml_dirs)
    pids = UnitPids(host, layout, unit_settings, clock.boottime_ns)
    cgroup, environ = CgroupFinder(host, layout), EnvironFinder(host, pids, bits, clock.boottime_ns)
    finders: Sequence[HoldFinder] = (cgroup, environ)
    if not host.is_recorded:
        finders = (prolog, kubelet, cgroup, environ, machines, OarFinder(settings.oar_dirs, node_names))
    parts = MappingParts(
        gpus,
        units,
        facts=partial(read_node_facts, host),
        sees_host_processes=partial(sees_host_processes, host),
        clock_ns=clock.boottime_ns,
        is_recorded=host.is_recorded,
    )
    return NodeMapping(GpuMapping(parts, finders, settings), prolog, kubelet, machines)


def _layout(host: HostFS, version: CgroupVersion) -> CgroupLayout | None:
    try:
        return detect_layout(host, version)
    except Unavailable:
        return None


def _is_alive(host: HostFS, pids: UnitPids, pod: TrackedUnit) -> bool:
    """Return whether anything but the sandbox runs in a pod; where nobody can be asked, it is taken to live."""
    commands = []
    for pid in pids(pod):
        try:
            commands.append(read_stat(host, pid).command)
        except (Unavailable, SourceError):
            continue
    return not commands or any(command != _SANDBOX for command in commands)


def _host_name(host: HostFS, pids: UnitPids, pod: TrackedUnit) -> str | None:
    """Return the host name that kubelet gave a pod's processes: the pod's own, unless it asked for another."""
    for pid in pids(pod)[:_PROCESSES_ASKED]:
        try:
            name = read_environment(host, pid, ("HOSTNAME",)).get("HOSTNAME")
        except (Unavailable, SourceError):
            continue
        if name:
            return name
    return None
