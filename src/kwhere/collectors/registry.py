"""Finding collectors: built-in ones by walking this package, outside ones by the entry point group."""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from kwhere import collectors
from kwhere.collectors.collector import AnyPlugin, CollectorPlugin
from kwhere.collectors.runner import RUNNER_SPECS

ENTRY_POINT_GROUP = "kwhere.collectors"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Plugins:
    """The collectors that may be run, by name, and why others may not."""

    plugins: Mapping[str, AnyPlugin]
    refused: tuple[str, ...]
    """One sentence per outside plug-in that cannot be used."""


def find_plugins(outside: Iterable[EntryPoint] | None = None) -> Plugins:
    """Return all collectors. A faulty built-in one raises ValueError, a faulty outside one is refused."""
    found: dict[str, AnyPlugin] = {}
    families = dict.fromkeys((spec.family for spec in RUNNER_SPECS), "the runner")
    for plugin in _built_in():
        _admit(plugin, found, families)
    refused = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP) if outside is None else outside, key=str):
        try:
            _admit(_loaded(point), found, families)
        except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
            refused.append(f"collector {point.name} of {point.value}: {error}")
    return Plugins(found, tuple(refused))


def _built_in() -> Iterator[AnyPlugin]:
    for module in pkgutil.iter_modules(collectors.__path__, f"{collectors.__name__}."):
        plugin = getattr(importlib.import_module(module.name), "plugin", None)
        if plugin is not None:
            yield _checked(plugin, module.name)


def _loaded(point: EntryPoint) -> AnyPlugin:
    return _checked(point.load(), point.value)


def _checked(plugin: object, place: str) -> AnyPlugin:
    if not isinstance(plugin, CollectorPlugin):
        raise ValueError(f"{place}: expected a CollectorPlugin, found {plugin!r}")
    if not _NAME.fullmatch(plugin.name):
        raise ValueError(f"{place}: expected a name of lower-case letters, digits and _, found {plugin.name!r}")
    return plugin


def _admit(plugin: AnyPlugin, found: dict[str, AnyPlugin], families: dict[str, str]) -> None:
    """Add a plug-in whose name and metrics are nobody else's."""
    if plugin.name in found:
        raise ValueError(f"collector {plugin.name}: there is another one of this name")
    names = [spec.family for spec in plugin.specs]
    for name in names:
        if name in families or names.count(name) > 1:
            raise ValueError(f"collector {plugin.name}: metric {name} is also {families.get(name, plugin.name)}'s")
    found[plugin.name] = plugin
    families.update(dict.fromkeys(names, plugin.name))
