"""The greenest hours ahead: when a job of four hours emits least within a day, by every provider that looks ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from kwhere.reports.outlook import Outlook, look_ahead
from kwhere.web.rendering import Pages

WITHIN = timedelta(hours=24)
LENGTH = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class AheadRow:
    """The best window of one provider's forecast for one zone; None: the forecast does not reach that far."""

    zone: str
    provider: str
    basis: str
    start: datetime | None
    end: datetime | None
    grams_per_kwh: float | None
    now_grams_per_kwh: float | None
    saving: str


def ahead_page(pages: Pages, request: Request) -> Response:
    """Return the page; providers may be asked, so the Emissions page fetches it when it stands already."""
    sources = pages.sources
    zones = sorted({record.zone for record in sources.account.clusters() if record.zone is not None})
    found = look_ahead(sources.factor_providers, zones, pages.now, WITHIN, LENGTH)
    context = {"rows": ahead_rows(found.items), "missing": found.missing, "zones": zones}
    return pages.render(request, "ahead.html", context)


def ahead_rows(outlooks: Sequence[Outlook]) -> list[AheadRow]:
    """Return a row per forecast; marginal ones first, for shifting a job changes those."""
    rows = [_row(outlook) for outlook in outlooks]
    return sorted(rows, key=lambda row: (row.zone, row.basis != "marginal", row.provider))


def _row(outlook: Outlook) -> AheadRow:
    first, window, now = outlook.factors[0], outlook.window, outlook.now_grams_per_kwh
    saving = f"{100 * (1 - window.grams_per_kwh / now):.0f} %" if window is not None and now else ""
    return AheadRow(
        outlook.zone,
        first.provider,
        str(first.basis),
        None if window is None else window.span.start,
        None if window is None else window.span.end,
        None if window is None else window.grams_per_kwh,
        now,
        saving,
    )
