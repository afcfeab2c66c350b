"""User and Project: who used what within a span, the trend of it, who belongs together, and the units behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.errors import NotFound
from kwhere.core.quantities import joules, seconds
from kwhere.core.terms import Component, EntryKind, Part
from kwhere.database.account_records import AccountQuery, AccountRecord
from kwhere.database.grid import HOUR_NS, Grid, to_ns
from kwhere.database.periods import Period, periods
from kwhere.database.place_records import MembershipRecord, WaitingQuery
from kwhere.database.records import UnitQuery, UsageBy, UsageReport, UsageRow
from kwhere.web.day_columns import ColumnChart, Layer, Stack, column_chart
from kwhere.web.formatting import Column, column_of, fill_of, recent_time_tag
from kwhere.web.pages.running import running_units
from kwhere.web.pages.usage import SumRow, has_clusters, sum_row
from kwhere.web.pages.waiting import waiting_rows
from kwhere.web.rendering import Pages, url
from kwhere.web.spans import SpanChoice, choose_span
from kwhere.web.units_table import LOUD, chosen_columns, quality_marks, show_columns

UNITS_SHOWN = 12
WAITING_SHOWN = 8
MEMBERS_SHOWN = 200
TRENDS = (UsageBy.DAY, UsageBy.WEEK, UsageBy.MONTH)
UNIT_COLUMNS = "unit,user,project,manager,state,power,energy,emissions,efficiency,started,duration"


@dataclass(frozen=True, slots=True)
class TrendRow:
    """A day, week or month in the table of the trend."""

    key: str
    hours: float
    """Its length: 23 or 25 of a day, 167 or 169 of a week where clocks change."""
    energy_joules: float | None
    """None: nothing was booked."""
    grams: float | None
    cpu_seconds: float | None
    efficiency: float | None
    units: int


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of an account: columns, and the table that holds the same numbers."""

    by: UsageBy
    chart: ColumnChart
    legend: Sequence[tuple[str, str]]
    """Class and name of each layer that any column has, in the order of every legend."""
    rows: Sequence[TrendRow]
    energy: Column
    grams: Column
    cpu: Column
    choices: Sequence[tuple[str, str, bool]]
    csv_url: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What an account used within the span; None: not measured, or nothing was booked.

    `units` is right because each unit has one user and one project.
    """

    energy_joules: float | None
    grams: float | None
    efficiency: float | None
    units: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a project, with what they used of it within the span; None: nothing."""

    record: MembershipRecord
    row: SumRow | None


def user_page(pages: Pages, request: Request) -> Response:
    """Return a user's page. Raises NotFound."""
    name, cluster = str(request.path_params["user"]), request.query_params.get("cluster") or None
    account = pages.sources.account
    records = account.users(AccountQuery(cluster=cluster, name=name)).items
    if not records:
        raise NotFound(f"user {name}: nothing is booked to that name")
    choice = _choice(pages, request)
    by_project = account.usage(UsageBy.PROJECT, choice.span, cluster, user=name)
    sums = _sum_rows(UsageBy.PROJECT, by_project)
    context = {
        **_shared(pages, request, choice, {"user": name}, cluster),
        "records": records,
        "memberships": account.memberships(cluster=cluster, user=name, limit=MEMBERS_SHOWN).items,
        "person": next(iter(account.people(name, cluster).values()), None),
        "report": by_project,
        "totals": _totals(by_project),
        "sums": sums,
        "has_clusters": has_clusters(sums),
        "sum_energy": column_of([row.energy_joules for row in sums], "energy"),
        "sum_grams": column_of([row.grams for row in sums], "mass"),
        "running": sum(record.units_running for record in records),
        "last_seen_at": _last_seen(records),
    }
    return pages.render(request, "user.html", context)


