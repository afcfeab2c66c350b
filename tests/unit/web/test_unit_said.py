"""What a manager says of a unit on its page, its runs side by side, and the columns of a trend."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import NOW, UNITS

from kwhere.database.records import UnitRecord
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages
from kwhere.web.day_columns import FEW, Layer, Stack, column_chart
from kwhere.web.formatting import column_of
from kwhere.web.pages.unit_said import run_table, said_of

JOB = replace(
    UNITS[0],
    state="completed",
    queue="gpu-long",
    group="phys",
    submitted_at=NOW - timedelta(days=3),
    started_at=NOW - timedelta(days=2),
    ended_at=NOW - timedelta(days=2) + timedelta(days=1, hours=2, minutes=3, seconds=4),
    labels={"job": "4240_2", "array_job": "4240", "restarts": "1", "qos": "normal"},
    gpus_allocated={"a100": 2.0},
)
FIRST_RUN = replace(
    JOB,
    run="4242@1",
    state="requeued",
    started_at=NOW - timedelta(days=2, hours=5),
    ended_at=NOW - timedelta(days=2, hours=1),
    energy_total_uj=3_600_000_000,
    emissions_grams=0.5,
)


class Requeued(FakeAccount):
    def unit(
        self, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
    ) -> UnitRecord:
        return JOB

    def unit_runs(self, cluster: str, manager: str, unit: str, limit: int = 20) -> Sequence[UnitRecord]:
        return [JOB, FIRST_RUN]


def _page(account: FakeAccount, path: str) -> str:
    sources = Sources(account=account, clock=FixedClock(), time_zone="Europe/Paris", version="0.1.0")
    answer = AsgiClient(let_in(build_pages(sources))).get(path)
    assert answer.status_code == 200
    return answer.text


def test_the_page_says_what_the_manager_says() -> None:
    text = _page(Requeued(), "/units/local/slurm/4242")

    for words in ("What slurm says", "gpu-long", "phys", "2 × a100", "4240_2", "normal", "started again 1 ×"):
        assert words in text
    assert 'href="/units?cluster=local&amp;q=4240"' in text
    assert 'href="/users/alice?cluster=local"' in text
    assert 'href="/projects/aero?cluster=local"' in text


def test_a_unit_of_no_manager_has_no_such_panel() -> None:
    assert "What docker says" not in _page(FakeAccount(), "/units/local/docker/0c1f7e2ab34d")


def test_the_panel_is_there_for_whatever_a_manager_told_of_however_little_it_says() -> None:
    machine = next(unit for unit in UNITS if unit.manager == "libvirt")
    account = FakeAccount(records=(replace(machine, is_managed=True, labels={"vm": "web", "host": "node-a"}),))

    text = _page(account, f"/units/local/libvirt/{machine.unit}")

    assert (machine.queue, machine.submitted_at, machine.group) == (None, None, None)
    assert text.count("What libvirt says") == 1
    assert text.count("<dt>host</dt>") == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(93_784, "1-02:03:04"), (7384, "02:03:04"), (86_400, "1-00:00:00"), (86_399, "23:59:59"), (41, "41.0 s")],
)
def test_a_duration_counts_its_days_case_users_53(seconds: int, text: str) -> None:
    record = replace(JOB, ended_at=JOB.started_at + timedelta(seconds=seconds))

    assert said_of(record, NOW).ran == text


def test_the_lists_and_the_page_show_the_same_duration_case_users_53() -> None:
    account = Requeued(records=(JOB,))

    assert "1-02:03:04" in _page(account, "/units/local/slurm/4242")
    assert "1-02:03:04" in _page(account, "/units")
    assert "1-02:03:04" in _page(account, "/users/alice")


def test_what_still_runs_is_in_progress_for_whole_seconds_case_users_55() -> None:
    record = replace(JOB, ended_at=None, started_at=NOW - timedelta(hours=1))
    said = said_of(record, NOW + timedelta(milliseconds=750))

    assert (said.so_far, said.ran) == ("in progress for", "01:00:00")
    assert run_table([record], record, NOW).rows[0].ran == "01:00:00 (in progress)"
    assert "in progress for <strong>06:12:00</strong>" in _page(FakeAccount(), "/units/local/slurm/4242")


@pytest.mark.parametrize("state", ["shut off", "suspended", "shelved_offloaded"])
def test_what_is_at_rest_is_not_in_progress(state: str) -> None:
    machine = replace(UNITS[0], state=state, is_managed=True)
    assert machine.ended_at is None

    text = _page(FakeAccount(records=(machine,)), f"/units/local/slurm/{machine.unit}")

    assert "in progress" not in text
    assert text.count(f"{state} now, there for <strong>06:12:00</strong>") == 2
    assert run_table([machine], machine, NOW).rows[0].ran == f"06:12:00 ({state} now)"


def test_a_start_before_the_clock_is_not_a_negative_duration_case_users_56() -> None:
    assert said_of(replace(JOB, ended_at=None, started_at=NOW + timedelta(minutes=5)), NOW).ran == "0 s"


def test_suspension_is_told_apart() -> None:
    said = said_of(replace(JOB, elapsed_ns=90_000 * 10**9), NOW)

    assert (said.ran, said.suspended) == ("1-01:00:00", "01:03:04")


def test_a_requeued_jobs_energy_is_the_sum_of_its_runs() -> None:
    table = run_table([JOB, FIRST_RUN], JOB, NOW)

    assert [row.is_this for row in table.rows] == [True, False]
    assert table.total_joules == pytest.approx(JOB.energy_total_uj / 1e6 + 3600)
    assert table.total_grams == pytest.approx((JOB.emissions_grams or 0) + 0.5)
    assert "2 runs together" in _page(Requeued(), "/units/local/slurm/4242")


def test_a_run_that_no_agent_reported_has_no_energy() -> None:
    untold = replace(FIRST_RUN, energy_uj={}, energy_total_uj=0, cpu_user_ns=None, cpu_system_ns=None)
    table = run_table([untold], JOB, NOW)

    assert (table.rows[0].energy_joules, table.total_joules, table.total_cpu_seconds) == (None, None, None)


def test_earlier_units_of_the_name_stand_beside_it() -> None:
    text = _page(FakeAccount(), "/units/local/slurm/4243")

    assert "Earlier, of the same name" in text
    assert "this one" in text


def test_columns_fill_the_height_and_few_are_not_wide() -> None:
    stacks = [Stack("a", [Layer("x", "cpu", 30.0), Layer("y", "dram", 10.0)]), Stack("b", [Layer("x", "cpu", None)])]

    chart = column_chart(stacks, column_of([40.0], "energy"))

    assert [(piece.top, piece.height) for piece in chart.pieces] == [(25.0, 75.0), (0.0, 25.0)]
    assert all(piece.width < 100 / FEW for piece in chart.pieces)
    assert "cpu: 8.33 mWh" in chart.pieces[0].title
    assert column_chart([Stack("a", [Layer("x", "cpu", 0.0)])], column_of([], "energy")).pieces == ()


def test_what_is_there_stands_behind_the_columns() -> None:
    chart = column_chart([Stack("a", [Layer("x", "used", 50.0)], whole=100.0)], column_of([100.0], "cpu_time"))

    assert [(piece.css_class, piece.height) for piece in chart.pieces] == [("fill-track", 100.0), ("x", 50.0)]
