"""Targets in the formats of Prometheus: file_sd, http_sd, DNS. Parsing is pure and strict."""

import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kwhere.core.errors import SourceError, Unavailable

MAX_FILE_BYTES = 8 << 20
MAX_TARGETS = 100_000
ADDRESS_LABEL = "__address__"
SCHEME_LABEL = "__scheme__"
NODE_LABEL = "node"


@dataclass(frozen=True, slots=True)
class Discovered:
    """One address that a source of discovery named, with its labels."""

    address: str
    """HOST:PORT, or a whole URL."""
    labels: tuple[tuple[str, str], ...] = field(default=())

    def label(self, name: str) -> str | None:
        """Return a label's value."""
        return dict(self.labels).get(name)


def parse_groups(tree: object, place: str) -> list[Discovered]:
    """Return the targets of `[{"targets": ["HOST:PORT", …], "labels": {…}}, …]`. Raises SourceError."""
    if not isinstance(tree, list):
        raise SourceError(f"{place}: expected a list of target groups, found {type(tree).__name__}")
    found: list[Discovered] = []
    for index, group in enumerate(tree):
        found += _group(group, f"{place}[{index}]")
        if len(found) > MAX_TARGETS:
            raise SourceError(f"{place}: expected at most {MAX_TARGETS} targets")
    return found


def read_file(path: Path) -> list[Discovered]:
    """Return the targets of a file_sd file, YAML or JSON by its ending. Raises Unavailable, SourceError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Unavailable("absent", f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise SourceError(f"{path}: expected at most {MAX_FILE_BYTES} bytes")
    return parse_groups(parse_json(data, str(path)) if path.suffix == ".json" else _yaml(data, path), str(path))


def parse_json(data: bytes, place: str) -> object:
    """Return the value of a JSON text. Raises SourceError."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # a text that is not UTF-8 is a ValueError too
        raise SourceError(f"{place}: expected JSON: {error}") from error


def look_up(name: str) -> list[Discovered]:
    """Return every address of `NAME:PORT`, in order. Raises Unavailable, SourceError."""
    host, _, port = name.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 65536):
        raise SourceError(f"{name}: expected NAME:PORT")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a label that is empty or too long is a UnicodeError
        raise Unavailable("dns", f"{name}: {getattr(error, 'strerror', None) or error}") from error
    return [Discovered(_joined(address)) for address in sorted({(str(item[4][0]), int(port)) for item in found})]


def _group(group: object, place: str) -> Iterator[Discovered]:
    if not isinstance(group, dict) or not set(group) <= {"targets", "labels"}:
        raise SourceError(f"{place}: expected an object of targets and labels, found {str(group)[:60]}")
    targets, labels = group.get("targets", []), group.get("labels") or {}
    if not isinstance(targets, list) or not all(isinstance(target, str) and target for target in targets):
        raise SourceError(f"{place}.targets: expected a list of texts")
    if not isinstance(labels, dict) or not all(isinstance(part, str) for item in labels.items() for part in item):
        raise SourceError(f"{place}.labels: expected texts by name")
    held = tuple(sorted(labels.items()))
    for target in targets:
        yield Discovered(target, held)


def _yaml(data: bytes, path: Path) -> object:
    try:
        return yaml.load(data, yaml.BaseLoader)  # noqa: S506 - it makes texts, lists and mappings and nothing else
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # TypeError: a list as a key
        raise SourceError(f"{path}: expected YAML: {' '.join(str(error).split())[:200]}") from error


def _joined(address: Sequence[object]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
