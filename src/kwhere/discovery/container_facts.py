"""Names of containers by the runtimes' own files."""

import json
from collections.abc import Mapping
from pathlib import Path

from kwhere.discovery.facts import Facts, Witness, read_small
from kwhere.discovery.match import Match


def find_docker(match: Match, witness: Witness) -> Facts:
    """Return the facts of a Docker container."""
    for root in witness.settings.docker_dirs:
        text = read_small(root / "containers" / (match.container or match.unit) / "config.v2.json")
        if text is not None:
            return _facts(match, *parse_docker(text))
    return _facts(match, None, {})


def find_podman(match: Match, witness: Witness) -> Facts:
    """Return the facts of a Podman container, root's or a user's."""
    uid = witness.owner()
    roots = list(witness.settings.podman_dirs)
    home = witness.users.home(uid) if uid else None
    if home is not None:
        roots.append(home / ".local/share/containers/storage")
    for root in roots:
        name = _podman_name(root, match.container or match.unit)
        if name is not None:
            return _facts(match, name, {}, uid, witness.users(uid) if uid is not None else None)
    return _facts(match, None, {}, uid, witness.users(uid) if uid is not None else None)


def parse_docker(text: str) -> tuple[str | None, dict[str, str]]:
    """Return name and facts of a container's `config.v2.json`; nothing from a file of another form."""
    document = _mapping(_json(text))
    config = _mapping(document.get("Config"))
    labels = _mapping(config.get("Labels"))
    name = document.get("Name")
    facts = {
        "image": config.get("Image"),
        "compose_project": labels.get("com.docker.compose.project"),
        "compose_service": labels.get("com.docker.compose.service"),
    }
    return (
        name.removeprefix("/") if isinstance(name, str) and name.strip("/") else None,
        {key: value for key, value in facts.items() if isinstance(value, str) and value},
    )


def _podman_name(root: Path, container: str) -> str | None:
    for folder in ("overlay-containers", "vfs-containers", "btrfs-containers"):
        text = read_small(root / folder / "containers.json", 8 << 20)
        document = _json(text) if text else None
        for entry in document if isinstance(document, list) else ():
            found = _mapping(entry)
            names = found.get("names")
            if found.get("id") == container and isinstance(names, list) and names and isinstance(names[0], str):
                return names[0]
    return None


def _facts(
    match: Match, name: str | None, facts: Mapping[str, str], uid: int | None = None, user: str | None = None
) -> Facts:
    labels = {**facts, "runtime": match.runtime or ""}
    return Facts(
        name=name,
        user=user,
        uid=uid,
        project=facts.get("compose_project"),
        labels=tuple((key, value) for key, value in labels.items() if value),
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
