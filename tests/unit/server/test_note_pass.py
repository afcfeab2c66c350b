"""Writing figures back: once, when they are whole, never over another's text, and again after an outage."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.account_site import SITE, J, Site, fixed, keep
from tests.databases import engine
from tests.journals import SECOND_NS, HandJournal, figures, key, system, unit
from tests.managed_site import said, tell

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.resource_managers.notes import NotedRun, NoteSettings
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.server.note_pass import note_passes
from kwhere.server.passes import ServerPass

__all__ = ["engine"]

LINE = "kwhere1:kwh=0.001;co2e_g=0.1;cpu_eff=0.500;method=modelled"


class Book:
    """A field per job that anybody may write in."""

    def __init__(self, **settings: object) -> None:
        self.settings = NoteSettings.model_validate(settings)
        self.texts: dict[str, str] = {}
        self.reads: list[list[str]] = []
        self.writes: list[tuple[str, str]] = []
        self.away: Exception | None = None
        self.read_only: Exception | None = None
        self.gone: set[str] = set()
        self.torn: dict[str, Exception] = {}

    def read(self, runs: Sequence[NotedRun]) -> Mapping[NotedRun, str]:
        self.reads.append([run.shown for run in runs])
        if self.away is not None:
            raise self.away
        for run in runs:
            if run.shown in self.torn:
                raise self.torn[run.shown]
        return {run: self.texts.get(run.shown, "") for run in runs if run.shown not in self.gone}

    def write(self, run: NotedRun, text: str) -> None:
        if self.read_only is not None:
            raise self.read_only
        self.writes.append((run.shown, text))
        self.texts[run.shown] = text


class Manager:
    name = "slurm"
    cluster = "c1"

    def __init__(self, notes: Book | None) -> None:
        self.notes = notes

    def fetch_units(self, span: Span) -> Sequence[ManagerUnit]:
        return ()

    def fetch_accounts(self) -> Accounts:
        return Accounts()

    def fetch_nodes(self) -> Sequence[ManagerNode]:
        return ()

    def close(self) -> None:
        pass


class Leave:
    def goes_on(self) -> bool:
        return True


class World:
    """A site with jobs that ended at T0 + 60 s, and a manager's book."""

    def __init__(self, engine: Engine, **settings: object) -> None:
        self.site = Site(engine, SITE.model_copy(update={"zone": "FR"}))
        keep(self.site, fixed(100))
        self.book = Book(**settings)
        self.server_pass = self.new_pass()

    def new_pass(self) -> ServerPass:
        built = BuiltManager("slurm", ManagerSettings(manager="slurm", cluster="c1"), Manager(self.book))
        (made,) = note_passes(self.site.engine, [built], self.site.reader, self.site.clock)
        return made

    def job(self, *jobs: str, node: str = "n1", is_over: bool = True) -> None:
        """Let jobs run for a minute on a node: 1 Wh each, at half a CPU of one."""
        journal = HandJournal(node=node, machine_id=f"m-{node}")
        used = figures(3600 * J, 0, cpu_ns=30 * SECOND_NS, cpu_allocated_ns=60 * SECOND_NS)
        journal.append([*(unit(key(job), used) for job in jobs), system(figures(0, 0))])
        if is_over:
            journal.append([system(figures(0, 0))])
        self.site.take(journal)

    def say(self, *jobs: str, **changes: object) -> None:
        words = {"user": "alice", "project": "cfd", **changes}
        tell(self.site.engine, *(said(job, 0, 60, **words) for job in jobs))

    def look(self, after_seconds: int = 700) -> None:
        self.site.clock.now_ns += after_seconds * SECOND_NS
        self.server_pass.run(Leave())

    def outcomes(self) -> dict[str, str]:
        notes, units = schema.written_notes.c, schema.units.c
        query = select(units.unit, notes.outcome).join(schema.units, units.id == notes.unit_id)
        with self.site.engine.connect() as connection:
            return {row.unit: row.outcome for row in connection.execute(query)}

    def audited(self) -> list[tuple[str, dict[str, Any]]]:
        audit = schema.audit.c
        query = select(audit.subject, audit.detail).where(audit.action == "unit.note").order_by(audit.id)
        with self.site.engine.connect() as connection:
            return [(row.subject, json.loads(row.detail)) for row in connection.execute(query)]


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


