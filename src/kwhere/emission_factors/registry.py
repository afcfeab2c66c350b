"""Finding providers: built-in ones by walking this package, outside ones by the entry point group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kwhere import emission_factors
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, Unavailable
from kwhere.core.plugins import PluginPlace, find_plugins
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.memory import MemoryFile
from kwhere.emission_factors.plugin import AnyProviderPlugin, ProviderPlugin
from kwhere.emission_factors.provider import EmissionFactorProvider, KeyedProvider

ENTRY_POINT_GROUP = "kwhere.emission_factors"
_PLACE: PluginPlace[AnyProviderPlugin] = PluginPlace(
    emission_factors, ProviderPlugin, ENTRY_POINT_GROUP, "emission factor provider"
)


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers that may be used, by name, and why others may not."""

    plugins: Mapping[str, AnyProviderPlugin]
    refused: tuple[str, ...]
    """One sentence per outside plug-in that cannot be used."""

    def plugin(self, name: str, key: str) -> AnyProviderPlugin:
        """Return the plug-in `name`. Raises ConfigError that begins with `key` and names what there is."""
        if name not in self.plugins:
            raise ConfigError(f"{key}: expected one of {', '.join(sorted(self.plugins))}, found {name!r}")
        return self.plugins[name]

    def build(
        self, name: str, settings: Mapping[str, Any], key: str, clock: Clock, state_dir: Path | None = None
    ) -> EmissionFactorProvider:
        """Return the provider `name` with its own settings. Raises ConfigError that begins with the wrong key.

        A live one keeps what it said in `state_dir`; without one, in memory alone.
        """
        plugin = self.plugin(name, key)
        try:
            checked = plugin.settings_class.model_validate(dict(settings))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in (key, *first["loc"]))
            raise ConfigError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from error
        try:
            provider = plugin.build(checked, clock)
            if isinstance(provider, KeyedProvider):
                provider.key_digest()
        except (ConfigError, Unavailable) as error:
            raise ConfigError(f"{key}.{error}") from error
        if not plugin.is_live:
            return provider
        memory = MemoryFile(state_dir, name)
        return CachedProvider(provider, plugin.basis, memory, clock, answers_whole=plugin.answers_whole)


def find_providers(outside: Iterable[EntryPoint] | None = None) -> Providers:
    """Return all providers. A faulty built-in one raises ValueError, a faulty outside one is refused."""
    found = find_plugins(_PLACE, outside)
    return Providers(found.plugins, found.refused)
