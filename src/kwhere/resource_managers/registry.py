"""Finding resource managers: built-in ones by walking this package, outside ones by the entry point group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import ValidationError

from kwhere import resource_managers
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.plugins import PluginPlace, find_plugins
from kwhere.resource_managers.plugin import AnyManagerPlugin, ManagerPlugin, ManagerSettings
from kwhere.resource_managers.resource_manager import ResourceManager

ENTRY_POINT_GROUP = "kwhere.resource_managers"
_PLACE: PluginPlace[AnyManagerPlugin] = PluginPlace(
    resource_managers, ManagerPlugin, ENTRY_POINT_GROUP, "resource manager"
)
KEY = "resource_managers"


@dataclass(frozen=True, slots=True)
class BuiltManager:
    """One configured manager."""

    claims: str
    """`manager` of its units as agents report it."""
    settings: ManagerSettings
    source: ResourceManager


@dataclass(frozen=True, slots=True)
class Managers:
    """The managers that may be used, by name, and why others may not."""

    plugins: Mapping[str, AnyManagerPlugin]
    refused: tuple[str, ...] = ()
    """One sentence per outside plug-in that cannot be used."""

    def build(self, entries: Sequence[Mapping[str, Any]], clock: Clock) -> tuple[BuiltManager, ...]:
        """Return the managers of the configuration, in order. Raises ConfigError that names the wrong key."""
        built: list[BuiltManager] = []
        seen: set[tuple[str, str]] = set()
        for index, entry in enumerate(entries):
            key = f"{KEY}.{index}"
            manager = self._build(entry, key, clock)
            place = (manager.claims, manager.settings.cluster)
            if place in seen:
                raise ConfigError(f"{key}: units of {place[0]} in cluster {place[1]} have another manager already")
            seen.add(place)
            built.append(manager)
        return tuple(built)

    def _build(self, entry: Mapping[str, Any], key: str, clock: Clock) -> BuiltManager:
        name = entry.get("manager")
        if not isinstance(name, str) or name not in self.plugins:
            raise ConfigError(f"{key}.manager: expected one of {', '.join(sorted(self.plugins))}, found {name!r}")
        plugin = self.plugins[name]
        try:
            settings = plugin.settings_class.model_validate(dict(entry))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in (key, *first["loc"]))
            raise ConfigError(f"{place}: {first['msg']}") from error
        try:
            return BuiltManager(plugin.claims, settings, plugin.build(settings, clock))
        except ConfigError as error:
            raise ConfigError(f"{key}.{error}") from error


def find_managers(outside: Iterable[EntryPoint] | None = None) -> Managers:
    """Return all managers. A faulty built-in one raises ValueError, a faulty outside one is refused."""
    found = find_plugins(_PLACE, outside)
    return Managers(found.plugins, found.refused)
