"""Names of containers in pods: by the links that kubelet makes for their logs, else by the runtime's own files.

Kubelet names a link POD_NAMESPACE_CONTAINER-ID.log; containerd, CRI-O and Docker write Kubernetes' names beside each
container for root to read.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kwhere.discovery.facts import names_in, read_small
from kwhere.discovery.settings import UnitsSettings

_LINK = re.compile(r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>[^_]+)-(?P<id>[0-9a-f]{12,64})\.log")
_ID = re.compile(r"[0-9a-f]{12,64}")
_KEYS = (
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"),
)
"""Namespace, pod, container: containerd's words, then those of CRI-O and Docker."""
_NAMESPACE = "k8s.io"
"""containerd's own, of what kubelet makes."""
_SANDBOXES = ("POD", "")
"""What a pod's own container, which holds its network, is called."""


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container of a pod; `name` is None of the one that only holds the pod together."""

    namespace: str
    pod: str
    name: str | None


class ContainerNames:
    """Containers by id; what was found is kept, since an id is never given again. Any thread, one at a time."""

    def __init__(self, settings: UnitsSettings) -> None:
        self._logs = settings.container_log_dir
        self._states = (*(root / _NAMESPACE for root in settings.containerd_dirs), *settings.crio_dirs)
        self._docker = settings.docker_dirs
        self._linked: dict[str, PodContainer] = {}
        self._told: dict[str, PodContainer] = {}

    def find(self, container: str) -> PodContainer | None:
        """Return a container of a pod; None where nothing here names it."""
        if not _ID.fullmatch(container):
            return None  # ids come from names of directories that others make
        if container not in self._linked:
            self._linked = dict(_links(self._logs))
        found = self._linked.get(container) or self._told.get(container) or self._of_runtime(container)
        if found is not None and container not in self._linked:
            self._told[container] = found
        return found

    def forget(self, living: frozenset[str]) -> None:
        """Let go of all but these ids."""
        self._told = {container: found for container, found in self._told.items() if container in living}

    def _of_runtime(self, container: str) -> PodContainer | None:
        for root in self._states:
            for file in (root / container / "config.json", root / container / "userdata" / "config.json"):
                found = parse_annotations(_member(_json(read_small(file)), "annotations"))
                if found is not None:
                    return found
        for root in self._docker:
            config = _member(_json(read_small(root / "containers" / container / "config.v2.json")), "Config")
            found = parse_annotations(_member(config, "Labels"))
            if found is not None:
                return found
        return None


def parse_link(name: str) -> tuple[str, PodContainer] | None:
    """Return the container's id and names in the name of a log's link; None for any other name."""
    found = _LINK.fullmatch(name)
    return found and (found["id"], PodContainer(found["namespace"], found["pod"], found["container"]))


def parse_annotations(value: object) -> PodContainer | None:
    """Return the names that a runtime notes of a container; None where they are no pod's."""
    if not isinstance(value, Mapping):
        return None
    for namespace_key, pod_key, container_key in _KEYS:
        namespace, pod, name = (value.get(key) for key in (namespace_key, pod_key, container_key))
        if isinstance(namespace, str) and isinstance(pod, str) and namespace and pod:
            is_named = isinstance(name, str) and name not in _SANDBOXES
            return PodContainer(namespace, pod, str(name) if is_named else None)
    return None


def _links(directory: Path) -> list[tuple[str, PodContainer]]:
    return [found for name in names_in(directory) if (found := parse_link(name)) is not None]


def _json(text: str | None) -> object:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
