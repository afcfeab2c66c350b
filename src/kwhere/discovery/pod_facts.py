"""Names of pods: by kubelet where it may be asked, else by what kubelet and the runtime write on this node.

Kubelet makes a directory NAMESPACE_NAME_UID for a pod's logs, and names its containers' logs after it.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from kwhere.discovery import kubernetes
from kwhere.discovery.classify import paths_of
from kwhere.discovery.facts import Facts, Witness, names_in
from kwhere.discovery.kubelet_pods import KubeletPod, KubeletPods
from kwhere.discovery.libvirt import read_command
from kwhere.discovery.match import Match, segments_of
from kwhere.discovery.pod_containers import ContainerNames

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes up names of: no vowels, so that no word comes out."""
_MADE_BY = re.compile(rf"(?P<owner>.+?)(?:(?:-{_RANDOM}{{8,10}})?-{_RANDOM}{{5}}|-[0-9]{{1,5}})")


class PodNames:
    """Namespace and name by pod uid; the directory is listed again only for a uid that is not known."""

    def __init__(self, directory: Path, containers: ContainerNames, kubelet: KubeletPods | None = None) -> None:
        self._directory = directory
        self._containers = containers
        self._kubelet = kubelet
        self._known: dict[str, tuple[str, str]] = {}

    def find(self, match: Match, witness: Witness) -> Facts:
        """Return the facts of a pod."""
        pod_uid = match.pod_uid or match.unit
        inside = _containers_of(pod_uid, match, witness)
        told = self._kubelet.find(pod_uid) if self._kubelet is not None else None
        pod = told or self._of_directory(pod_uid) or self._of_containers(inside)
        # KubeVirt: the pod stays the unit, its guest is a label.
        guest = next((vm for vm in map(read_command, witness.commands()) if vm is not None), None)
        is_static = kubernetes.is_static(pod_uid)
        guessed = None if pod is None or told is not None or is_static else guess_owner(pod.name)
        owner = told.owner if told is not None and not is_static else None
        labels = {
            "kube_namespace": pod.namespace if pod else None,
            "kube_pod": pod.name if pod else None,
            "kube_owner": owner.name if owner else guessed,
            "kube_owner_kind": owner.kind if owner else None,
            "qos": match.qos,
            "kube_config_hash": pod_uid if is_static else None,
            "runtime": match.runtime or next((one.runtime for one in inside if one.runtime), None),
            "vm": guest.name if guest else None,
        }
        return Facts(
            name=pod.name if pod else None,
            project=pod.namespace if pod else None,
            labels=tuple((key, value) for key, value in labels.items() if value),
        )

    def _of_directory(self, pod_uid: str) -> KubeletPod | None:
        if pod_uid not in self._known:
            self._known = dict(_parse(name) for name in names_in(self._directory) if name.count("_") >= 2)
        found = self._known.get(pod_uid)
        return None if found is None else KubeletPod(*found)

    def _of_containers(self, inside: Sequence[Match]) -> KubeletPod | None:
        """Return the pod that the first container says it belongs to whose names are found."""
        found = (self._containers.find(one.container) for one in inside if one.container)
        pod = next((one for one in found if one is not None), None)
        return None if pod is None else KubeletPod(pod.namespace, pod.pod)


def guess_owner(name: str) -> str | None:
    """Return what a pod's name says of who made it, until the server knows better; None where it says nothing.

    Deployments add a hash and five characters, Jobs, DaemonSets and ReplicaSets five characters, StatefulSets a number.
    """
    found = _MADE_BY.fullmatch(name)
    return found["owner"] if found else None


def _containers_of(pod_uid: str, match: Match, witness: Witness) -> list[Match]:
    """Return the containers of a pod that its first processes are in, the path itself first if it is one."""
    paths = dict.fromkeys(path for text in witness.cgroup_texts() for path in paths_of(text))
    found = (kubernetes.match(segments_of(path)) for path in paths)
    own = [match] if match.container else []
    return own + [one for one in found if one is not None and one.pod_uid == pod_uid]


def _parse(entry: str) -> tuple[str, tuple[str, str]]:
    namespace, _, rest = entry.partition("_")  # neither namespace nor name may hold an underscore
    name, _, pod_uid = rest.partition("_")
    return pod_uid, (namespace, name)