def project_page(pages: Pages, request: Request) -> Response:
    """Return a project's page. Raises NotFound."""
    name, cluster = str(request.path_params["project"]), request.query_params.get("cluster") or None
    account = pages.sources.account
    records = account.projects(AccountQuery(cluster=cluster, name=name)).items
    if not records:
        raise NotFound(f"project {name}: nothing is booked to that name")
    choice = _choice(pages, request)
    by_user = account.usage(UsageBy.USER, choice.span, cluster, project=name)
    rows = _sum_rows(UsageBy.USER, by_user)
    members = account.memberships(cluster=cluster, project=name, limit=MEMBERS_SHOWN)
    context = {
        **_shared(pages, request, choice, {"project": name}, cluster),
        "records": records,
        "members": _members(members.items, rows),
        "has_more_members": members.next is not None,
        "members_csv": url("/api/v1/memberships", project=name, cluster=cluster, format="csv"),
        "strangers": _strangers(members.items, rows),
        "has_clusters": len({*(each.cluster for each in members.items), *(row.cluster for row in rows)}) > 1,
        "report": by_user,
        "totals": _totals(by_user),
        "sum_energy": column_of([row.energy_joules for row in rows], "energy"),
        "sum_grams": column_of([row.grams for row in rows], "mass"),
        "children": account.projects(AccountQuery(cluster=cluster, parent=name, limit=50)).items,
        "running": sum(record.units_running for record in records),
        "last_seen_at": _last_seen(records),
    }
    return pages.render(request, "project.html", context)


def _last_seen(records: Sequence[AccountRecord]) -> object:
    return max((record.last_seen_at for record in records if record.last_seen_at is not None), default=None)


def _choice(pages: Pages, request: Request) -> SpanChoice:
    params = {key: value for key, value in request.query_params.items() if value}
    return choose_span(request.url.path, params, pages.now, pages.zone, default="30d")


def _shared(
    pages: Pages, request: Request, choice: SpanChoice, who: Mapping[str, str], cluster: str | None
) -> dict[str, object]:
    """Return what both pages show of an account: totals, trend, units that run, wait, and used the most."""
    params = {key: value for key, value in request.query_params.items() if value}
    account, path = pages.sources.account, request.url.path
    user, project = who.get("user"), who.get("project")
    by = UsageBy(params.get("trend", UsageBy.DAY))
    if by not in TRENDS:
        raise ValueError(f"trend: expected one of {', '.join(TRENDS)}, found {by}")
    report = account.usage(by, choice.span, cluster, user=user, project=project)
    query = UnitQuery(cluster=cluster, user=user, project=project, span=choice.span, limit=UNITS_SHOWN)
    units = account.units(query).items
    running = running_units(account, query)
    waiting = account.waiting(WaitingQuery(cluster=cluster, user=user, project=project, limit=WAITING_SHOWN))
    of = {**who, **({"cluster": cluster} if cluster else {})}
    tag = partial(recent_time_tag, zone=pages.zone, now=pages.now)
    columns = chosen_columns(",".join(key for key in UNIT_COLUMNS.split(",") if key not in who))
    return {
        "name": user or project,
        "cluster": cluster,
        "choice": choice,
        "trend": _trend(path, params, pages.zone, report, {**of, **choice.query}),
        "loud": partial(quality_marks, only=LOUD),
        "columns": show_columns(columns, [*units, *running], pages.now, tag),
        "units": units,
        "running_units": running,
        "waiting": waiting_rows(waiting.items, pages.now),
        "has_more_waiting": waiting.next is not None,
        "waiting_url": url("/queue", **of),
        "units_url": url("/units", **of),
        "units_in_span_url": url("/units", **of, from_=choice.query["from"], to=choice.query["to"]),
        "csv_url": "/api/v1/units?" + urlencode({**of, **choice.query, "format": "csv"}),
    }


def _sum_rows(by: UsageBy, report: UsageReport) -> list[SumRow]:
    total_uj = sum(row.energy_total_uj for row in report.rows)
    return [sum_row(by, row, report.rows, total_uj) for row in report.rows if row.kind is EntryKind.UNIT]


