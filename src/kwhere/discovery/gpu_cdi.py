"""Container Device Interface files (CNCF, cdi specification): the device files behind the name of a claimed device."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from kwhere.discovery.facts import names_in, read_small

_ENDINGS = (".json", ".yaml", ".yml")
_LIMIT_BYTES = 1 << 18
_MOST_FILES = 512


def parse_cdi(text: str, *, is_json: bool) -> dict[str, tuple[str, ...]]:
    """Return the device files of each device by its full name, `vendor/class=device`; nothing for other text."""
    try:
        found = json.loads(text) if is_json else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        return {}
    return {
        f"{found['kind']}={device['name']}": tuple(_files(device))
        for device in _list(found.get("devices"))
        if isinstance(device.get("name"), str)
    }


class CdiFiles:
    """Files by kind, read again when they change. For one thread."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._known: dict[Path, tuple[int, dict[str, tuple[str, ...]]]] = {}

    def device_files(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the device files behind these names; none where no file knows them."""
        wanted = [name for name in names if "/" in name and "=" in name]
        found: list[str] = []
        for name in wanted:
            for devices in self._of_vendor(name.partition("/")[0]):
                found.extend(devices.get(name, ()))
        return tuple(dict.fromkeys(found))

    def _of_vendor(self, vendor: str) -> Iterator[dict[str, tuple[str, ...]]]:
        """Yield the devices of each file that is named after a vendor, as the specification asks for."""
        for directory in self._directories:
            listed = [name for name in names_in(directory) if name.startswith(vendor) and name.endswith(_ENDINGS)]
            for name in listed[:_MOST_FILES]:
                yield self._read(directory / name)

    def _read(self, path: Path) -> dict[str, tuple[str, ...]]:
        try:
            changed_ns = path.stat().st_mtime_ns
        except OSError:
            return {}
        known = self._known.get(path)
        if known is None or known[0] != changed_ns:
            text = read_small(path, _LIMIT_BYTES) or ""
            known = self._known[path] = changed_ns, parse_cdi(text, is_json=path.suffix == ".json")
        return known[1]


def _files(device: dict[str, Any]) -> Iterator[str]:
    edits = device.get("containerEdits")
    for node in _list(edits.get("deviceNodes")) if isinstance(edits, dict) else ():
        path = node.get("hostPath") or node.get("path")
        if isinstance(path, str):
            yield path


def _list(found: object) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
