"""A node's reconciliation on its page: one figure, one sentence, the curves and the table of meters."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.errors import KwhereError
from kwhere.core.timespan import Span
from kwhere.reports.agreement import NO_SECOND, NOT_YET, Agreement, MeterRow, agreement_of, meter_rows
from kwhere.reports.reconciliation import Reconciliation, power_chart, reconcile_node
from kwhere.reports.sources import Sources
from kwhere.reports.store_words import NO_STORE
from kwhere.series.charts import NodeRef
from kwhere.web.charts import PageChart, series_chart

MOST_LEFT_OUT_RATIO = 0.05
"""Beyond this share of the span the page says that some of it could not be compared."""
_UNCHECKED = "not compared"


@dataclass(frozen=True, slots=True)
class NodeMeters:
    """What the page shows of a node's meters."""

    agreement: Agreement
    label: str
    """Under the figure."""
    chart: PageChart | None
    rows: Sequence[MeterRow]
    note: str = ""
    """Over which windows, and what is left out."""


def node_meters(sources: Sources, ref: NodeRef, span: Span) -> NodeMeters:
    """Return the panel's content; where the store cannot say, the reason."""
    if sources.series is None:
        return _unknown(NO_STORE)
    try:
        found = reconcile_node(sources.series, ref, span)
    except KwhereError as error:
        return _unknown(str(error))
    chart = power_chart(found)
    return NodeMeters(
        agreement=agreement_of(found),
        label=_label(found),
        chart=None if chart is None else series_chart(chart, span),
        rows=meter_rows(found),
        note=_note(found),
    )


def _unknown(reason: str) -> NodeMeters:
    return NodeMeters(Agreement(f"Not compared: {reason}.", _UNCHECKED, False, False), "its meters", None, ())


def _label(found: Reconciliation) -> str:
    agreement = agreement_of(found)
    if agreement.short == NO_SECOND:
        return "to check its meters with"
    if agreement.short == NOT_YET:
        return "enough to compare its meters"
    if found.residual is None or found.platform is None or agreement.within_ratio > found.residual.within_ratio:
        return "between its meters"
    return f"{found.platform.source} against its components"


def _note(found: Reconciliation) -> str:
    words = [f"windows of {_minutes(found.window_seconds)}"]
    left_out = found.left_out_ratio
    if left_out is not None and left_out > MOST_LEFT_OUT_RATIO:
        words.append(f"{100 * left_out:.0f} % of the span left out: gaps, or not scraped")
    return " · ".join(words)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds < 3600 else f"{seconds / 3600:g} h"
