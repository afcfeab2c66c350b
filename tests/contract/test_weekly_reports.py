"""The scheduled report of each week over a real account: one file, the bytes that `kwhere report --week` prints."""

import hashlib
import json
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from structlog.testing import capture_logs
from tests.account_site import J, Site
from tests.asgi_client import AsgiClient, let_in
from tests.command_api import CommandApi
from tests.journals import SECOND_NS, HandJournal, figures, key, unallocated, unit

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.apps.weekly_reports import render_week, weekly_report_passes
from kwhere.cli.main import run_root
from kwhere.core.errors import Unavailable
from kwhere.core.iso_week import IsoWeek
from kwhere.database import schema
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.nodes import retire
from kwhere.database.report_weeks import WeekState, Written, note_weeks, read_weeks, write_once
from kwhere.database.settings import SiteSettings
from kwhere.reports.settings import ReportSettings, WeeklyReportSettings
from kwhere.reports.sources import Sources
from kwhere.server.weekly_report_pass import NEWEST, WeeklyReportPass

PARIS = SiteSettings(time_zone="Europe/Paris")
W53 = IsoWeek(2026, 53)
SLOT_SECONDS = 900
HOURS = 4


class Going:
    """A turn that lasts for `looks` pieces."""

    def __init__(self, looks: int = 10_000) -> None:
        self.looks = looks

    def goes_on(self) -> bool:
        self.looks -= 1
        return self.looks >= 0


def at(text: str) -> int:
    return to_ns(datetime.fromisoformat(text))


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine, PARIS)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "reports"


def report_pass(site: Site, directory: Path, **changes: Any) -> WeeklyReportPass:
    weekly = WeeklyReportSettings.model_validate({"time": "02:30", "directory": directory, **changes})
    settings = ReportSettings(weekly=(weekly,))
    (found,) = weekly_report_passes(settings, site.settings.tz, site.engine, site.reader, site.clock, directory)
    return found


