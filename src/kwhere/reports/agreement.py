"""What a person is told of a node's reconciliation: one sentence, one short figure, likely causes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kwhere.core.terms import Component, DomainKind
from kwhere.energy.reconciliation import LEAST_WINDOWS, LIMIT_RATIO, Residual, Shared, Verdict
from kwhere.reports.figures import POWER, quantity, significant
from kwhere.reports.reconciliation import Comparison, MeterTrack, Reconciliation, mean_watts

NO_SECOND = "no second source"
NOT_YET = "not yet"
"""There is one, and too little time that both know."""
_BMC_SOURCES = ("redfish", "ipmi_dcmi")
_HALF = (0.4, 0.6)
"""A meter that sees one of two power supplies shows about half."""
_SUPPLY_LOSS_RATIO = 0.12

CAUSE_ONE_SUPPLY = "the meter sees one of two power supplies: sum both (`meters.redfish`), or ask the BMC's maker"
CAUSE_GPUS_OUTSIDE = "the GPUs are not inside what this meter measures: say so in its settings, or sum their chassis"
CAUSE_GPUS_INSIDE = "the GPUs are inside one meter and outside the other"
CAUSE_UNMEASURED = "a GPU inside it draws power that no other source measures"
CAUSE_PSYS = "psys counts in another unit on some servers, or leaves out what the board does not feed through it"
CAUSE_LOSSES = "one is measured before the power supplies and the other behind them: they lose 5 to 10 %"
CAUSE_LAG = "the meter averages over more than a window, or lags by it: look at a longer span"
CAUSE_NEIGHBOURS = "the meter measures more than this node: other nodes of its chassis, or a shared power supply"


@dataclass(frozen=True, slots=True)
class Agreement:
    """A reconciliation in words."""

    sentence: str
    """Whole: who agrees with whom, and within how much."""
    short: str
    """As a headline's figure: `±2.1 %`, `12 % below`, `no second source`."""
    disagrees: bool
    """Whether something is off by more than a tenth."""
    is_checked: bool
    """Whether two sources could be held against each other."""
    causes: tuple[str, ...] = ()
    """What it may be, the likeliest first; empty while all agree."""
    within_ratio: float = 0.0
    """The x of `short`."""


class Agreements(Protocol):
    """What was last found of nodes' meters."""

    def of(self, cluster: str, node: str) -> Agreement | None:
        """Return a node's; None where nobody has looked yet, or the store could not say."""
        ...

    def of_cluster(self, cluster: str | None) -> Sequence[Agreement]:
        """Return those of a cluster's nodes, or of all."""
        ...


class NoAgreements:
    """Nobody looks."""

    def of(self, cluster: str, node: str) -> Agreement | None:
        """Return None."""
        return None

    def of_cluster(self, cluster: str | None) -> Sequence[Agreement]:
        """Return nothing."""
        return ()


def agreement_of(found: Reconciliation) -> Agreement:
    """Return the sentence of a reconciliation."""
    beside = [each for each in found.comparisons if each.shared is not None and not each.track.is_modelled]
    off = [each for each in beside if _is_off(each)]
    residual = found.residual
    platform_off = residual is not None and residual.verdict is not Verdict.AGREES
    widest = _widest(residual, beside, off)
    sentences = [
        *map(_refused, found.refused),
        _main(found),
        *(_beside(each, each.shared) for each in beside if each.shared is not None),
    ]
    return Agreement(
        sentence="; ".join(text for text in sentences if text) + ".",
        short="below" if found.refused else _short(found, widest),
        disagrees=platform_off or bool(off) or bool(found.refused),
        is_checked=bool(found.refused) or residual is not None or any(each.counts for each in beside),
        within_ratio=widest or 0.0,
        causes=tuple(dict.fromkeys(_causes(found, off))),
    )


def source_words(source: str) -> str:
    """Return a source as a person knows it: `BMC (redfish)`."""
    return f"BMC ({source})" if source in _BMC_SOURCES else source


def percent_of(ratio: float) -> str:
    """Return an absolute ratio in percent, two digits: `2.1 %`, `12 %`."""
    return f"{significant(100 * abs(ratio), 2)} %"


