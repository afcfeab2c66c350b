"""Units: the list, one unit, its series."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator

from kwhere.api.context import Cluster, Format, From, SourcesOf, To, now_of, optional_span
from kwhere.api.csv_text import (
    UNIT_HEADER,
    Cell,
    csv_answer,
    optional_cells,
    optional_header,
    series_header,
    series_rows,
    unit_row,
    wants_csv,
)
from kwhere.api.models import SeriesList, Unit, UnitList, Whole
from kwhere.api.paging import By50
from kwhere.api.problems import BadRequest
from kwhere.api.routers import api_router
from kwhere.api.views import chart_view, span_view, unit_list_view, unit_view, whole_view
from kwhere.core.errors import SourceError
from kwhere.core.timespan import Span
from kwhere.database.records import JobWords, UnitQuery, UnitRecord, UnitSort
from kwhere.reports.job_words import parse_jobs, parse_states
from kwhere.reports.sources import Sources
from kwhere.reports.store_words import kept_since
from kwhere.reports.unit_charts import UNIT_CHART_NAMES, lifetime_of, unit_charts
from kwhere.reports.unit_findings import unit_findings
from kwhere.reports.unit_whole import whole_findings, whole_of_parts, whole_of_runs
from kwhere.series.charts import choose_step

router = api_router("units")

Filter = Annotated[str | None, Query(max_length=400)]
Switch = Annotated[bool, BeforeValidator(lambda given: True if given == "" else given)]
"""On by its name alone: `?running`."""
UnitId = Annotated[str, Path(description="The manager's native id, percent-escaped once more for the URL")]


def parse_sort(text: str) -> tuple[UnitSort, bool]:
    """Return what `-energy_joules` sorts by and whether it descends. Raises BadRequest."""
    try:
        return UnitSort(text.removeprefix("-")), text.startswith("-")
    except ValueError as error:
        raise BadRequest(
            f"sort: expected one of {', '.join(UnitSort)}, with - for descending, found {text!r}"
        ) from error


@router.get("/units", response_model=UnitList)
def list_units(
    sources: SourcesOf,
    paging: By50,
    cluster: Cluster = None,
    manager: Filter = None,
    user: Filter = None,
    project: Filter = None,
    state: Annotated[
        str | None,
        Query(description="running, ended, or words of managers such as failed,timeout", max_length=400),
    ] = None,
    queue: Annotated[str | None, Query(description="Partition, queue or namespace", max_length=255)] = None,
    node: Filter = None,
    job: Annotated[
        list[str] | None,
        Query(description="Ids as managers write them: 123, 123_4, 123_[1-3], 123+0, 123.batch, 100-105,107"),
    ] = None,
    start: From = None,
    to: To = None,
    running: Annotated[Switch, Query(description="Also units that have not ended, whatever the span")] = False,
    name: Annotated[str | None, Query(description="The whole name of a job, pod, machine, …", max_length=4096)] = None,
    q: Annotated[str | None, Query(description="Part of an id, name, user or project", max_length=200)] = None,
    sort: Annotated[str, Query(description="A stored figure, - for descending")] = "-energy_joules",
) -> UnitList | StreamingResponse:
    """Return units, sorted by a stored lifetime figure, page by page; as CSV all that match."""
    key, descending = parse_sort(sort)
    query = UnitQuery(
        cluster=cluster,
        manager=manager,
        user=user,
        project=project,
        states=_states_of(state),
        queue=queue,
        node=node,
        jobs=_jobs_of(job),
        span=optional_span(sources, start, to),
        running=running,
        name=name or None,
        q=q or None,
        sort=key,
        descending=descending,
        limit=paging.limit,
        after=paging.after,
    )
    if paging.is_csv:
        header = [*UNIT_HEADER, *optional_header(sources.optional, of_units=True)]
        return csv_answer(header, _unit_rows(sources, query), "units.csv")
    return unit_list_view(sources.account.units(query))


def _states_of(words: str | None) -> tuple[str, ...]:
    try:
        return parse_states(words or "")
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _jobs_of(words: list[str] | None) -> JobWords | None:
    try:
        return parse_jobs(words) if words else None
    except SourceError as error:
        raise BadRequest(f"job: {error}") from error


def _unit_rows(sources: Sources, query: UnitQuery) -> Iterator[list[Cell]]:
    for record in sources.account.iterate_units(query):
        view = unit_view(record)
        yield [*unit_row(view), *optional_cells(view, sources.optional)]


# A decoded id may hold a slash that its user escaped only once; hence `:path`. `/series` is tried first.
@router.get("/units/{cluster}/{manager}/{unit:path}/series", response_model=SeriesList)
def unit_series(
    request: Request,
    sources: SourcesOf,
    cluster: str,
    manager: str,
    unit: UnitId,
    run: Filter = None,
    node: Filter = None,
    names: Annotated[str, Query(description=f"Comma-separated, of {', '.join(UNIT_CHART_NAMES)}")] = "power,cpu,memory",
    start: From = None,
    to: To = None,
    step: Annotated[float | None, Query(gt=0, le=86400 * 31, description="Seconds between points")] = None,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> SeriesList | StreamingResponse:
    """Return a unit's charts over a span, by default its lifetime, all on one time axis."""
    wanted = [name for name in dict.fromkeys(names.split(",")) if name]
    unknown = [name for name in wanted if name not in UNIT_CHART_NAMES]
    if unknown:
        raise BadRequest(f"names: expected of {', '.join(UNIT_CHART_NAMES)}, found {unknown[0]!r}")
    record = find_unit(sources, cluster, manager, unit, run, node)
    span = optional_span(sources, start, to) or lifetime_of(record, now_of(sources))
    seconds = _step_of(span, step)
    charts, missing = unit_charts(sources, record, wanted, span, seconds)
    series = [chart_view(chart) for chart in charts]
    if wants_csv(request, format_):
        return csv_answer(series_header(), series_rows(series), "series.csv")
    since = kept_since(sources, record.cluster, span)
    return SeriesList(span=span_view(span), step=seconds, series=series, missing=missing, kept_since=since)


