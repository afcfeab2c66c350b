"""Jobs of several parts added up: het jobs, arrays, requeued jobs, over SQLite and PostgreSQL, by reader and API."""

import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.account_site import SITE, J, Site, fixed, keep
from tests.asgi_client import AsgiClient
from tests.fake_account import FixedClock
from tests.journals import SECOND_NS, HandJournal, figures, key, system, unit
from tests.managed_site import T0, said, tell

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.errors import NotFound
from kwhere.core.managed import ManagerAllocation
from kwhere.database.visibility import AccountName, Visibility
from kwhere.reports import unit_whole
from kwhere.reports.sources import Sources
from kwhere.reports.unit_whole import whole_of_parts, whole_of_runs
from kwhere.web.app import build_pages
from kwhere.web.pages import unit_said


@pytest.fixture
def site(engine: Engine) -> Site:
    made = Site(engine, SITE.model_copy(update={"zone": "FR"}))
    keep(made, fixed(100.0))
    return made


def part(unit_id: str, label: str, group: str, **changes: Any) -> Any:
    words = {"user": "alice", "name": "cfd", "tags": {"job": label, group: label.replace("+", "_").split("_")[0]}}
    return said(unit_id, 0, 10, **{**words, "elapsed_seconds": 10.0, **changes})


def book(site: Site, *names: str, cpus: float | None = 1.0) -> None:
    """Let each run for one slot of 10 s: 800 J dynamic, 200 J idle, 5 CPU seconds."""
    journal = HandJournal(slot_seconds=10)
    given = None if cpus is None else int(cpus * 10 * SECOND_NS)
    used = figures(800 * J, 200 * J, cpu_ns=5 * SECOND_NS, cpu_allocated_ns=given, memory_peak_bytes=2**20)
    runs = [unit(key(name), used) for name in names]
    journal.append([*runs, system(figures(0, 0))])
    site.take(journal)
    tell(site.engine)  # runs of nodes find theirs
    site.roll()