def night(site: Site, week: IsoWeek = W53, *, lacks_hours: int = 0, node: str = "n1") -> HandJournal:
    """Slots of 900 s of the week's last 4 hours but for some; `p1` uses 1 J and `unallocated` 2 J in each."""
    end_ns = to_ns(week.span(site.settings.tz).end)
    start_ns = end_ns - HOURS * 3600 * SECOND_NS
    journal = HandJournal(node=node, machine_id=node, boot_id=node, end_ns=start_ns, slot_seconds=SLOT_SECONDS)
    for _ in range((HOURS - lacks_hours) * 3600 // SLOT_SECONDS):
        used = figures(J, 0, cpu_ns=SECOND_NS)
        journal.append([unit(key("a"), used, user="alice", project="p1"), unallocated(figures(0, 2 * J))])
    return journal


def look(site: Site, each: WeeklyReportPass, moment: str) -> None:
    site.clock.now_ns = at(moment)
    assert each.is_due()
    each.run(Going())


def files(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.exists() else []


def api_of(site: Site) -> AsgiClient:
    sources = Sources(account=site.reader, clock=site.clock, time_zone=site.settings.time_zone)
    return AsgiClient(let_in(build_app(sources, GuardRules(hosts=frozenset({"testserver"})))))


def test_a_week_is_written_once_it_is_due_and_not_again_case_users_51(site: Site, directory: Path) -> None:
    site.take(night(site))
    site.roll()
    each = report_pass(site, directory)

    look(site, each, "2027-01-04T02:29:59+01:00")
    before = files(directory)
    look(site, each, "2027-01-04T02:30:59+01:00")
    path = directory / "weekly-2026-W53.txt"
    stood = path.stat().st_ino
    look(site, each, "2027-01-04T02:32:00+01:00")
    look(site, report_pass(site, directory), "2027-01-05T00:00:00+01:00")

    assert (before, files(directory)) == (["weekly-2026-W52.txt"], ["weekly-2026-W52.txt", "weekly-2026-W53.txt"])
    assert (path.stat().st_ino, stat.S_IMODE(path.stat().st_mode) & 0o007) == (stood, 0)
    assert path.read_text().splitlines() == [
        "Week 2026-W53: 2026-12-28 00:00 CET to 2027-01-04 00:00 CET, 168.0 h (Europe/Paris)",
        "2026-12-27T23:00:00Z to 2027-01-03T23:00:00Z: 100.0 % complete, 0.0 % measured",
        "PROJECT  CLUSTER  KIND         UNITS   mWh   SHARE  g CO2e  CPU-s",
        "–        c1       unallocated      0  8.89  66.7 %       –      0",
        "p1       c1       unit             1  4.44  33.3 %       –   16.0",
    ]


@pytest.mark.parametrize(
    ("zone", "week", "hours"),
    [("Europe/Paris", "2026-W43", "169"), ("America/New_York", "2026-W10", "167"), ("Asia/Kolkata", "2026-W43", "168")],
)
def test_a_week_has_the_hours_that_clocks_gave_it_case_users_52(
    engine: Engine, directory: Path, zone: str, week: str, hours: str
) -> None:
    site = Site(engine, SiteSettings(time_zone=zone))
    its = IsoWeek.parse(week)
    site.take(night(site, its))
    site.roll()

    look(site, report_pass(site, directory, format="json"), from_ns(to_ns(its.span(site.settings.tz).end)).isoformat())
    before = files(directory)
    look(
        site,
        report_pass(site, directory, format="json"),
        (its.span(site.settings.tz).end + timedelta(hours=3)).isoformat(),
    )

    found = json.loads((directory / f"weekly-{week}.json").read_text())
    assert f"weekly-{week}.json" not in before
    assert f"{found['week']['hours']:g}" == hours
    assert found["completeness"] == 1.0
    assert found["items"][0]["energy_joules_total"] == 2 * HOURS * 4


@pytest.mark.parametrize(
    ("style", "by", "option"),
    [("text", "project", []), ("csv", "day", ["--csv"]), ("json", "user", ["--json"]), ("parsable", "week", ["-P"])],
)
def test_the_command_prints_the_same_bytes_case_users_51(
    site: Site,
    directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    style: str,
    by: str,
    option: list[str],
) -> None:
    site.take(night(site, lacks_hours=1))
    site.roll()
    look(site, report_pass(site, directory, format=style, by=by, wait_hours=0), "2027-01-04T02:30:00+01:00")
    site.clock.now_ns = at("2027-02-01T09:00:00Z")
    (written,) = directory.iterdir()
    api = api_of(site)

    with CommandApi(tmp_path) as server:
        server.routes["/usage"] = lambda query: (200, api.get("/api/v1/usage", params=query).json())
        capsys.readouterr()
        assert run_root(["report", "--state-dir", str(tmp_path), "--week", "2026-W53", "--by", by, *option]) == 0

    assert capsys.readouterr().out == written.read_text()


def test_nodes_that_were_not_read_to_the_weeks_end_are_waited_for(site: Site, directory: Path) -> None:
    early, late = night(site), night(site, node="n2", lacks_hours=3)
    site.take(early)
    site.take(late)
    site.roll()
    each = report_pass(site, directory, wait_hours=3)
    look(site, each, "2027-01-04T02:30:00+01:00")
    look(site, report_pass(site, directory, wait_hours=3), "2027-01-04T05:29:59+01:00")  # another start waits no longer
    before = files(directory)

    look(site, each, "2027-01-04T05:30:00+01:00")

    lines = (directory / "weekly-2026-W53.txt").read_text().splitlines()
    assert before == []
    assert lines[1].endswith(": 62.5 % complete, 0.0 % measured")
    assert lines[2].startswith("What is missing may still come")


def test_what_came_while_it_was_waited_for_is_in_it(site: Site, directory: Path) -> None:
    site.take(night(site, lacks_hours=3))
    site.roll()
    each = report_pass(site, directory, wait_hours=3)
    look(site, each, "2027-01-04T02:30:00+01:00")
    site.go_on(night(site, node="n2"), at("2027-01-04T02:31:00+01:00"))
    with_work_left = read_weeks(site.engine, "weekly")[W53].state
    retire(site.engine, "c1", "n1", at("2027-01-04T02:31:00+01:00"), by="test")
    look(site, each, "2027-01-04T02:32:00+01:00")
    before = files(directory)
    site.roll()

    look(site, each, "2027-01-04T02:34:00+01:00")

    assert (with_work_left, before) == (WeekState.WAITING, [])  # what was read is not summed up yet
    assert read_weeks(site.engine, "weekly")[W53].state is WeekState.WRITTEN


def test_a_clusters_report_does_not_wait_for_what_another_clusters_nodes_have_left_to_do(
    site: Site, directory: Path
) -> None:
    site.take(night(site))
    site.roll()
    site.take(night(site, node="n2"), cluster="c2")
    its, other = (report_pass(site, directory, name=each, cluster=each, wait_hours=3) for each in ("c1", "c2"))

    look(site, its, "2027-01-04T02:30:00+01:00")
    look(site, other, "2027-01-04T02:30:00+01:00")

    assert files(directory) == ["c1-2026-W53.txt"]


def test_what_comes_after_it_was_written_is_printed_by_the_command_and_leaves_the_file(
    site: Site, directory: Path
) -> None:
    site.take(night(site))
    site.roll()
    each = report_pass(site, directory)
    look(site, each, "2027-01-04T02:30:00+01:00")
    first = (directory / "weekly-2026-W53.txt").read_bytes()
    site.go_on(night(site, node="n2"), at("2027-01-05T00:00:00+01:00"))
    site.roll()

    look(site, each, "2027-01-05T03:00:00+01:00")

    weekly = WeeklyReportSettings.model_validate({})
    now = render_week(weekly, site.settings.tz, site.reader, site.clock, W53).text
    assert (directory / "weekly-2026-W53.txt").read_bytes() == first != now


def test_weeks_without_a_server_are_written_later_and_too_old_ones_told_once(site: Site, directory: Path) -> None:
    look(site, report_pass(site, directory, catch_up_weeks=2), "2026-11-30T12:00:00Z")
    each = report_pass(site, directory, catch_up_weeks=2)

    with capture_logs() as told:
        look(site, each, "2027-01-04T12:00:00Z")
        look(site, report_pass(site, directory, catch_up_weeks=2), "2027-01-04T13:00:00Z")

    assert files(directory) == [f"weekly-2026-W{number}.txt" for number in (48, 52, 53)]
    warnings = [line for line in told if line["log_level"] == "warning"]
    assert [(line["weeks"], line["first"], line["last"]) for line in warnings] == [(3, "2026-W49", "2026-W51")]
    assert (directory / "weekly-2026-W48.txt").read_text().splitlines()[1:] == [
        "2026-11-22T23:00:00Z to 2026-11-29T23:00:00Z: – complete, – measured",
        "nothing was booked within this span",
    ]


def test_a_stopped_pass_goes_on_with_the_next_week(site: Site, directory: Path) -> None:
    look(site, report_pass(site, directory), "2026-12-14T12:00:00Z")
    site.clock.now_ns = at("2027-01-04T12:00:00Z")

    report_pass(site, directory).run(Going(looks=1))
    stopped = files(directory)
    report_pass(site, directory).run(Going())

    assert stopped == ["weekly-2026-W50.txt", "weekly-2026-W51.txt"]
    assert files(directory) == [f"weekly-2026-W{number}.txt" for number in (50, 51, 52, 53)]


def test_a_crash_between_the_file_and_its_record_gives_one_file_case_users_51(
    site: Site, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.take(night(site))
    site.roll()
    real = os.replace

    def dies(old: Path, new: Path) -> None:
        real(old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        look(site, report_pass(site, directory), "2027-01-04T02:30:00+01:00")
    crashed = (files(directory), read_weeks(site.engine, "weekly")[W53].state)
    monkeypatch.undo()

    look(site, report_pass(site, directory), "2027-01-04T02:31:00+01:00")

    assert crashed == (["weekly-2026-W53.txt"], WeekState.WAITING)
    assert files(directory) == ["weekly-2026-W53.txt"]
    with site.engine.connect() as connection:
        row = connection.execute(select(*schema.report_weeks.c).where(schema.report_weeks.c.week == str(W53))).one()
    assert row.sha256 == hashlib.sha256((directory / "weekly-2026-W53.txt").read_bytes()).hexdigest()
    assert (row.completeness_ratio, row.state) == (1.0, "written")


def test_a_place_that_takes_no_file_is_named_and_tried_again(site: Site, directory: Path) -> None:
    directory.write_text("a file stands where the directory should be")

    with pytest.raises(Unavailable, match=r"weekly-2026-W53\.txt: the report cannot be written"):
        look(site, report_pass(site, directory), "2027-01-04T02:30:00+01:00")
    directory.unlink()
    look(site, report_pass(site, directory), "2027-01-04T02:31:00+01:00")

    assert files(directory) == ["weekly-2026-W53.txt"]


def test_of_many_that_write_at_once_one_does_case_users_51(engine: Engine) -> None:
    note_weeks(engine, "weekly", [W53], WeekState.WAITING, 1)
    put: list[int] = []
    done: list[bool] = []
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        written = Written(f"file-{number}", "0" * 64, 1.0)
        done.append(write_once(engine, "weekly", W53, written, number, lambda: put.append(number)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(put), sorted(done)) == (1, [False, False, False, True])


def test_a_site_that_moves_to_another_zone_writes_no_week_twice_case_users_51(engine: Engine, directory: Path) -> None:
    written: dict[str, int] = {}
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles", "Europe/Paris"):
        moved = Site(engine, SiteSettings(time_zone=zone))
        look(moved, report_pass(moved, directory), "2027-01-04T00:30:00Z")
        look(moved, report_pass(moved, directory), "2027-01-04T03:00:00Z")
        found = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
        assert found.items() >= written.items()
        written = found

    assert sorted(written) == ["weekly-2026-W52.txt", "weekly-2026-W53.txt"]  # in Los Angeles W52 was the newest


def test_another_name_is_another_report(site: Site, directory: Path) -> None:
    for name in ("weekly", "showback"):
        look(site, report_pass(site, directory, name=name), "2027-01-04T02:30:00+01:00")

    assert files(directory) == ["showback-2026-W53.txt", "weekly-2026-W53.txt"]


def test_the_newest_week_is_a_metric(site: Site, directory: Path) -> None:
    each = report_pass(site, directory)
    before = list(each.samples())
    look(site, each, "2027-01-04T02:30:00+01:00")
    again = report_pass(site, directory)
    look(site, again, "2027-01-04T02:32:00+01:00")

    ends = datetime(2027, 1, 3, 23, tzinfo=UTC).timestamp()
    assert before == []
    assert [(s.spec, s.labels, s.value) for s in [*each.samples(), *again.samples()]] == [
        (NEWEST, ("weekly",), ends)
    ] * 2


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("week=2025-W53", "week: expected a week that its year has, found '2025-W53'"),
        ("week=next", "week: expected a week such as 2026-W53, found 'next'"),
        ("week=9999-W52", "week: expected a week of the years 1971 to 2199, found 9999-W52"),
        ("week=2026-W53&from=-7d", "week: expected a week, or from and to, found both"),
    ],
)
def test_what_is_no_week_is_a_bad_request_case_users_52(site: Site, query: str, detail: str) -> None:
    answer = api_of(site).get(f"/api/v1/usage?{query}")

    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


def test_a_week_that_goes_on_says_so(site: Site) -> None:
    site.take(night(site, lacks_hours=3))
    site.roll()

    found = api_of(site).get("/api/v1/usage", params={"week": "2026-W53", "by": "project"}).json()

    assert found["week"] == {"key": "2026-W53", "hours": 168.0, "time_zone": "Europe/Paris", "is_over": False}
    assert found["completeness"] == 1.0
