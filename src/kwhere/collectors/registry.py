"""Finding collectors: built-in ones by walking this package, outside ones by the entry point group."""

import re
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint

from kwhere import collectors
from kwhere.collectors.collector import AnyPlugin, CollectorPlugin
from kwhere.collectors.runner import RUNNER_SPECS
from kwhere.core.plugins import FoundPlugins, PluginPlace, find_plugins

ENTRY_POINT_GROUP = "kwhere.collectors"
_PLACE: PluginPlace[AnyPlugin] = PluginPlace(collectors, CollectorPlugin, ENTRY_POINT_GROUP, "collector")
_NAME = re.compile(r"[a-z][a-z0-9_]*")

Plugins = FoundPlugins[AnyPlugin]
"""The collectors that may be run, by name, and why others may not."""


def find_collectors(outside: Iterable[EntryPoint] | None = None) -> Plugins:
    """Return all collectors. A faulty built-in one raises ValueError, a faulty outside one is refused."""
    return find_plugins(_PLACE, outside, _metrics_check())


def _metrics_check() -> Callable[[AnyPlugin], None]:
    """Return a check that name and metrics of a plug-in are well-formed and nobody else's."""
    families = dict.fromkeys((spec.family for spec in RUNNER_SPECS), "the runner")

    def check(plugin: AnyPlugin) -> None:
        if not _NAME.fullmatch(plugin.name):
            raise ValueError(f"expected a name of lower-case letters, digits and _, found {plugin.name!r}")
        names = [spec.family for spec in plugin.specs]
        for name in names:
            if name in families or names.count(name) > 1:
                raise ValueError(f"collector {plugin.name}: metric {name} is also {families.get(name, plugin.name)}'s")
        families.update(dict.fromkeys(names, plugin.name))

    return check
