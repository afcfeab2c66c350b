"""The site: factors in force and ahead, health."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import Query

from kwhere.api.context import From, SourcesOf, To, now_of, optional_span
from kwhere.api.models import FactorView, ForecastList, Health, Page, SeriesKept
from kwhere.api.place_views import manager_view
from kwhere.api.routers import api_router
from kwhere.api.views import factor_view, forecast_view, span_view
from kwhere.core.errors import NotFound
from kwhere.core.timespan import Span
from kwhere.database.health_records import DatabaseHealth
from kwhere.database.place_records import ManagerRecord
from kwhere.reports.outlook import look_ahead
from kwhere.reports.sources import Sources

router = api_router("site")


@router.get("/emission-factors")
def emission_factors(sources: SourcesOf, start: From = None, to: To = None) -> Page[FactorView]:
    """Return the factors within a span; without one, those in force now."""
    span = optional_span(sources, start, to)
    return Page(items=[factor_view(record) for record in sources.account.emission_factors(span)])


@router.get("/emission-factors/forecast")
def emission_factor_forecast(
    sources: SourcesOf,
    zone: Annotated[str | None, Query(description="Only of this zone of the site", max_length=200)] = None,
    within: Annotated[float, Query(gt=0, le=72, description="Hours to look ahead")] = 24.0,
    length: Annotated[float, Query(gt=0, le=72, description="Length of the window, in hours")] = 4.0,
) -> ForecastList:
    """Return the window that emits least, by every provider that looks ahead."""
    now, ahead = now_of(sources), timedelta(hours=within)
    found = look_ahead(sources.factor_providers, _zones(sources, zone), now, ahead, timedelta(hours=length))
    return ForecastList(
        span=span_view(Span(now, now + ahead)),
        length_seconds=length * 3600,
        items=[forecast_view(outlook) for outlook in found.items],
        missing=found.missing,
    )


def _zones(sources: Sources, zone: str | None) -> list[str]:
    """Return the site's zones, or the one named; no other is anybody's to ask a provider about. Raises NotFound."""
    zones = sorted({record.zone for record in sources.account.clusters() if record.zone is not None})
    if zone is None:
        return zones
    if zone not in zones:
        raise NotFound(f"zone {zone!r}: not a zone of this site; its zones: {', '.join(zones) or 'none'}")
    return [zone]


@router.get("/health")
def health(sources: SourcesOf) -> Health:
    """Return whether the account is in order."""
    record, managers = sources.account.health(), sources.account.managers()
    reasons = [*health_reasons(record), *manager_reasons(managers), *sources.faults()]
    return Health(
        status="degraded" if reasons else "ok",
        reasons=reasons,
        version=sources.version,
        database={"dialect": record.dialect, "revision": record.revision},
        nodes_by_state={str(state): count for state, count in record.nodes_by_state.items()},
        stopped_journals=record.stopped_journals,
        quarantined_slots=record.quarantined_slots,
        lost_records=record.lost_records,
        oldest_touched_hour_at=record.oldest_touched_hour_at,
        managers=[manager_view(manager) for manager in managers],
        series=[_series_kept(sources, each.cluster) for each in sources.account.clusters()],
    )


def _series_kept(sources: Sources, cluster: str) -> SeriesKept:
    kept = sources.retentions.of(cluster)
    if kept is None:
        return SeriesKept(cluster, None, None, None)
    return SeriesKept(cluster, kept.since, kept.by.value, kept.limits or None)


def manager_reasons(managers: Sequence[ManagerRecord]) -> list[str]:
    """Return which managers cannot be read, and since when."""
    return [
        f"{manager.manager} of cluster {manager.cluster} cannot be read since "
        f"{manager.error_since.isoformat(timespec='seconds') if manager.error_since else 'its start'}: {manager.error}"
        for manager in managers
        if manager.error is not None
    ]


def health_reasons(record: DatabaseHealth) -> list[str]:
    """Return what is not in order, one sentence each."""
    counts = (
        (record.stopped_journals, "journals are no longer taken in"),
        (record.quarantined_slots, "slots are in quarantine"),
        (record.lost_records, "holes in journals were booked as lost"),
    )
    return [f"{count} {what}" for count, what in counts if count]