def _members(memberships: Sequence[MembershipRecord], rows: Sequence[SumRow]) -> list[Member]:
    """Return the members, those who used most first."""
    by_name = {(row.cluster, row.name): row for row in rows if row.url}
    members = [Member(each, by_name.get((each.cluster, each.user))) for each in memberships]
    return sorted(members, key=lambda member: -(member.row.energy_joules if member.row else -1.0))


def _strangers(memberships: Sequence[MembershipRecord], rows: Sequence[SumRow]) -> list[SumRow]:
    """Return who used the project without being named a member."""
    named = {(each.cluster, each.user) for each in memberships}
    return [row for row in rows if not row.url or (row.cluster, row.name) not in named]


def _totals(report: UsageReport) -> Totals:
    rows = [row for row in report.rows if row.kind is EntryKind.UNIT]
    grams = [row.emissions_grams for row in rows if row.emissions_grams is not None]
    used = [row.cpu_ns for row in rows if row.cpu_ns is not None and row.cpu_allocated_ns]
    given = [row.cpu_allocated_ns for row in rows if row.cpu_ns is not None and row.cpu_allocated_ns]
    return Totals(
        joules(sum(row.energy_total_uj for row in rows)) if rows else None,
        sum(grams) if grams else None,
        sum(used) / sum(given) if given else None,
        sum(row.units for row in rows),
    )


def _trend(
    path: str, params: Mapping[str, str], zone: ZoneInfo, report: UsageReport, asked: Mapping[str, str]
) -> Trend:
    by, rows = report.by, {row.key: row for row in report.rows if row.kind is EntryKind.UNIT}
    cut = periods(Grid(zone), by, to_ns(report.span.start), to_ns(report.span.end))
    first = next((at for at, period in enumerate(cut) if period.key in rows), 0)
    table = [_trend_row(period, rows.get(period.key)) for period in cut[first:]]
    energy = column_of([row.energy_joules for row in table], "energy")
    kept = {key: value for key, value in params.items() if key != "trend"}
    stacks = [_stack(period.key, rows.get(period.key)) for period in cut[first:]]
    held = {(layer.css_class, layer.name) for stack in stacks for layer in stack.layers if layer.amount}
    return Trend(
        by,
        column_chart(stacks, energy),
        [(fill_of(c, p), f"{c} {p}") for c in Component for p in Part if (fill_of(c, p), f"{c} {p}") in held],
        table,
        energy,
        column_of([row.grams for row in table], "mass"),
        column_of([row.cpu_seconds for row in table], "cpu_time"),
        [(str(choice), f"{path}?{urlencode({**kept, 'trend': str(choice)})}", choice is by) for choice in TRENDS],
        "/api/v1/usage?" + urlencode({"by": str(by), **asked, "format": "csv"}),
    )


def _stack(key: str, row: UsageRow | None) -> Stack:
    layers: list[Layer] = []
    for component in Component:
        parts = row.energy_uj.get(component) if row else None
        for part, amount in ((Part.DYNAMIC, parts.dynamic_uj), (Part.IDLE, parts.idle_uj)) if parts else ():
            energy = None if amount is None else joules(amount)
            layers.append(Layer(fill_of(component, part), f"{component} {part}", energy))
    return Stack(key, layers)


def _trend_row(period: Period, row: UsageRow | None) -> TrendRow:
    hours = (period.end_ns - period.start_ns) / HOUR_NS
    if row is None:
        return TrendRow(period.key, hours, None, None, None, None, 0)
    used = None if row.cpu_ns is None else seconds(row.cpu_ns)
    efficiency = row.cpu_ns / row.cpu_allocated_ns if row.cpu_ns is not None and row.cpu_allocated_ns else None
    return TrendRow(period.key, hours, joules(row.energy_total_uj), row.emissions_grams, used, efficiency, row.units)
