"""Reconciliation of a node: its meters against each other, from the store of series."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from kwhere.core.terms import Component, DomainKind, Method
from kwhere.core.timespan import Span
from kwhere.energy.reconciliation import (
    Residual,
    Shared,
    against_components,
    compare,
    idle_share,
    known_windows,
    total,
)
from kwhere.meters.sources import PLATFORM_ORDER
from kwhere.series.by_cluster import store_of
from kwhere.series.charts import Chart, ChartColumn, NodeRef
from kwhere.series.functions import Grid, grid_of
from kwhere.series.store import RawSeries, Selector, SeriesStore
from kwhere.series.windows import down_windows, gap_windows, whole_windows

METER = "kwhere_node_meter_joules_total"
UP = "kwhere_energy_source_up"
BELOW_COMPONENTS = "below_components"
"""The reason of a source whose total the agent refuses."""
WINDOWS_SECONDS = (120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
"""The shortest is twice what the slowest BMC averages over."""
WINDOWS_WANTED = 48
SHORT_SPAN_SECONDS = 3600.0
"""Spans shorter than this are cut into windows of two minutes."""
SAMPLES_PER_WINDOW = 30
_MISSED_SCRAPES = 2.5
_MODEL = "model"
_BESIDE = frozenset({Component.CPU, Component.DRAM, Component.GPU})
_KIND_OF = {
    Component.CPU: DomainKind.CPU,
    Component.DRAM: DomainKind.DRAM,
    Component.GPU: DomainKind.GPU,
}


@dataclass(frozen=True, slots=True)
class MeterTrack:
    """One source's energy of one kind of domain, joules by window; None where it does not know the whole window."""

    source: str
    kind: DomainKind
    places: frozenset[str]
    """Sockets or devices that it measures; empty for the whole node."""
    joules: tuple[float | None, ...]
    covers: frozenset[Component] = frozenset()
    """Of a meter of the whole node: which components lie inside it."""

    @property
    def is_modelled(self) -> bool:
        """Return whether it is an estimate, which proves nothing."""
        return self.source == _MODEL


@dataclass(frozen=True, slots=True)
class Comparison:
    """A source beside the one that speaks for the same thing."""

    track: MeterTrack
    reference: str
    shared: Shared | None
    """None: fewer than three windows that both know."""
    counts: bool
    """Whether a difference is a disagreement: both are measured, and measure the same components."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A node's meters within a span. Sentences and causes are made of it in `reports.agreement`."""

    span: Span
    window_seconds: float
    windows: int
    platform: MeterTrack | None
    """The meter that speaks for the whole node."""
    inside: tuple[MeterTrack, ...]
    """Measured components inside it, each by the source that speaks for it."""
    inside_joules: tuple[float | None, ...]
    unmeasured: tuple[Component, ...]
    """Components inside it that nothing measures beside it."""
    residual: Residual | None
    other_idle_joules: float | None
    other_dynamic_joules: float | None
    comparisons: tuple[Comparison, ...]
    tracks: tuple[MeterTrack, ...]
    speaking: tuple[MeterTrack, ...] = ()
    """Those that the node's energy is made of: the whole node's, and each component's, measured or modelled."""
    refused: tuple[str, ...] = ()
    """Sources whose total of the node the agent no longer takes, for it showed less than the components inside."""

    @property
    def used_windows(self) -> int:
        """Return how many windows platform and components are compared over."""
        return 0 if self.platform is None else len(known_windows([self.platform.joules, self.inside_joules]))

    def comparison_of(self, track: MeterTrack) -> Comparison | None:
        """Return the comparison of a track with the one that speaks; None where it speaks, or nothing does."""
        return next((each for each in self.comparisons if each.track is track), None)

    @property
    def left_out_ratio(self) -> float | None:
        """Return the share of the windows that could not be compared; None without anything to compare."""
        if self.platform is None or not self.inside or not self.windows:
            return None
        return 1.0 - self.used_windows / self.windows


def window_seconds_of(span: Span) -> float:
    """Return the windows that a span is cut into: 2 min below an hour, 5 min for one, longer ones for more."""
    least = WINDOWS_SECONDS[0] if span.seconds < SHORT_SPAN_SECONDS else WINDOWS_SECONDS[1]
    wanted = max(least, span.seconds / WINDOWS_WANTED)
    return float(next((seconds for seconds in WINDOWS_SECONDS if seconds >= wanted), WINDOWS_SECONDS[-1]))


def reconcile_node(store: SeriesStore, node: NodeRef, span: Span) -> Reconciliation:
    """Return the node's meters against each other within `span`. Raises Unavailable, SourceError from the store."""
    found = _Found(store_of(store, node.cluster), node, span)
    refused = found.refused()
    tracks = [t for t in found.tracks() if t.kind is not DomainKind.PLATFORM or t.source not in refused]
    reconciled = reconcile(found.span, found.grid, tracks, found.speakers(), found.idle_watts())
    return replace(reconciled, refused=refused)