def _main(found: Reconciliation) -> str:
    waiting = _waiting(found)
    if waiting is not None and (found.platform is None or not found.inside):
        pair = f"{source_words(waiting.reference)} and {source_words(waiting.track.source)}"
        return "" if _measured(found) else f"{pair}: {_needed(found)}"
    if found.platform is None:
        why = "the node has no meter of its whole power" if found.tracks else "no meter was scraped in this span"
        return "" if _measured(found) else f"No second source here: {why}"
    name = source_words(found.platform.source)
    if not found.inside:
        return "" if _measured(found) else f"No second source here: {name} alone is measured"
    residual = found.residual
    if residual is None:
        return f"{name} and the components: {_needed(found)}"
    watts = quantity(residual.joules / residual.windows / found.window_seconds, POWER)
    if residual.verdict is Verdict.BELOW_COMPONENTS:
        return f"{name} is {percent_of(residual.below_ratio)} below the components inside it"
    if residual.verdict is Verdict.MISSES_LOAD:
        return f"{name} shows only {percent_of(1 + (residual.slope_ratio or 0.0))} of what the components' load adds"
    if residual.verdict is Verdict.UNSTEADY:
        return f"{name} departs from its components by ±{percent_of(residual.spread_ratio)}, {watts} beside them"
    return f"{name} agrees with the components within ±{percent_of(residual.within_ratio)}, {watts} beside them"


def _needed(found: Reconciliation) -> str:
    seconds = LEAST_WINDOWS * found.window_seconds
    needed = f"{seconds / 60:g} min" if seconds <= 7200 else f"{seconds / 3600:g} h"
    return f"not enough yet, {needed} that all know are needed"


def _waiting(found: Reconciliation) -> Comparison | None:
    """Return a second measured source that is too young, or has too many gaps, to be compared."""
    return next((c for c in found.comparisons if c.counts and c.shared is None and not c.track.is_modelled), None)


def _refused(source: str) -> str:
    return f"{source_words(source)} is no longer used: it showed less than the components inside it"


def _beside(each: Comparison, shared: Shared) -> str:
    what = "" if each.track.kind is DomainKind.PLATFORM else f" on {each.track.kind}"
    reference, ratio = source_words(each.reference), shared.difference_ratio
    if ratio is None:
        return f"{reference} shows nothing to hold {source_words(each.track.source)} against{what}"
    if abs(ratio) < 0.0005:
        return f"{source_words(each.track.source)} agrees with {reference}{what}"
    return f"{source_words(each.track.source)} is {_signed(ratio)} {reference}{what}"


def _signed(ratio: float) -> str:
    return f"{percent_of(ratio)} {'above' if ratio > 0 else 'below'}"


def _short(found: Reconciliation, widest: float | None) -> str:
    residual = found.residual
    if residual is not None and residual.verdict is Verdict.BELOW_COMPONENTS:
        return f"{percent_of(residual.below_ratio)} below"
    if widest is not None:
        return f"±{percent_of(widest)}"
    is_young = found.platform is not None and bool(found.inside) and residual is None
    return NOT_YET if is_young or _waiting(found) is not None else NO_SECOND


def _widest(residual: Residual | None, beside: Sequence[Comparison], off: Sequence[Comparison]) -> float | None:
    """Return how far apart any two are that ought to agree; None where nothing could be compared.

    A second meter of the whole node that is off by less than a tenth (supply losses) does not widen what the one that
    speaks shows against its components.
    """
    counted = beside if residual is None else off
    ratios = [abs(each.shared.difference_ratio or 0.0) for each in counted if each.shared is not None and each.counts]
    if residual is not None:
        ratios.append(residual.within_ratio)
        if residual.verdict is Verdict.MISSES_LOAD:
            ratios.append(abs(residual.slope_ratio or 0.0))
    return max(ratios, default=None)


