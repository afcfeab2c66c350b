"""What Podman keeps of a container in its own files: `containers.json`, and its state in SQLite (5) or Bolt (4)."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from kwhere.discovery.facts import read_small

_FOLDERS = ("overlay-containers", "vfs-containers", "btrfs-containers")
_MOST_LIST_BYTES = 8 << 20
_MOST_BOLT_BYTES = 64 << 20
_MOST_CONFIG_BYTES = 1 << 20
_PATIENCE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PodmanContainer:
    """A container as Podman's files name it."""

    name: str
    image: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def read_podman(root: Path, container: str) -> PodmanContainer | None:
    """Return a container of a storage root by its full id; None where the root has none of it, or is closed."""
    for folder in _FOLDERS:
        text = read_small(root / folder / "containers.json", _MOST_LIST_BYTES)
        found = None if text is None else parse_listed(text, container)
        if found is not None:
            name, image = found
            return PodmanContainer(name, image, _labels(root, container))
    return None


def parse_listed(text: str, container: str) -> tuple[str, str | None] | None:
    """Return name and image of a container in `containers.json`; None where it is not in it."""
    document = _json(text)
    for entry in document if isinstance(document, list) else ():
        if not isinstance(entry, dict) or entry.get("id") != container:
            continue
        names = entry.get("names")
        if isinstance(names, list) and names and isinstance(names[0], str):
            metadata = entry.get("metadata")
            image = _mapping(_json(metadata) if isinstance(metadata, str) else None).get("image-name")
            return names[0], image if isinstance(image, str) and image else None
    return None


def _labels(root: Path, container: str) -> Mapping[str, str]:
    config = _of_sqlite(root / "db.sql", container) or _of_bolt(root / "libpod" / "bolt_state.db", container)
    labels = _mapping(_mapping(config).get("labels"))
    return {str(key): value for key, value in labels.items() if isinstance(value, str)}


def _of_sqlite(file: Path, container: str) -> object:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=_PATIENCE_SECONDS)) as state:
            row = state.execute("SELECT JSON FROM ContainerConfig WHERE ID = ?", (container,)).fetchone()
    except sqlite3.Error:  # absent, closed to us, or of a version to come
        return None
    return _json(row[0]) if row and isinstance(row[0], str | bytes) else None


def _of_bolt(file: Path, container: str) -> object:
    """Return what follows a container's id in its configuration, which Bolt keeps in one piece."""
    try:
        with file.open("rb", buffering=0) as stream:
            data = stream.read(_MOST_BOLT_BYTES)
    except OSError:
        return None
    mark = b'"id":"%s",' % container.encode()
    at = data.rfind(mark)
    while at >= 0:
        text = data[at : at + _MOST_CONFIG_BYTES].decode(errors="replace")
        try:
            found, _ = json.JSONDecoder().raw_decode("{" + text)
        except (ValueError, RecursionError):  # a page that is no longer in use
            found = None
        if isinstance(found, dict) and "name" in found:
            return found
        at = data.rfind(mark, 0, at)
    return None


def _json(text: str | bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