def _step_of(span: Span, step: float | None) -> float:
    seconds = step or choose_step(span)
    if span.seconds / seconds > 11_000:
        raise BadRequest(f"step: expected at most 11000 points, found {span.seconds / seconds:.0f}")
    return seconds


@router.get("/units/{cluster}/{manager}/{unit:path}/runs", response_model=Whole)
def unit_runs(sources: SourcesOf, cluster: str, manager: str, unit: UnitId) -> Whole:
    """Return all runs of a requeued job and their sum; one run alone is its own sum."""
    newest = find_unit(sources, cluster, manager, unit, None, None)
    whole = whole_of_runs(sources.account, newest)
    return whole_view(whole, whole_findings(whole, now_of(sources)))


@router.get("/units/{cluster}/{manager}/{unit:path}/parts", response_model=Whole)
def unit_parts(sources: SourcesOf, cluster: str, manager: str, unit: UnitId) -> Whole:
    """Return the tasks of the array, or the components of the heterogeneous job, of that number, and their sum."""
    whole = whole_of_parts(sources.account, cluster, manager, unit)
    return whole_view(whole, whole_findings(whole, now_of(sources)))


@router.get("/units/{cluster}/{manager}/{unit:path}", response_model=Unit)
def one_unit(
    sources: SourcesOf, cluster: str, manager: str, unit: UnitId, run: Filter = None, node: Filter = None
) -> Unit:
    """Return a unit's run, the newest where `run` is not given."""
    record = find_unit(sources, cluster, manager, unit, run, node)
    return unit_view(record, unit_findings(record, now_of(sources)))


def find_unit(sources: Sources, cluster: str, manager: str, unit: str, run: str | None, node: str | None) -> UnitRecord:
    """Return the record. Raises NotFound."""
    return sources.account.unit(cluster, manager, unit.replace("/", "%2F"), run, node)