def _causes(found: Reconciliation, off: Sequence[Comparison]) -> Iterator[str]:
    residual, platform = found.residual, found.platform
    for source in found.refused:
        yield from _below_causes(found, source)
    if residual is not None and platform is not None:
        yield from _platform_causes(found, residual, platform.source)
    for each in off:
        if each.shared is not None:
            yield from _pair_causes(found, each, each.shared.difference_ratio or 0.0)


def _platform_causes(found: Reconciliation, residual: Residual, source: str) -> Iterator[str]:
    if residual.verdict in (Verdict.BELOW_COMPONENTS, Verdict.MISSES_LOAD):
        yield from _below_causes(found, source)
    elif residual.verdict is Verdict.UNSTEADY:
        if Component.GPU in found.unmeasured:
            yield CAUSE_UNMEASURED
        yield CAUSE_LAG
        yield CAUSE_NEIGHBOURS


def _below_causes(found: Reconciliation, source: str) -> Iterator[str]:
    if source.endswith("psys"):
        yield CAUSE_PSYS
    if any(track.kind is DomainKind.GPU for track in found.tracks):
        yield CAUSE_GPUS_OUTSIDE
    yield CAUSE_ONE_SUPPLY


def _pair_causes(found: Reconciliation, each: Comparison, ratio: float) -> Iterator[str]:
    if each.track.kind is not DomainKind.PLATFORM:
        return
    if _HALF[0] < 1 + ratio < _HALF[1] or _HALF[0] < 1 / (1 + ratio or 1.0) < _HALF[1]:
        yield CAUSE_ONE_SUPPLY
    if any(name.endswith("psys") for name in (each.track.source, each.reference)):
        yield CAUSE_PSYS
    if any(track.kind is DomainKind.GPU for track in found.tracks) or Component.GPU in found.unmeasured:
        yield CAUSE_GPUS_INSIDE
    if abs(ratio) < _SUPPLY_LOSS_RATIO:
        yield CAUSE_LOSSES


def _is_off(each: Comparison) -> bool:
    ratio = each.shared.difference_ratio if each.shared is not None else None
    return each.counts and ratio is not None and abs(ratio) > LIMIT_RATIO


def _measured(found: Reconciliation) -> bool:
    """Return whether there is another measured source beside one that speaks."""
    return any(not each.track.is_modelled and each.shared is not None for each in found.comparisons)


@dataclass(frozen=True, slots=True)
class MeterRow:
    """One source of a node's table of meters."""

    source: str
    measures: str
    watts: float | None
    """Mean over the windows it knows."""
    difference: str
    """Against `reference`; empty where it speaks itself or cannot be compared."""
    reference: str
    role: str
    known_ratio: float
    """Share of the windows that it knows."""


def meter_rows(found: Reconciliation) -> list[MeterRow]:
    """Return every source by what it measures, those that speak first."""
    return [_meter_row(found, track) for track in sorted(found.tracks, key=lambda track: _place(found, track))]


def role_of(found: Reconciliation, track: MeterTrack) -> str:
    """Return what a source is for: `speaks`, `estimate` of the model, `compared`, or `beside` the others."""
    each = found.comparison_of(track)
    if track in found.speaking:
        return "speaks, estimated" if track.is_modelled else "speaks"
    if track.is_modelled:
        return "estimate"
    return "compared" if each is not None and each.counts else "beside"


def _meter_row(found: Reconciliation, track: MeterTrack) -> MeterRow:
    each = found.comparison_of(track)
    shared = each.shared if each is not None else None
    ratio = shared.difference_ratio if shared is not None else None
    return MeterRow(
        source=track.source,
        measures="whole node" if track.kind is DomainKind.PLATFORM else str(track.kind),
        watts=mean_watts(track, found.window_seconds),
        difference="" if ratio is None else _signed(ratio),
        reference="" if each is None else each.reference,
        role=role_of(found, track),
        known_ratio=sum(value is not None for value in track.joules) / max(1, len(track.joules)),
    )


def _place(found: Reconciliation, track: MeterTrack) -> tuple[bool, int, bool]:
    kinds = [DomainKind.PLATFORM, *DomainKind]
    return track.is_modelled, kinds.index(track.kind), found.comparison_of(track) is not None