def ended(world: World, *jobs: str, **changes: object) -> None:
    world.job(*jobs)
    world.say(*jobs, **changes)
    world.site.roll()


def test_it_is_off_unless_asked_for(world: World) -> None:
    built = BuiltManager("slurm", ManagerSettings(manager="slurm", cluster="c1"), Manager(None))

    assert note_passes(world.site.engine, [built], world.site.reader, world.site.clock) == ()


def test_an_ended_job_is_written_about_once_and_audited(world: World) -> None:
    ended(world, "7")

    for _ in range(3):
        world.look()

    assert world.book.writes == [("7", LINE)]
    assert world.outcomes() == {"7": "written"}
    assert world.audited() == [("c1/slurm/7@1764000000", {"text": LINE, "before": ""})]


def test_it_waits_for_the_time_to_settle(world: World) -> None:
    ended(world, "7")

    world.look(500)
    early = list(world.book.writes)
    world.look(120)

    assert (early, len(world.book.writes)) == ([], 1)


def test_a_job_that_runs_or_whose_node_is_late_is_not_written_about(world: World) -> None:
    world.job("7", "8", is_over=False)
    world.say("7")
    tell(world.site.engine, said("8", 0, None))
    world.site.roll()

    world.look()

    assert world.book.writes == []
    assert world.outcomes() == {"7": "waiting"}


def test_a_job_on_two_nodes_waits_for_both(world: World) -> None:
    world.job("7", node="n1")
    world.say("7", nodes=("n1", "n2"))
    world.site.roll()
    world.look()
    first = list(world.book.writes)
    world.job("7", node="n2")
    tell(world.site.engine)
    world.site.roll()

    world.look(1500)

    assert first == []
    assert [text.split(";")[0] for _, text in world.book.writes] == ["kwhere1:kwh=0.002"]


def test_sums_that_are_not_made_yet_are_waited_for(world: World) -> None:
    world.job("7")
    world.say("7")
    world.look()
    first = list(world.book.writes)
    world.site.roll()

    world.look(1500)

    assert (first, world.book.writes) == ([], [("7", LINE)])


def test_a_job_that_no_agent_saw_is_given_up_in_the_end(world: World) -> None:
    world.say("7")
    world.look()
    waiting = world.outcomes()

    world.look(3 * 86_400)

    assert (waiting, world.outcomes(), world.book.writes) == ({"7": "waiting"}, {"7": "incomplete"}, [])


@pytest.mark.parametrize(
    ("other_text", "written", "outcome"),
    [("leave", [], "left"), ("append", [("7", f"JS1:abc= {LINE}")], "written")],
)
def test_jobstats_text_is_never_lost(engine: Engine, other_text: str, written: list[Any], outcome: str) -> None:
    world = World(engine, other_text=other_text)
    ended(world, "7")
    world.book.texts["7"] = "JS1:abc="

    for _ in range(2):
        world.look()

    assert (world.book.writes, world.outcomes()) == (written, {"7": outcome})
    assert world.book.texts["7"].startswith("JS1:abc=")


def test_what_stands_there_already_is_not_written_again(world: World) -> None:
    ended(world, "7")
    world.book.texts["7"] = LINE  # the server was killed between the two

    world.look()

    assert (world.book.writes, world.outcomes(), world.audited()) == ([], {"7": "written"}, [])


def test_excluded_projects_are_not_even_read(engine: Engine) -> None:
    world = World(engine, excluded_projects=["secret"])
    ended(world, "7", project="secret")
    world.say("8")

    world.look()

    assert (world.book.reads, world.outcomes()["7"]) == ([], "excluded")