def reconcile(
    span: Span,
    grid: Grid,
    tracks: Sequence[MeterTrack],
    speakers: Mapping[Component, tuple[Method, str]],
    idle_watts: float | None,
) -> Reconciliation:
    """Return what tracks say of each other; `speakers`: method and source of each component of the node."""
    platform = _platform(tracks, speakers)
    inside = _inside(platform, tracks, speakers)
    inside_joules = total([track.joules for track in inside]) if inside else (None,) * grid.count
    residual = None if platform is None else against_components(platform.joules, inside_joules)
    idle = dynamic = None
    if residual is not None and platform is not None and idle_watts is not None:
        pairs = zip(platform.joules, inside_joules, strict=True)
        rests = [None if p is None or c is None else p - c for p, c in pairs]
        idle, dynamic = idle_share(rests, idle_watts * grid.step_seconds)
    measured = {track.kind for track in inside}
    covers = platform.covers & _BESIDE if platform is not None else frozenset()
    return Reconciliation(
        span=span,
        window_seconds=grid.step_seconds,
        windows=grid.count,
        platform=platform,
        inside=inside,
        inside_joules=inside_joules,
        unmeasured=tuple(c for c in Component if c in covers and _KIND_OF[c] not in measured),
        residual=residual,
        other_idle_joules=idle,
        other_dynamic_joules=dynamic,
        comparisons=tuple(_comparisons(tracks, speakers, platform)),
        tracks=tuple(tracks),
        speaking=tuple(t for t in tracks if t is platform or _speaks(t, speakers)),
    )


def power_chart(found: Reconciliation) -> Chart | None:
    """Return each whole meter, the components together and the residual as lines; None without a platform meter."""
    if found.platform is None:
        return None
    grid = grid_of(found.span, found.window_seconds)
    platforms = [track for track in found.tracks if track.kind is DomainKind.PLATFORM]
    columns = [(track.source, {"source": track.source}, track.joules) for track in platforms]
    if found.inside:
        rest = [
            None if p is None or c is None else p - c
            for p, c in zip(found.platform.joules, found.inside_joules, strict=True)
        ]
        columns.append(("components", {"component": "cpu"}, found.inside_joules))
        columns.append((f"{found.platform.source} − components", {"component": "other"}, tuple(rest)))
    lines = [ChartColumn(label, labels, _watts(joules, grid.step_seconds)) for label, labels, joules in columns]
    return Chart("reconciliation", "Meters against components", "watts", grid.step_seconds, grid.times, tuple(lines))


def mean_watts(track: MeterTrack, window_seconds: float) -> float | None:
    """Return the mean power over the windows that a source knows."""
    known = [value for value in track.joules if value is not None]
    return math.fsum(known) / len(known) / window_seconds if known else None


