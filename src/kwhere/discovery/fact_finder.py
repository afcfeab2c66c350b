"""One answer to "what do we know of this unit", whatever its manager."""

from collections.abc import Callable, Sequence

from kwhere.core.unit import UnitInfo
from kwhere.discovery import (
    containers,
    kubernetes,
    libvirt,
    oar,
    oar_facts,
    run,
    slurm,
    slurm_facts,
    systemd,
    vm_facts,
)
from kwhere.discovery.container_engines import ContainerEngines
from kwhere.discovery.container_facts import ContainerFacts
from kwhere.discovery.facts import Facts, FactSource, UserNames, Witness, printable
from kwhere.discovery.kubelet_pods import KubeletPods
from kwhere.discovery.match import Match
from kwhere.discovery.pod_containers import ContainerNames
from kwhere.discovery.pod_facts import PodNames
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.hostfs import HostFS


class FactFinder:
    """Asks the right source for each manager; a source that knows nothing leaves None."""

    def __init__(self, fs: HostFS, settings: UnitsSettings, kubelet: KubeletPods | None = None) -> None:
        self._fs = fs
        self._settings = settings
        self.users = UserNames(fs)
        engines = None if fs.is_recorded else ContainerEngines()
        containers_of = ContainerFacts(engines)
        self._sources: dict[str, FactSource] = {
            slurm.MANAGER: slurm_facts.find,
            oar.MANAGER: oar_facts.find,
            kubernetes.MANAGER: PodNames(settings.pod_log_dir, ContainerNames(settings), kubelet).find,
            libvirt.MANAGER: vm_facts.find,
            containers.DOCKER: containers_of.find_docker,
            containers.PODMAN: containers_of.find_podman,
            run.MANAGER: _find_run,
            systemd.MANAGER: _find_service,
            systemd.SESSION: _find_by_path,
        }

    def find(self, match: Match, pids: Callable[[], Sequence[int]]) -> Facts:
        """Return the facts of a unit; `pids` lists its processes and is called only where a source wants them."""
        witness = Witness(self._fs, self._settings, self.users, pids)
        return self._sources.get(match.manager, _find_by_path)(match, witness)


def unit_info(match: Match, facts: Facts) -> UnitInfo:
    """Return the names of a unit as they stand in labels."""
    return UnitInfo(
        name=_printable(facts.name or match.name),
        user=_printable(facts.user or match.user),
        project=_printable(facts.project),
        node_name=_printable(match.node_name),
        labels=tuple((name, printable(value)) for name, value in facts.labels),
    )


def merged(old: UnitInfo, new: UnitInfo) -> UnitInfo:
    """Return what is known newly, and of the rest what was known before."""
    labels = {**dict(old.labels), **dict(new.labels)}
    return UnitInfo(
        name=new.name or old.name,
        user=new.user or old.user,
        project=new.project or old.project,
        node_name=new.node_name or old.node_name,
        labels=tuple(labels.items()),
    )


def _find_by_path(match: Match, witness: Witness) -> Facts:
    """Return what the path alone says, the owner's name put in."""
    return Facts(user=witness.users(match.uid) if match.uid is not None else None, uid=match.uid)


def _find_service(match: Match, witness: Witness) -> Facts:
    """Return whom a service runs as: its user manager's, else its first process's; of all services together nobody."""
    if match.uid is not None or match.unit == systemd.SERVICES:
        return _find_by_path(match, witness)
    uid = witness.leader()
    return Facts(user=witness.users(uid) if uid is not None else None, uid=uid)


def _find_run(match: Match, witness: Witness) -> Facts:
    uid = match.uid if match.uid is not None else witness.owner()
    command = next((c for c in witness.commands() if c), [])
    return Facts(
        name=command[0].rpartition("/")[2] if command else None,
        user=witness.users(uid) if uid is not None else None,
        uid=uid,
    )


def _printable(text: str | None) -> str | None:
    return None if text is None else printable(text)
