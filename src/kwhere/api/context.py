"""What every route gets: the sources, and the parameters they share."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, cast

from fastapi import Depends, Query, Request

from kwhere.access.principal import principal_of
from kwhere.api.problems import BadRequest
from kwhere.core.timespan import Span
from kwhere.reports.figures import utc_of
from kwhere.reports.sources import Sources
from kwhere.reports.spans import SiteWeek, parse_span, parse_week


def _sources(request: Request) -> Sources:
    return cast(Sources, request.app.state.sources).seen_by(principal_of(request.scope))


SourcesOf = Annotated[Sources, Depends(_sources)]
From = Annotated[
    str | None, Query(alias="from", description="Start: ISO 8601, Unix seconds, or a length back such as -24h")
]
To = Annotated[str | None, Query(description="End, exclusive; like `from`; default now")]
Cluster = Annotated[str | None, Query(description="Only of this cluster", max_length=200)]
Week = Annotated[
    str | None, Query(description="ISO week in the site's time zone, e.g. 2026-W53, in place of `from` and `to`")
]
Limit = Annotated[int, Query(ge=1, le=1000, description="Items per page")]
After = Annotated[str | None, Query(description="`next` of the page before", max_length=2000)]
Format = Annotated[Literal["json", "csv"] | None, Query(description="csv: the same as `Accept: text/csv`")]


def now_of(sources: Sources) -> datetime:
    """Return the present by the injected clock."""
    return utc_of(sources.clock.utc_ns())


def span_of(sources: Sources, start: str | None, end: str | None, default: timedelta) -> Span:
    """Return the span asked for. Raises BadRequest."""
    span = optional_span(sources, start, end, default)
    assert span is not None
    return span


def week_of(sources: Sources, week: str | None, start: str | None, end: str | None) -> SiteWeek | None:
    """Return the week asked for; None where none is. Raises BadRequest, also where a span is asked for beside it."""
    if week is None:
        return None
    if start is not None or end is not None:
        raise BadRequest("week: expected a week, or from and to, found both")
    try:
        return parse_week(week, sources.time_zone)
    except ValueError as error:
        raise BadRequest(f"week: {error}") from error


def optional_span(
    sources: Sources, start: str | None, end: str | None, default: timedelta | None = None
) -> Span | None:
    """Return the span asked for; None where none is and there is no default. Raises BadRequest."""
    try:
        return parse_span(start, end, now_of(sources), default)
    except ValueError as error:
        raise BadRequest(f"from, to: {error}") from error
