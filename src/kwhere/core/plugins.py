"""Finding plug-ins: built-in ones by walking a package, outside ones by the entry points of a group."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    """What every plug-in has: the name that settings call it by."""

    @property
    def name(self) -> str:
        """Return it."""
        ...


PluginT = TypeVar("PluginT", bound=Named)
KindT = TypeVar("KindT")


@dataclass(frozen=True, slots=True)
class PluginPlace(Generic[PluginT]):
    """Where plug-ins of one kind are looked for."""

    package: ModuleType
    kind: type[PluginT]
    group: str
    """Group of entry points for other distributions."""
    noun: str
    """What a person calls one: collector, resource manager, …"""


@dataclass(frozen=True, slots=True)
class FoundPlugins(Generic[PluginT]):
    """Plug-ins by name, and why others may not be used."""

    plugins: Mapping[str, PluginT]
    refused: tuple[str, ...]
    """One sentence per outside plug-in that cannot be used."""


def built_in_plugins(package: ModuleType, kind: type[KindT]) -> Iterator[KindT]:
    """Yield the `plugin` of each module of `package` that has one, by name of the module. Raises ValueError."""
    for module in sorted(pkgutil.iter_modules(package.__path__, f"{package.__name__}."), key=lambda found: found.name):
        plugin = getattr(importlib.import_module(module.name), "plugin", None)
        if isinstance(plugin, kind):
            yield plugin
        elif plugin is not None:
            raise ValueError(f"{module.name}: {_unlike(plugin, kind)}")


def find_plugins(
    place: PluginPlace[PluginT],
    outside: Iterable[EntryPoint] | None = None,
    check: Callable[[PluginT], None] = lambda plugin: None,
) -> FoundPlugins[PluginT]:
    """Return all plug-ins of a kind. A faulty built-in one raises ValueError, a faulty outside one is refused.

    `check` is asked last, once per plug-in, and raises ValueError for one that may not be used beside those before it.
    """
    found: dict[str, PluginT] = {}

    def admit(plugin: PluginT) -> None:
        if plugin.name in found:
            raise ValueError(f"{place.noun} {plugin.name}: there is another one of this name")
        check(plugin)
        found[plugin.name] = plugin

    for plugin in built_in_plugins(place.package, place.kind):
        admit(plugin)
    refused = []
    for point in sorted(entry_points(group=place.group) if outside is None else outside, key=str):
        try:
            plugin = point.load()
            if not isinstance(plugin, place.kind):
                raise ValueError(_unlike(plugin, place.kind))
            admit(plugin)
        except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
            refused.append(f"{place.noun} {point.name} of {point.value}: {error}")
    return FoundPlugins(found, tuple(refused))


def _unlike(plugin: object, kind: type) -> str:
    return f"expected a {kind.__name__}, found {plugin!r}"