def test_so_many_a_minute_in_the_order_of_their_ends(engine: Engine) -> None:
    world = World(engine, per_minute=2)
    ended(world, *"56789")
    world.look()
    assert not world.server_pass.is_due()
    first = [job for job, _ in world.book.writes]

    for _ in range(2):
        world.look(60)

    assert first == ["5", "6"]
    assert [job for job, _ in world.book.writes] == list("56789")


def test_units_that_wait_keep_out_no_others(engine: Engine) -> None:
    world = World(engine, per_minute=1)
    world.say(*(str(number) for number in range(100, 120)))  # no agent ever saw them
    for _ in range(12):
        world.look(700)
    ended(world, "7")

    for _ in range(3):
        world.look(700)

    assert [job for job, _ in world.book.writes] == ["7"]


def test_a_manager_that_is_away_is_asked_again(world: World) -> None:
    ended(world, "7")
    world.book.away = Unavailable("refused", "sacct: Connection refused")
    for _ in range(3):
        with pytest.raises(Unavailable):
            world.look(60 if world.book.reads else 700)
    world.book.away = None
    world.server_pass = world.new_pass()  # and the server too was started anew

    world.look(60)

    assert world.book.writes == [("7", LINE)]


@pytest.mark.parametrize(
    "torn", [SourceError("slurmrestd: job 5: expected JSON, found none"), Unavailable("unsupported", "5: not found")]
)
def test_a_job_that_cannot_be_read_keeps_no_other_waiting(world: World, torn: Exception) -> None:
    ended(world, *"567")
    world.book.torn["5"] = torn

    world.look()

    assert world.outcomes() == {"5": "failed", "6": "written", "7": "written"}
    world.book.torn.clear()
    world.look(3600)
    assert world.outcomes()["5"] == "written"


def test_a_book_of_which_nothing_can_be_read_is_a_failed_pass(world: World) -> None:
    ended(world, *"5678")
    world.book.torn = {job: Unavailable("unsupported", f"{job}: not found") for job in "5678"}

    with pytest.raises(Unavailable, match="not found"):
        world.look()

    assert world.outcomes() == dict.fromkeys("567", "failed")


def test_a_write_that_fails_is_tried_again_later_and_later(world: World) -> None:
    ended(world, "7")
    world.book.read_only = Unavailable("refused", "sacctmgr: Connection refused")
    for seconds in (700, 60, 60, 60):  # due after one minute, then after two
        world.look(seconds)
    tries = len(world.book.reads)
    world.book.read_only = None

    world.look(3600)

    assert tries == 3
    assert (world.book.writes, world.outcomes()) == ([("7", LINE)], {"7": "written"})


def test_three_failures_in_a_row_end_the_look(world: World) -> None:
    ended(world, *"56789")
    world.book.read_only = Unavailable("permission", "sacctmgr: this user may not ask")

    with pytest.raises(Unavailable, match="may not ask"):
        world.look()

    assert world.outcomes() == dict.fromkeys("567", "failed")


def test_what_cannot_be_written_is_left_for_good(world: World) -> None:
    ended(world, "7")
    world.book.read_only = SourceError("AdminComment: signs that SLURM would change")

    for _ in range(3):
        world.look()

    assert (len(world.book.reads), world.outcomes()) == (1, {"7": "refused"})


def test_an_older_run_of_a_requeued_job_cannot_be_written_about(world: World) -> None:
    ended(world, "7")
    world.book.gone = {"7"}

    for _ in range(2):
        world.look()

    assert (world.book.writes, world.outcomes()) == ([], {"7": "superseded"})


def test_a_task_of_an_array_is_written_about_by_its_own_name(world: World) -> None:
    ended(world, "7", tags={"job": "6_1", "array_job": "6"})

    world.look()

    assert world.book.writes == [("6_1", LINE)]


def test_old_jobs_are_not_written_about_when_it_is_switched_on(world: World) -> None:
    ended(world, "7")

    world.look(3 * 86_400)

    assert (world.book.reads, world.outcomes()) == ([], {})