class _Found:
    """What the store holds of a node's meters."""

    def __init__(self, store: SeriesStore, node: NodeRef, span: Span) -> None:
        self.span = span
        self.grid = grid_of(span, window_seconds_of(span))
        self._store = store
        self._labels = {"cluster": node.cluster, "node": node.node}
        self._step_seconds = max(store.scrape_seconds, self.grid.step_seconds / SAMPLES_PER_WINDOW)
        self._gap_seconds = self._step_seconds + _MISSED_SCRAPES * store.scrape_seconds

    def tracks(self) -> list[MeterTrack]:
        """Return every source's energy by kind; a window in which it had a gap is not known."""
        spoiled = self._spoiled()
        covers = self._covers()
        by_place: dict[tuple[str, str], dict[str, list[RawSeries]]] = {}
        for series in self._select(METER):
            source, domain = series.labels.get("source", ""), series.labels.get("domain", "")
            if source and domain in list(DomainKind):
                by_place.setdefault((source, domain), {}).setdefault(series.labels.get("socket", ""), []).append(series)
        return [
            MeterTrack(
                source,
                DomainKind(domain),
                frozenset(place for place in places if place),
                self._joules([s for each in places.values() for s in each], spoiled.get(source, frozenset())),
                covers.get(source, frozenset(Component)) if domain == DomainKind.PLATFORM else frozenset(),
            )
            for (source, domain), places in sorted(by_place.items())
        ]

    def speakers(self) -> dict[Component, tuple[Method, str]]:
        """Return method and source of each component, the newest of the span."""
        newest: dict[Component, tuple[float, Method, str]] = {}
        for series in self._select("kwhere_energy_method_info"):
            component, method = series.labels.get("component", ""), series.labels.get("method", "")
            if component in list(Component) and method in list(Method) and series.times:
                row = (series.times[-1], Method(method), series.labels.get("source", ""))
                newest[Component(component)] = max(row, newest.get(Component(component), row))
        return {component: (method, source) for component, (_, method, source) in newest.items()}

    def refused(self) -> tuple[str, ...]:
        """Return the sources that the agent last said to be below their components."""
        newest: dict[str, tuple[float, str]] = {}
        for series in self._select(UP):
            if series.times:
                row = (series.times[-1], series.labels.get("reason", ""))
                source = series.labels.get("source", "")
                newest[source] = max(row, newest.get(source, row))
        return tuple(sorted(source for source, (_, reason) in newest.items() if reason == BELOW_COMPONENTS))

    def idle_watts(self) -> float | None:
        """Return the newest idle baseline of `other`; None where none is in force."""
        found = [s for s in self._select("kwhere_node_idle_watts", component=str(Component.OTHER)) if s.values]
        return max(found, key=lambda series: series.times[-1]).values[-1] if found else None

    def _select(self, metric: str, **only: str) -> Sequence[RawSeries]:
        around = timedelta(seconds=self.grid.step_seconds + self._gap_seconds)
        span = Span(self.span.start - around, self.span.end + around)
        return self._store.select(Selector(metric, {**self._labels, **only}), span, self._step_seconds)

    def _covers(self) -> dict[str, frozenset[Component]]:
        found: dict[str, set[Component]] = {}
        for series in self._select("kwhere_energy_source_covers_info"):
            component = series.labels.get("component", "")
            if component in list(Component):
                found.setdefault(series.labels.get("source", ""), set()).add(Component(component))
        return {source: frozenset(components) for source, components in found.items()}

    def _spoiled(self) -> dict[str, frozenset[int]]:
        found: dict[str, frozenset[int]] = {}
        for metric, windows in (
            ("kwhere_energy_gap_seconds_total", gap_windows),
            (UP, down_windows),
        ):
            for series in self._select(metric):
                source = series.labels.get("source", "")
                found[source] = found.get(source, frozenset()) | windows(series, self.grid)
        return found

    def _joules(self, places: Sequence[RawSeries], spoiled: frozenset[int]) -> tuple[float | None, ...]:
        summed = total([whole_windows(series, self.grid, self._gap_seconds) for series in places])
        return tuple(None if at in spoiled else value for at, value in enumerate(summed))


def _speaks(track: MeterTrack, speakers: Mapping[Component, tuple[Method, str]]) -> bool:
    component = next((component for component, kind in _KIND_OF.items() if kind is track.kind), None)
    return component is not None and component in speakers and speakers[component][1] == track.source


def _platform(tracks: Sequence[MeterTrack], speakers: Mapping[Component, tuple[Method, str]]) -> MeterTrack | None:
    """Return the whole node's meter that speaks: the source of `other`, else the best of those that are there."""
    whole = [track for track in tracks if track.kind is DomainKind.PLATFORM]
    speaker = speakers[Component.OTHER][1] if Component.OTHER in speakers else None
    return min(whole, key=lambda track: (track.source != speaker, *_rank(track.source)), default=None)


def _inside(
    platform: MeterTrack | None, tracks: Sequence[MeterTrack], speakers: Mapping[Component, tuple[Method, str]]
) -> tuple[MeterTrack, ...]:
    if platform is None:
        return ()
    by_place = {(track.kind, track.source): track for track in tracks}
    found = []
    for component, kind in _KIND_OF.items():
        method, source = speakers.get(component, (Method.MODELLED, ""))
        track = by_place.get((kind, source))
        if component in platform.covers and method is not Method.MODELLED and track is not None:
            found.append(track)
    return tuple(found)


def _comparisons(
    tracks: Sequence[MeterTrack], speakers: Mapping[Component, tuple[Method, str]], platform: MeterTrack | None
) -> list[Comparison]:
    references = {(DomainKind.PLATFORM, platform.source): platform} if platform is not None else {}
    for component, kind in _KIND_OF.items():
        source = speakers[component][1] if component in speakers else None
        references |= {(kind, t.source): t for t in tracks if t.kind is kind and t.source == source}
    by_kind = {kind: track for (kind, _), track in references.items()}
    absent = frozenset({Component.GPU}) if all(track.kind is not DomainKind.GPU for track in tracks) else frozenset()
    found = []
    for track in sorted(tracks, key=lambda track: (list(DomainKind).index(track.kind), *_rank(track.source))):
        reference = by_kind.get(track.kind)
        if reference is None or reference is track or reference.places != track.places:
            continue
        counts = not (track.is_modelled or reference.is_modelled) and not (track.covers ^ reference.covers) - absent
        found.append(Comparison(track, reference.source, compare(reference.joules, track.joules), counts))
    return found


def _rank(source: str) -> tuple[int, str]:
    return (PLATFORM_ORDER.index(source) if source in PLATFORM_ORDER else len(PLATFORM_ORDER)), source


def _watts(joules: Sequence[float | None], window_seconds: float) -> tuple[float | None, ...]:
    return tuple(None if value is None else value / window_seconds for value in joules)
