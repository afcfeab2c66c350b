"""The scheduled reports put together: what `kwhere report --week` prints, from the same answer, by the same hand."""

from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter
from sqlalchemy import Engine

from kwhere.api.models import Usage
from kwhere.api.views import usage_view, week_view
from kwhere.core.clock import Clock
from kwhere.core.iso_week import IsoWeek
from kwhere.database.grid import from_ns
from kwhere.reports.account import Account
from kwhere.reports.settings import ReportSettings, WeeklyReportSettings
from kwhere.reports.spans import SiteWeek
from kwhere.reports.table import WIDE
from kwhere.reports.usage_text import usage_text
from kwhere.server.weekly_report_pass import WeeklyReportPass, WeekText

DIRECTORY = "reports"
_USAGE = TypeAdapter(Usage)


def weekly_report_passes(
    settings: ReportSettings, zone: ZoneInfo, engine: Engine, account: Account, clock: Clock, state_dir: Path
) -> tuple[WeeklyReportPass, ...]:
    """Return a pass per report; `account` is read as one who sees everything."""
    return tuple(
        WeeklyReportPass(
            engine,
            each,
            zone,
            each.directory or state_dir / DIRECTORY,
            partial(render_week, each, zone, account, clock),
            clock,
        )
        for each in settings.weekly
    )


def render_week(
    settings: WeeklyReportSettings, zone: ZoneInfo, account: Account, clock: Clock, week: IsoWeek
) -> WeekText:
    """Return a week as the command line prints it into a file."""
    asked = SiteWeek(week, week.span(zone), zone)
    report = account.usage(settings.by, asked.span, settings.cluster)
    view = usage_view(report, week_view(asked, from_ns(clock.utc_ns())))
    text = usage_text(_USAGE.dump_python(view, mode="json"), settings.format, WIDE)
    return WeekText(text.encode(), report.completeness_ratio)
