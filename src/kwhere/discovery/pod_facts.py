"""Names of pods by the directories that kubelet makes for their logs: NAMESPACE_NAME_UID."""

from pathlib import Path

from kwhere.discovery.facts import Facts, Witness, names_in
from kwhere.discovery.kubernetes import is_static
from kwhere.discovery.libvirt import read_command
from kwhere.discovery.match import Match


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
            "kube_qos": match.qos,
            "kube_config_hash": pod_uid if is_static(pod_uid) else None,
            "runtime": match.runtime,
            "vm": guest.name if guest else None,
        }
        return Facts(
            name=name,
            project=namespace,
            labels=tuple(
                (key, value) for key, value in {**labels, "vm": guest.name if guest else None}.items() if value
            ),
        )

    def _of(self, pod_uid: str) -> tuple[str | None, str | None]:
        if pod_uid not in self._known:
            self._known = dict(_parse(name) for name in names_in(self._directory) if name.count("_") >= 2)
        return self._known.get(pod_uid, (None, None))


def _parse(entry: str) -> tuple[str, tuple[str, str]]:
    namespace, _, rest = entry.partition("_")  # neither namespace nor name may hold an underscore
    name, _, pod_uid = rest.partition("_")
    return pod_uid, (namespace, name)
