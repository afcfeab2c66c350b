"""Why a curve is not there, or not all of it: what the store of series no longer keeps, and that it did not answer."""

from datetime import datetime
from zoneinfo import ZoneInfo

from kwhere.core.errors import KwhereError
from kwhere.core.timespan import Span
from kwhere.reports.sources import Sources
from kwhere.series.charts import Chart
from kwhere.series.retention import Kept, KeptBy

NO_STORE = "no store of series is set up"


def kept_words(kept: Kept, zone: ZoneInfo) -> str:
    """Return since when there is anything, and why not before."""
    since = f"not kept any more before {kept.since.astimezone(zone):%Y-%m-%d %H:%M}"
    if kept.by is KeptBy.OLDEST:
        return f"{since}: the store of series has nothing older"
    if kept.by is KeptBy.SIZE:
        return f"{since}: the store of series keeps {kept.limits}, and has nothing older"
    return f"{since}: the store of series keeps {kept.limits}"


def kept_since(sources: Sources, cluster: str, span: Span) -> datetime | None:
    """Return since when a cluster's samples are kept, where `span` begins before; else None."""
    kept = _kept_after_start(sources, cluster, span)
    return None if kept is None else kept.since


def not_kept(sources: Sources, cluster: str, span: Span) -> str:
    """Return why a span without a sample may have none: it begins before what is kept; empty where it does not."""
    kept = _kept_after_start(sources, cluster, span)
    return "" if kept is None else kept_words(kept, ZoneInfo(sources.time_zone))


def cut_note(sources: Sources, cluster: str, span: Span, chart: Chart) -> str:
    """Return what is said beside a chart whose beginning is not kept any more; empty where all of it may be there.

    A sample of before speaks against it: stores drop whole blocks, and some curves come from the account.
    """
    kept = _kept_after_start(sources, cluster, span)
    if kept is None or _has_sample_before(chart, kept.since):
        return ""
    return f"nothing kept before {kept.since.astimezone(ZoneInfo(sources.time_zone)):%m-%d %H:%M}"


def _kept_after_start(sources: Sources, cluster: str, span: Span) -> Kept | None:
    """Return what is kept of a cluster's samples, where `span` begins before it; else None."""
    kept = sources.retentions.of(cluster)
    return kept if kept is not None and span.start < kept.since else None


def _has_sample_before(chart: Chart, moment: datetime) -> bool:
    until_s = moment.timestamp()
    return any(
        value is not None
        for column in chart.columns
        for time_s, value in zip(chart.times, column.values, strict=True)
        if time_s <= until_s
    )


def store_failure(sources: Sources, error: KwhereError) -> str:
    """Return that the store failed; why, with its address, is for those who see everything."""
    said = "the store of series did not answer"
    return f"{said}: {error}" if sources.principal.sees_everything else said
