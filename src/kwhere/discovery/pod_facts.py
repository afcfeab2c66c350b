"""Names of pods by the directories that kubelet makes for their logs: NAMESPACE_NAME_UID."""

import re
from pathlib import Path

from kwhere.discovery import kubernetes
from kwhere.discovery.classify import paths_of
from kwhere.discovery.facts import Facts, Witness, names_in
from kwhere.discovery.libvirt import read_command
from kwhere.discovery.match import Match, segments_of

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes up names of: no vowels, so that no word comes out."""
_MADE_BY = re.compile(rf"(?P<owner>.+?)(?:(?:-{_RANDOM}{{8,10}})?-{_RANDOM}{{5}}|-[0-9]{{1,5}})")


class PodNames:
    """Namespace and name by pod uid; the directory is listed again only for a uid that is not known."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, tuple[str, str]] = {}

    def find(self, match: Match, witness: Witness) -> Facts:
        """Return the facts of a pod."""
        pod_uid = match.pod_uid or match.unit
        namespace, name = self._of(pod_uid)
        # KubeVirt: the pod stays the unit, its guest is a label.
        guest = next((vm for vm in map(read_command, witness.commands()) if vm is not None), None)
        labels = {
            "kube_namespace": namespace,
            "kube_pod": name,
            "kube_owner": None if name is None or kubernetes.is_static(pod_uid) else guess_owner(name),
            "qos": match.qos,
            "kube_config_hash": pod_uid if kubernetes.is_static(pod_uid) else None,
            "runtime": match.runtime or _runtime(pod_uid, witness),
            "vm": guest.name if guest else None,
        }
        return Facts(
            name=name,
            project=namespace,
            labels=tuple((key, value) for key, value in labels.items() if value),
        )

    def _of(self, pod_uid: str) -> tuple[str | None, str | None]:
        if pod_uid not in self._known:
            self._known = dict(_parse(name) for name in names_in(self._directory) if name.count("_") >= 2)
        return self._known.get(pod_uid, (None, None))


def guess_owner(name: str) -> str | None:
    """Return what a pod's name says of who made it, until the server knows better; None where it says nothing.

    Deployments add a hash and five characters, Jobs, DaemonSets and ReplicaSets five characters, StatefulSets a number.
    """
    found = _MADE_BY.fullmatch(name)
    return found["owner"] if found else None


def _runtime(pod_uid: str, witness: Witness) -> str | None:
    """Return the runtime that the directories of the pod's containers name, None where they name none."""
    paths = (path for text in witness.cgroup_texts() for path in paths_of(text))
    found = (kubernetes.match(segments_of(path)) for path in paths)
    return next((one.runtime for one in found if one is not None and one.pod_uid == pod_uid and one.runtime), None)


def _parse(entry: str) -> tuple[str, tuple[str, str]]:
    namespace, _, rest = entry.partition("_")  # neither namespace nor name may hold an underscore
    name, _, pod_uid = rest.partition("_")
    return pod_uid, (namespace, name)
