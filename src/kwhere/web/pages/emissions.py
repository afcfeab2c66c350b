"""Emissions: grams by day, the factor behind them, where it is from, and which country it is for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kwhere.core.errors import ConfigError
from kwhere.core.quantities import JOULES_PER_KWH, joules
from kwhere.core.timespan import Span
from kwhere.database.factors import QUALITIES
from kwhere.database.grid import to_ns
from kwhere.database.power_records import PowerPoint
from kwhere.database.records import FactorRecord, UsageBy, UsageRow
from kwhere.energy.steps import Steps
from kwhere.reports.outlook import forecasters
from kwhere.reports.sources import Sources
from kwhere.web.charts import PageChart, PageSeries, watts_per_microjoule
from kwhere.web.formatting import BarPiece, bar_pieces, column_of
from kwhere.web.pages.overview import first_slot, reporting_factor
from kwhere.web.rendering import Pages
from kwhere.web.spans import chart_step, choose_span, span_with_data


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day: energy of all nodes, grams, and the mean factor between them."""

    day: str
    energy_joules: float
    grams: float | None
    grams_per_kwh: float | None
    pieces: Sequence[BarPiece]


def emissions_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    account = pages.sources.account
    choice = choose_span("/emissions", request.query_params, pages.now, pages.zone, default="30d")
    report = account.usage(UsageBy.DAY, choice.span)
    days = day_rows(report.rows)
    factors = account.emission_factors()
    charts = emission_charts(
        account.power(choice.span, chart_step(choice.span)),
        account.emission_factors(choice.span),
        choice.span,
        pages.sources.pue(),
    )
    grams = [day.grams for day in days if day.grams is not None]
    context = {
        "choice": choice,
        "days": days,
        "charts": charts,
        "zone": pages.zone,
        "energy_column": column_of([day.energy_joules for day in days], "energy"),
        "grams_column": column_of(grams, "mass"),
        "total_joules": sum(day.energy_joules for day in days),
        "total_grams": sum(grams) if grams else None,
        "factors": factors,
        "factor": reporting_factor(factors),
        "site": account.site_choice(),
        "zones": pages.sources.zones,
        "may_choose": pages.sources.choose_zone is not None,
        "looks_ahead": looks_ahead(pages.sources),
        "is_saved": request.query_params.get("saved") == "1",
    }
    return pages.render(request, "emissions.html", context)


def looks_ahead(sources: Sources) -> bool:
    """Return whether any provider forecasts for any zone of the site."""
    zones = {record.zone for record in sources.account.clusters()} - {None}
    return any(True for zone in zones for _ in forecasters(sources.factor_providers, str(zone)))


def emission_charts(
    points: Sequence[PowerPoint], factors: Sequence[FactorRecord], span: Span, pue: Steps[float]
) -> list[PageChart]:
    """Return power, factor and grams per hour on one time axis, by the reporting factors; nothing without any."""
    in_force = sorted((f for f in factors if f.reporting), key=lambda f: (-QUALITIES.index(f.quality), f.published_at))
    if not points or not in_force:
        return []
    watts = [None if k is None else p.energy_uj * k for p, k in zip(points, watts_per_microjoule(points), strict=True)]
    grams_per_kwh = [_factor_at(in_force, point.span.start) for point in points]
    hourly = [
        watt * (pue.at(to_ns(point.span.start)) or 1.0) * factor / 1000
        if watt is not None and factor is not None
        else None
        for point, watt, factor in zip(points, watts, grams_per_kwh, strict=True)
    ]
    shown = span_with_data(span, first_slot(points))
    times = [points[0].span.start.timestamp(), *(point.span.end.timestamp() for point in points)]
    curves = (
        ("grams", "Emissions", "g CO₂e/h", hourly, "accent", None),
        ("watts", "Power", "W", watts, "ink", "power"),
        ("factor", "Factor", "g CO₂e/kWh", grams_per_kwh, "ink", None),
    )
    charts = []
    for name, title, unit, values, colour, quantity in curves:
        line = PageSeries(title.lower(), colour, [values[0], *values])
        charts.append(PageChart(name, title, unit, "line", times, [line], shown, quantity=quantity))
    return charts


def _factor_at(factors: Sequence[FactorRecord], moment: datetime) -> float | None:
    """Return the factor in force at `moment`; of several the best one, of those the one published last."""
    return next((f.grams_per_kwh for f in reversed(factors) if f.span.start <= moment < f.span.end), None)


def day_rows(rows: Sequence[UsageRow]) -> list[DayRow]:
    """Return one row per day, newest first; system and unallocated of a day are inside."""
    energy: dict[str, int] = {}
    grams: dict[str, float | None] = {}
    for row in rows:
        if row.key is None:
            continue
        energy[row.key] = energy.get(row.key, 0) + row.energy_total_uj
        if row.emissions_grams is not None:
            grams[row.key] = (grams.get(row.key) or 0.0) + row.emissions_grams
    largest = max((amount for amount in grams.values() if amount is not None), default=0.0)
    return [_day(day, energy[day], grams.get(day), largest) for day in sorted(energy, reverse=True)]


def _day(day: str, energy_uj: int, grams: float | None, largest: float) -> DayRow:
    amount = joules(energy_uj)
    factor = grams / (amount / JOULES_PER_KWH) if grams is not None and amount else None
    return DayRow(day, amount, grams, factor, bar_pieces([("fill-accent", "grams", grams)], largest))


def choose_zone_page(pages: Pages, request: Request, form: dict[str, str]) -> Response:
    """Book the zone that the form names and go back. Raises ConfigError for one without a factor."""
    choose = pages.sources.choose_zone
    zone = form.get("zone", "")
    known = {choice.zone for choice in pages.sources.zones}
    if choose is None:
        raise ConfigError("site.zone: it is set in the server's configuration and cannot be changed on this page")
    if zone not in known:
        raise ValueError(f"zone: expected one of the list, found {zone!r}")
    choose(zone, pages.sources.principal.name)
    return RedirectResponse("/emissions?saved=1", status_code=303)
