"""The site: factors in force, health."""

from fastapi import APIRouter

from kwhere.api.context import From, SourcesOf, To, optional_span
from kwhere.api.models import FactorView, Health, Page
from kwhere.api.views import factor_view
from kwhere.database.records import DatabaseHealth

router = APIRouter(tags=["site"])


@router.get("/emission-factors")
def emission_factors(sources: SourcesOf, start: From = None, to: To = None) -> Page[FactorView]:
    """Return the factors within a span; without one, those in force now."""
    span = optional_span(sources, start, to)
    return Page(items=[factor_view(record) for record in sources.account.emission_factors(span)])


@router.get("/health")
def health(sources: SourcesOf) -> Health:
    """Return whether the account is in order."""
    record = sources.account.health()
    reasons = health_reasons(record)
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
    )


def health_reasons(record: DatabaseHealth) -> list[str]:
    """Return what is not in order, one sentence each."""
    counts = (
        (record.stopped_journals, "journals are no longer taken in"),
        (record.quarantined_slots, "slots are in quarantine"),
        (record.lost_records, "holes in journals were booked as lost"),
    )
    return [f"{count} {what}" for count, what in counts if count]
