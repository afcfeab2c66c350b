"""Every meter of this host: built-in ones are found by walking the package, then ranked per component."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import kwhere.meters
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.plugins import built_in_plugins
from kwhere.core.terms import Component, DomainKind
from kwhere.meters.meter import PLATFORM, Meter, MeterContext, Plugin
from kwhere.meters.sources import COMPONENT_ORDER, PLATFORM_ORDER

_COMMON = frozenset({"powercap", "psys", "model"})
_NOT_HERE = frozenset({"absent", "unconfigured", "spare"})
_COMPONENT_OF = {
    DomainKind.CPU: Component.CPU,
    DomainKind.DRAM: Component.DRAM,
    DomainKind.GPU: Component.GPU,
    DomainKind.OTHER: Component.OTHER,
}
HYPERVISOR = "hypervisor"
"""Where a guest is fed, its hypervisor alone speaks: what else a virtual machine shows is no meter of its own."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """Whether a source can be read, and why not: one row of `kwhere_energy_source_up` and of `doctor`."""

    source: str
    up: bool
    reason: str = ""
    """One word, empty while up."""
    detail: str = ""


def is_worth_a_series(status: SourceStatus) -> bool:
    """Return whether `kwhere_energy_source_up` shows a source: all but rare ones that are simply not here.

    A node has a budget of series; `kwhere doctor` names every source.
    """
    return status.up or status.source in _COMMON or status.reason not in _NOT_HERE


@dataclass(frozen=True, slots=True)
class Meters:
    """All meters that work, and which of them speak for the node."""

    meters: tuple[Meter, ...]
    sources: tuple[SourceStatus, ...]
    by_component: Mapping[Component, Meter]
    """The one meter of each component; the model only where nothing measures the CPUs."""
    platforms: tuple[Meter, ...]
    """Meters with a platform domain, best first; the first that works at start is kept."""
    alone: str | None = None
    """The one source that speaks for the node, where others must not stand in for it."""


def plugins() -> Iterator[Plugin]:
    """Return the plugin of every module of this package that has one, by name."""
    return built_in_plugins(kwhere.meters, Plugin)


def build_meters(context: MeterContext, candidates: Sequence[Plugin] | None = None) -> Meters:
    """Return the meters of this host; a source that cannot be read is a status, never an error."""
    meters: list[Meter] = []
    sources: list[SourceStatus] = []
    for plugin in plugins() if candidates is None else candidates:
        if plugin.source in context.settings.off:
            sources.append(SourceStatus(plugin.source, up=False, reason="off", detail="meters.off names it"))
            continue
        try:
            meters.append(plugin.build(context))
        except Unavailable as error:
            sources.append(SourceStatus(plugin.source, up=False, reason=error.reason, detail=str(error)))
        except SourceError as error:
            sources.append(SourceStatus(plugin.source, up=False, reason="nonsense", detail=str(error)))
        else:
            sources.append(SourceStatus(plugin.source, up=True))
    alone = [meter for meter in meters if meter.source == HYPERVISOR]
    speakers = alone or meters
    return Meters(
        meters=tuple(meters),
        sources=tuple(sources),
        by_component=_by_component(speakers),
        platforms=_platforms(speakers, context.settings.platform),
        alone=HYPERVISOR if alone else None,
    )


def _by_component(meters: Sequence[Meter]) -> dict[Component, Meter]:
    chosen: dict[Component, Meter] = {}
    for meter in sorted(meters, key=lambda meter: _rank(COMPONENT_ORDER, meter)):
        if meter.source == "model" and Component.CPU in chosen:
            continue  # beside measured CPUs a memory that nothing measures is missing, not guessed
        for component in {_COMPONENT_OF[d.kind] for d in meter.domains if d.kind in _COMPONENT_OF}:
            chosen.setdefault(component, meter)
    return chosen


def _platforms(meters: Sequence[Meter], named: str | None) -> tuple[Meter, ...]:
    """Return meters of the whole node, best first; where the settings name one, no other stands in for it."""
    found = [meter for meter in meters if PLATFORM in meter.domains and named in (None, meter.source)]
    return tuple(sorted(found, key=lambda meter: _rank(PLATFORM_ORDER, meter)))


def _rank(order: Sequence[str], meter: Meter) -> tuple[int, str]:
    return (order.index(meter.source) if meter.source in order else len(order)), meter.source
