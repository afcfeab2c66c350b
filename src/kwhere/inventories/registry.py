"""Finding sources of inventory: built-in ones by walking this package, outside ones by the entry point group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import ValidationError

from kwhere import inventories
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.plugins import FoundPlugins, PluginPlace, find_plugins
from kwhere.inventories.source import AnyInventoryPlugin, InventoryPlugin, InventorySource, SourceSettings

ENTRY_POINT_GROUP = "kwhere.inventories"
KEY = "inventories"
_PLACE: PluginPlace[AnyInventoryPlugin] = PluginPlace(
    inventories, InventoryPlugin, ENTRY_POINT_GROUP, "inventory source"
)


@dataclass(frozen=True, slots=True)
class BuiltInventory:
    """One configured source."""

    name: str
    """Unique among the configured; facts are kept under it."""
    position: int
    """Where several say the same thing differently, the lowest counts."""
    settings: SourceSettings
    source: InventorySource


def find_inventories(outside: Iterable[EntryPoint] | None = None) -> FoundPlugins[AnyInventoryPlugin]:
    """Return all kinds of source. A faulty built-in one raises ValueError, a faulty outside one is refused."""
    return find_plugins(_PLACE, outside)


def build_inventories(
    plugins: Mapping[str, AnyInventoryPlugin], entries: Sequence[Mapping[str, Any]], clock: Clock
) -> tuple[BuiltInventory, ...]:
    """Return the sources of the configuration, in order. Raises ConfigError that names the wrong key."""
    built: list[BuiltInventory] = []
    for position, entry in enumerate(entries):
        key = f"{KEY}.{position}"
        settings, source = _build(plugins, entry, key, clock)
        name = settings.name or settings.source
        if name in {other.name for other in built}:
            raise ConfigError(f"{key}.name: another entry is called {name} already; give each its own")
        built.append(BuiltInventory(name, position, settings, source))
    return tuple(built)


def _build(
    plugins: Mapping[str, AnyInventoryPlugin], entry: Mapping[str, Any], key: str, clock: Clock
) -> tuple[SourceSettings, InventorySource]:
    kind = entry.get("source")
    if not isinstance(kind, str) or kind not in plugins:
        raise ConfigError(f"{key}.source: expected one of {', '.join(sorted(plugins))}, found {kind!r}")
    plugin = plugins[kind]
    try:
        settings = plugin.settings_class.model_validate(dict(entry))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in (key, *first["loc"]))
        raise ConfigError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from error
    try:
        return settings, plugin.build(settings, clock)
    except ConfigError as error:
        raise ConfigError(f"{key}.{error}") from error
