"""Finding providers: built-in ones by walking this package, outside ones by the entry point group."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kwhere import emission_factors
from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, Unavailable
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.memory import MemoryFile
from kwhere.emission_factors.plugin import AnyProviderPlugin, ProviderPlugin
from kwhere.emission_factors.provider import EmissionFactorProvider, KeyedProvider

ENTRY_POINT_GROUP = "kwhere.emission_factors"


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
    found: dict[str, AnyProviderPlugin] = {}
    for plugin in _built_in():
        _admit(plugin, found)
    refused = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP) if outside is None else outside, key=str):
        try:
            _admit(_checked(point.load(), point.value), found)
        except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
            refused.append(f"emission factor provider {point.name} of {point.value}: {error}")
    return Providers(found, tuple(refused))


def _built_in() -> Iterator[AnyProviderPlugin]:
    for module in pkgutil.iter_modules(emission_factors.__path__, f"{emission_factors.__name__}."):
        plugin = getattr(importlib.import_module(module.name), "plugin", None)
        if isinstance(plugin, ProviderPlugin):
            yield plugin


def _checked(plugin: object, place: str) -> AnyProviderPlugin:
    if not isinstance(plugin, ProviderPlugin):
        raise ValueError(f"{place}: expected a ProviderPlugin, found {plugin!r}")
    return plugin


def _admit(plugin: AnyProviderPlugin, found: dict[str, AnyProviderPlugin]) -> None:
    if plugin.name in found:
        raise ValueError(f"emission factor provider {plugin.name}: there is another one of this name")
    found[plugin.name] = plugin
