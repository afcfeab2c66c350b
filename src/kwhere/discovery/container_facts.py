"""Names, images and compose projects of containers: by the runtimes' own files, else by the engine's own answer."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kwhere.discovery.container_engines import ContainerEngines
from kwhere.discovery.facts import Facts, Witness, names_in, read_small
from kwhere.discovery.match import Match
from kwhere.discovery.podman_state import PodmanContainer, read_podman

_USER = re.compile(r"/user(?:@|-)(?P<uid>[0-9]{1,10})\.(?:service|slice)/")
_NERDCTL = "nerdctl/name"
_LABELS = (
    ("compose_project", ("com.docker.compose.project", "io.podman.compose.project", "com.docker.stack.namespace")),
    ("compose_service", ("com.docker.compose.service", "io.podman.compose.service", "com.docker.swarm.service.name")),
)
"""What is shown of a container's labels, and the labels that say it; the first that is there."""

Named = tuple[str | None, Mapping[str, str]]
"""Name and what is shown beside it."""


class ContainerFacts:
    """Asks files first; an engine is asked only where they are closed to us, and answers by the next look."""

    def __init__(self, engines: ContainerEngines | None = None) -> None:
        self._engines = engines

    def find_docker(self, match: Match, witness: Witness) -> Facts:
        """Return the facts of a container of Docker or containerd, root's or a user's."""
        container = match.container or match.unit
        uid = _uid_of(match)
        named = _first(
            lambda: _of_docker(container, _docker_roots(witness, uid)),
            lambda: _of_containerd(container, witness.settings.containerd_dirs),
            lambda: self._of_engine(container, witness, uid, "docker"),
        )
        return _facts(match, named, uid, witness.users(uid) if uid is not None else None)

    def find_podman(self, match: Match, witness: Witness) -> Facts:
        """Return the facts of a Podman container, root's or a user's."""
        container = match.container or match.unit
        uid = _uid_of(match)
        owner = uid if uid is not None else witness.owner()
        named = _first(
            lambda: _of_podman(container, _podman_roots(witness, owner)),
            lambda: self._of_engine(container, witness, owner, "podman"),
        )
        return _facts(match, named, owner, witness.users(owner) if owner is not None else None)

    def _of_engine(self, container: str, witness: Witness, uid: int | None, name: str) -> Named | None:
        if self._engines is None:
            return None
        sockets = [path for path in witness.settings.container_sockets if name in path.name]
        if uid:
            folder = Path(f"/run/user/{uid}")
            sockets.append(folder / "podman/podman.sock" if name == "podman" else folder / "docker.sock")
        said = self._engines.find(container, sockets)
        return None if said is None else parse_docker(said)


def parse_docker(text: str) -> tuple[str | None, dict[str, str]]:
    """Return name and facts in a container's `config.v2.json` or an engine's answer; nothing from another form."""
    document = _mapping(_json(text))
    config = _mapping(document.get("Config"))
    name = document.get("Name")
    shown = name.removeprefix("/") if isinstance(name, str) and name.strip("/") else None
    return shown, _shown(config.get("Image"), _mapping(config.get("Labels")))


def parse_annotations(text: str) -> tuple[str | None, dict[str, str]]:
    """Return name and facts that nerdctl or the CRI left in a container's `config.json`."""
    said = _mapping(_mapping(_json(text)).get("annotations"))
    name = said.get(_NERDCTL) or said.get("io.kubernetes.cri.container-name")
    return name if isinstance(name, str) and name else None, _shown(said.get("io.kubernetes.cri.image-name"), said)


def _of_docker(container: str, roots: Iterator[Path]) -> Named | None:
    texts = (read_small(root / "containers" / container / "config.v2.json") for root in roots)
    return next((parse_docker(text) for text in texts if text is not None), None)


def _of_containerd(container: str, roots: tuple[Path, ...]) -> Named | None:
    for root in roots:
        for namespace in names_in(root):
            text = read_small(root / namespace / container / "config.json")
            if text is not None:
                name, shown = parse_annotations(text)
                return (name, shown) if name is not None or shown else None
    return None


def _of_podman(container: str, roots: Iterator[Path]) -> Named | None:
    found: PodmanContainer | None = next(filter(None, (read_podman(root, container) for root in roots)), None)
    return None if found is None else (found.name, _shown(found.image, found.labels))


def _docker_roots(witness: Witness, uid: int | None) -> Iterator[Path]:
    yield from witness.settings.docker_dirs
    home = witness.users.home(uid) if uid else None
    if home is not None:
        yield home / ".local/share/docker"


def _podman_roots(witness: Witness, uid: int | None) -> Iterator[Path]:
    yield from witness.settings.podman_dirs
    home = witness.users.home(uid) if uid else None
    if home is not None:
        yield home / ".local/share/containers/storage"


def _uid_of(match: Match) -> int | None:
    """Return whose user manager a container runs under; None for root's."""
    found = _USER.search(f"{match.path}/")
    return int(found["uid"]) if found else None


def _first(*ways: Callable[[], Named | None]) -> Named:
    for way in ways:
        found = way()
        if found is not None and (found[0] is not None or found[1]):
            return found
    return None, {}


def _shown(image: object, labels: Mapping[str, object]) -> dict[str, str]:
    found = {"image": image}
    for shown, keys in _LABELS:
        found[shown] = next((value for key in keys if (value := labels.get(key))), None)
    return {key: value for key, value in found.items() if isinstance(value, str) and value}


def _facts(match: Match, named: Named, uid: int | None, user: str | None) -> Facts:
    name, shown = named
    labels = {**shown, "runtime": match.runtime or ""}
    return Facts(
        name=name,
        user=user,
        uid=uid,
        project=shown.get("compose_project"),
        labels=tuple((key, value) for key, value in labels.items() if value),
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
