"""A node's charts and newest states from the store of series, each with the reason where there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.reports.sources import Sources
from kwhere.reports.store_words import NO_STORE, not_kept, store_failure
from kwhere.series.charts import Chart, NodeRef, node_chart
from kwhere.series.governors import GovernorSpan, governor_spans
from kwhere.series.store import Selector

NODES_ASKED = 16
"""Of how many nodes of one unit governors are asked for: they are a remark beside a curve."""
NEWEST = timedelta(minutes=5)
"""How far back a state still counts as the newest."""


@dataclass(frozen=True, slots=True)
class NewestValue:
    """The newest sample of one series."""

    labels: Mapping[str, str]
    value: float
    at: float
    """When it was taken, UTC seconds."""


def node_charts(
    sources: Sources, ref: NodeRef, names: Sequence[str], span: Span, step_seconds: float
) -> tuple[list[Chart], dict[str, str]]:
    """Return the charts of `names` that have data, and why the others have none."""
    if sources.series is None:
        return [], dict.fromkeys(names, NO_STORE)
    charts: list[Chart] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            chart = node_chart(sources.series, ref, name, span, step_seconds)
        except (NoData, Unavailable, SourceError) as error:
            missing[name] = store_failure(sources, error)
            continue
        if any(value is not None for column in chart.columns for value in column.values):
            charts.append(chart)
        else:
            missing[name] = not_kept(sources, ref.cluster, span) or (
                "no samples in this span: the node does not measure it, or was not scraped"
            )
    return charts, missing


def governors(
    sources: Sources, cluster: str, nodes: Sequence[str], span: Span, step_seconds: float
) -> tuple[GovernorSpan, ...]:
    """Return when which governor was in force, on the first nodes where there are many; nothing if nobody knows."""
    if sources.series is None:
        return ()
    try:
        return governor_spans(sources.series, cluster, sorted(nodes)[:NODES_ASKED], span, step_seconds)
    except (NoData, Unavailable, SourceError):
        return ()


def newest_values(sources: Sources, ref: NodeRef, metric: str, before: Span) -> list[NewestValue]:
    """Return the newest sample of each of the node's series of `metric`, those of the last five minutes of `before`."""
    if sources.series is None:
        return []
    recent = Span(max(before.start, before.end - NEWEST), before.end)
    try:
        found = sources.series.select(Selector(metric, {"cluster": ref.cluster, "node": ref.node}), recent, 60.0)
    except (NoData, Unavailable, SourceError):
        return []
    return [NewestValue(series.labels, series.values[-1], series.times[-1]) for series in found if series.values]