def api_of(site: Site) -> AsgiClient:
    sources = Sources(account=site.reader, clock=FixedClock(T0 + timedelta(hours=1)), time_zone=SITE.time_zone)
    app = build_app(sources, GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", build_pages(sources))
    return AsgiClient(app)


def words_of(page: str) -> str:
    """Return what a person reads of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_case_users_26_a_heterogeneous_job_is_one_record_of_its_components(site: Site) -> None:
    given = [ManagerAllocation(1.0, 2**30, {"a100": 1}), ManagerAllocation(3.0, 2**31, {"a100": 2, "h100": 1})]
    tell(
        site.engine,
        part("50", "50+0", "het_job", allocation=given[0]),
        part("51", "50+1", "het_job", allocation=given[1], elapsed_seconds=8.0),
        said("52", 0, 10, user="alice"),
    )
    book(site, "50", "51", "52")

    whole = whole_of_parts(site.reader, "c1", "slurm", "50")

    record = whole.record
    assert [each.labels["job"] for each in whole.parts] == ["50+0", "50+1"]
    assert (record.unit, record.user, record.name, record.state) == ("50", "alice", "cfd", "completed")
    assert (record.energy_total_uj, record.cpu_user_ns) == (2000 * J, 10 * SECOND_NS)
    assert (record.cpus_allocated, record.memory_allocated_bytes) == (4.0, 3 * 2**30)
    assert record.gpus_allocated == {"a100": 3, "h100": 1}
    assert (record.elapsed_ns, whole.cpu_allocated_seconds) == (10 * SECOND_NS, 1 * 10 + 3 * 8)
    assert record.emissions_grams == pytest.approx(2 * (whole.parts[0].emissions_grams or 0))
    assert whole.unknown == 0
    page = words_of(api_of(site).get("/units/c1/slurm/51").text)
    assert "Heterogeneous job 50 2 components added up" in page
    assert "2 components together 50 10.0 556 55.6" in page  # percent, CPU-s, mWh, mg


def test_an_array_is_the_sum_of_its_tasks_and_says_what_is_missing(site: Site) -> None:
    tell(
        site.engine,
        part("41", "40_1", "array_job"),
        part("40", "40_10", "array_job", state="failed"),
        part("42", "40_2", "array_job", ended_at=None, state="running", elapsed_seconds=None),
    )
    book(site, "41", "42")

    document = api_of(site).get("/api/v1/units/c1/slurm/40/parts").json()

    assert document["kind"] == "array"
    assert [each["labels"]["job"] for each in document["parts"]] == ["40_1", "40_2", "40_10"]
    assert (document["states"], document["unknown"]) == ({"completed": 1, "running": 1, "failed": 1}, 1)
    total = document["unit"]
    assert (total["unit"], total["energy_joules_total"], total["state"]) == ("40", 2000.0, "running")
    assert total["energy_joules"]["cpu"] == {"dynamic": 1600.0, "idle": 400.0}
    assert (total["ended_at"], total["elapsed_seconds"]) == (None, 20.0)
    assert "job" not in total["labels"]
    assert "Array 40 3 tasks added up, 1 without figures" in words_of(api_of(site).get("/units/c1/slurm/41").text)


def test_case_users_22_a_requeued_job_is_the_sum_of_its_runs(site: Site) -> None:
    words = {"user": "alice", "name": "cfd", "elapsed_seconds": 10.0}
    again = {"submitted_at": T0 + timedelta(seconds=12)}
    tell(
        site.engine,
        said("7", -9000, -8000, user="bob", name="old"),  # had the id before
        said("7", 0, 10, state="requeued", submitted_at=T0 - timedelta(seconds=5), **words),
        said("7", 20, 30, **again, **words),
    )
    journal = HandJournal(slot_seconds=10)
    used = figures(800 * J, 200 * J, cpu_ns=5 * SECOND_NS)
    journal.append([unit(key("7"), used), system(figures(0, 0))])
    journal.append([system(figures(0, 0))])
    journal.append([unit(key("7", start_s=1_764_000_020), used), system(figures(0, 0))])
    site.take(journal)
    tell(site.engine)  # runs of nodes find theirs
    site.roll()

    whole = whole_of_runs(site.reader, site.reader.unit("c1", "slurm", "7"))

    assert [each.run for each in whole.parts] == ["7@1764000000", "7@1764000020"]
    record = whole.record
    assert (record.run, record.state, record.energy_total_uj) == ("7@1764000020", "completed", 2000 * J)
    assert (record.submitted_at, record.started_at) == (T0 - timedelta(seconds=5), T0)
    assert (record.ended_at, record.elapsed_ns) == (T0 + timedelta(seconds=30), 20 * SECOND_NS)
    document = api_of(site).get("/api/v1/units/c1/slurm/7/runs").json()
    assert (document["kind"], document["unit"]["energy_joules_total"]) == ("runs", 2000.0)
    assert [each["energy_joules_total"] for each in document["parts"]] == [1000.0, 1000.0]
    page = words_of(api_of(site).get("/units/c1/slurm/7").text)
    assert "the id came again: not all are of one job" in page
    assert "runs together" not in page


@pytest.mark.parametrize(
    ("state", "ended_s", "submitted_s", "runs"),
    [
        ("requeued", 10, 12, 2),
        ("preempted", 10, None, 2),
        ("completed", 10, 12, 2),  # `scontrol requeue` of one that was over
        ("completed", 10, 10_000, 1),  # an id that came again
        ("completed", 10, None, 1),  # a service that was started anew
    ],
)
def test_which_runs_are_one_job(site: Site, state: str, ended_s: int, submitted_s: int | None, runs: int) -> None:
    submitted_at = None if submitted_s is None else T0 + timedelta(seconds=submitted_s)
    words = {"user": "alice", "name": "cfd"}
    tell(
        site.engine,
        said("7", 0, ended_s, state=state, **words),
        said("7", 20_000, 20_010, submitted_at=submitted_at, **words),
    )

    whole = whole_of_runs(site.reader, site.reader.unit("c1", "slurm", "7"))

    assert len(whole.parts) == runs


def test_parts_of_others_are_not_there(site: Site) -> None:
    tell(site.engine, part("41", "40_1", "array_job"), said("42", 0, 10, user="alice"))
    nobody = site.reader.seen_by(Visibility(users=frozenset({AccountName("bob")})))

    for reader, number in ((nobody, "40"), (site.reader, "42"), (site.reader, "77")):
        with pytest.raises(NotFound, match=f"job {number}: no array"):
            whole_of_parts(reader, "c1", "slurm", number)
    assert api_of(site).get("/api/v1/units/c1/slurm/77/parts").status_code == 404


def test_too_many_parts_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_whole, "MOST_PARTS", 2)
    tell(site.engine, *(part(str(41 + n), f"40_{n}", "array_job") for n in range(3)))

    with pytest.raises(NotFound, match="expected at most 2 parts"):
        whole_of_parts(site.reader, "c1", "slurm", "40")
    monkeypatch.setattr(unit_said, "MOST_ON_PAGE", 2)
    assert "`kwhere unit 40` tells their sum" in words_of(api_of(site).get("/units/c1/slurm/41").text)


def test_a_number_that_came_before_counts_for_no_part(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [said("40", -900 - n, -890 - n, user="alice") for n in range(4)]
    others = [part(str(31 + n), f"40_{n}", "array_job", user="bob") for n in range(3)]
    late = [said(str(41 + n), 20, 30, user="alice", tags={"job": f"40_{n}", "array_job": "40"}) for n in range(3)]
    tell(site.engine, *alone, *others, *late)

    assert len(whole_of_parts(site.reader, "c1", "slurm", "40", 3).parts) == 3
    monkeypatch.setattr(unit_whole, "_PAGE", 2)
    with pytest.raises(NotFound, match="expected at most 2 parts"):
        whole_of_parts(site.reader, "c1", "slurm", "40", 2)


def test_parts_are_read_page_by_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_whole, "_PAGE", 2)
    tell(site.engine, *(part(str(41 + n), f"40_{n}", "array_job") for n in range(5)))

    assert len(whole_of_parts(site.reader, "c1", "slurm", "40").parts) == 5


def test_where_nodes_do_not_know_what_was_given_the_manager_does(site: Site) -> None:
    tell(site.engine, said("60", 0, 10, elapsed_seconds=10.0, allocation=ManagerAllocation(cpus=2.0)))
    book(site, "60", cpus=None)

    record = site.reader.unit("c1", "slurm", "60")

    assert record.node_runs[0].cpu_allocated_ns is None
    assert record.cpu_efficiency_ratio == 0.25
