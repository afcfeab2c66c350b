"""The intake over real HTTP: exactly once, whatever either side goes through."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.databases import engine
from tests.e2e.intake_world import (
    Agent,
    Reply,
    Server,
    account_uj,
    answering,
    assert_balanced,
    count,
)
from tests.journals import HandJournal, figures, system
from tests.unit.ledger.slots import MINUTE_NS, START_NS

from kwhere.database import cursors, schema
from kwhere.database.engine import writing
from kwhere.database.reader import Reader
from kwhere.database.settings import SiteSettings
from kwhere.ledger.settings import JournalSettings
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient

__all__ = ["engine"]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path / "agent")
    yield made
    made.stop()


MakeServer = Callable[..., Server]


@pytest.fixture
def make_server(engine: Engine) -> Iterator[MakeServer]:
    """Make servers on one database; they hang up with the test."""
    made: list[Server] = []

    def make(targets: Sequence[Target], **settings: Any) -> Server:
        made.append(Server(engine, targets, **settings))
        return made[-1]

    yield make
    for server in made:
        server.intake.stop()


def page(journal: HandJournal, after: str | None, limit: int = 1000) -> Reply:
    return 200, {}, journal.body(after, limit)


def hand_journal(slots: int, **facts: object) -> HandJournal:
    journal = HandJournal(**facts)  # type: ignore[arg-type]
    for _ in range(slots):
        journal.append([system(figures(70, 30))])
    return journal


def test_every_slot_is_booked_once_over_restarts_of_both_sides(
    make_server: MakeServer, engine: Engine, agent: Agent
) -> None:
    agent.append(5)
    make_server([agent.target]).pull()
    agent.append(4)
    agent.restart()
    server = make_server([agent.target])
    server.pull()
    assert_balanced(engine, 9)
    agent.append(7)
    server.pull()
    server.pull()
    agent.restart()
    agent.append(1)

    make_server([agent.target]).pull()

    assert_balanced(engine, 17)
    assert count(engine, schema.cursors) == 3
    assert count(engine, schema.lost) == count(engine, schema.quarantine) == 0


def test_agent_without_a_slot_yet_is_no_fault(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    server = make_server([agent.target])
    server.pull()
    agent.restart()  # the epoch that nobody saw leaves no trace
    server.pull()
    agent.append(2)
    server.pull()

    assert server.intake.faults == {}
    assert_balanced(engine, 2)
    assert count(engine, schema.lost) == 0


def test_agent_that_was_away_goes_on_where_it_was_read(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    agent.append(2)
    server = make_server([agent.target])
    server.pull()
    agent.stop()
    server.pull()
    assert "refused" in server.fault(agent.target).lower()
    with engine.connect() as connection:
        noted = connection.execute(select(schema.nodes.c.error)).scalar_one()
    agent.start()
    agent.append(2)

    server.pull()

    assert "refused" in noted.lower()
    assert server.fault(agent.target) == ""
    assert_balanced(engine, 4)


def test_clock_offset_of_a_node_is_stored(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    agent.append()
    server = make_server([agent.target])
    server.pull()

    with engine.connect() as connection:
        offset_ns = connection.execute(select(schema.nodes.c.clock_offset_ns)).scalar_one()
    expected_ns = agent.clock.now_ns - server.clock.now_ns
    assert abs(offset_ns - expected_ns) < 1_000_000_000


def test_slots_that_the_agent_no_longer_holds_are_recorded_as_lost(
    make_server: MakeServer, engine: Engine, agent: Agent
) -> None:
    agent.append(3)
    server = make_server([agent.target])
    server.pull()
    agent.append(6)
    agent.restart(JournalSettings(max_days=2 / 1440))  # two minutes: of four slots of the new epoch the first goes too
    agent.append(4)

    server.pull()

    with engine.connect() as connection:
        lost = connection.execute(select(schema.lost)).one()
    assert (lost.first_seq, lost.last_seq) == (4, None)
    assert (lost.start_ns, lost.end_ns) == (START_NS + 3 * MINUTE_NS, START_NS + 10 * MINUTE_NS)
    assert_balanced(engine, 6)


def test_hole_in_an_epoch_is_recorded_as_lost(make_server: MakeServer, engine: Engine) -> None:
    journal = hand_journal(2)
    with answering(lambda after: page(journal, after)) as target:
        server = make_server([target])
        server.pull()
        for _ in range(4):
            journal.append([system(figures(70, 30))])
        journal.prune(journal.epochs[0], 5)
        server.pull()

    with engine.connect() as connection:
        lost = connection.execute(select(schema.lost)).one()
    assert (lost.first_seq, lost.last_seq) == (3, 4)
    assert account_uj(engine) == (400,) * 3


def faulty_pages(journal: HandJournal, asked: str | None) -> dict[str, Reply]:
    """Wrong answers to a server that holds slots 1 and 2 of 6."""
    epoch = journal.epochs[0]
    right = journal.body(asked, 2)
    header, *lines, _ = right.split(b"\n")
    foreign = hand_journal(6, node="elsewhere", machine_id="machine-2")
    forged = HandJournal(epochs=[epoch])
    for _ in range(6):
        forged.append([system(figures(90, 10))])
    huge = json.loads(header) | {"format": 99}
    return {
        "truncated in a line": (200, {}, right[:-20]),
        "truncated at a line": (200, {}, b"\n".join([header, *lines[:-1], b""])),
        "reordered lines": (200, {}, b"\n".join([header, *reversed(lines), b""])),
        "doubled line": (200, {}, b"\n".join([header, lines[0], *lines, b""])),
        "a later page": page(journal, f"{epoch}:4", 2),
        "forged": page(forged, f"{epoch}:2", 2),
        "foreign": page(foreign, None, 2),
        "another format": (200, {}, json.dumps(huge).encode() + b"\n" + b"\n".join(lines) + b"\n"),
        "no page": (200, {}, b"<html>hello</html>"),
        "nothing": (200, {}, b""),
        "bytes": (200, {}, bytes(range(256))),
        "not gzip": (200, {"content-encoding": "gzip"}, right),
        "refused": (401, {}, b'{"detail": "who are you"}'),
        "forbidden": (403, {}, b""),
        "an error": (500, {}, b"[1, 2"),
        "busy": (503, {}, b'{"detail": "too many"}'),
        "redirected": (302, {"location": "http://127.0.0.2:1/ledger"}, b""),
        "gone to nowhere": (410, {}, b"{}"),
        "gone to itself": (410, {}, json.dumps({"oldest": f"{epoch}:0"}).encode()),
        "gone to nonsense": (410, {}, json.dumps({"oldest": "::"}).encode()),
    }


FAULTS = sorted(faulty_pages(hand_journal(6), None))
STOPS = {"forged"}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_answer_books_nothing_and_is_told(make_server: MakeServer, engine: Engine, fault: str) -> None:
    journal = hand_journal(2)
    goes_wrong = threading.Event()

    def reply(after: str | None) -> Reply:
        return faulty_pages(journal, after)[fault] if goes_wrong.is_set() else page(journal, after)

    with answering(reply) as target:
        server = make_server([target])
        server.pull()
        for _ in range(4):
            journal.append([system(figures(70, 30))])
        goes_wrong.set()
        server.pull()

        assert server.fault(target) != ""
        assert account_uj(engine) == (200,) * 3
        assert count(engine, schema.lost) == count(engine, schema.quarantine) == 0

        goes_wrong.clear()
        server.pull()

    if fault in STOPS:
        assert "is stopped" in server.fault(target)
        assert account_uj(engine) == (200,) * 3
    else:
        assert server.fault(target) == ""
        assert account_uj(engine) == (600,) * 3


def test_page_that_was_sent_before_is_booked_once(make_server: MakeServer, engine: Engine) -> None:
    journal = hand_journal(4)
    with answering(lambda after: page(journal, None)) as target:
        server = make_server([target])
        server.pull()
        server.pull()

        assert server.fault(target) == ""
    assert account_uj(engine) == (400,) * 3


def test_journal_that_went_back_is_stopped_until_a_person_lets_it_go_on(
    make_server: MakeServer, engine: Engine
) -> None:
    journal = hand_journal(5)
    epoch = journal.epochs[0]

    def reply(after: str | None) -> Reply:
        held = len(journal.lines[epoch])
        if after is not None and after.startswith(epoch) and int(after.split(":")[1]) > held:
            return 409, {}, json.dumps({"detail": f"cursor {after}: lies past the newest slot"}).encode()
        return page(journal, after)

    with answering(reply) as target:
        server = make_server([target])
        server.pull()
        del journal.lines[epoch][3:]  # the machine went back to a snapshot
        server.pull()
        fault = server.fault(target)
        with engine.connect() as connection:
            health = Reader(engine, server.clock, SiteSettings()).health()
            noted = connection.execute(select(schema.nodes.c.error)).scalar_one()
        journal.new_epoch()
        journal.append([system(figures(7, 3))])
        server.pull()
        stopped = server.fault(target)
        with writing(engine).begin() as connection:
            assert cursors.resume(connection, epoch)
        server.pull()

        assert "went back" in fault
        assert "went back" in noted
        assert health.stopped_journals == 1
        assert "went back" in stopped
        assert server.fault(target) == ""
    assert account_uj(engine) == (510,) * 3


def test_epoch_is_read_only_behind_its_predecessor(make_server: MakeServer, engine: Engine) -> None:
    journal = hand_journal(3)
    journal.new_epoch()
    journal.append([system(figures(70, 30))])
    with answering(lambda after: page(journal, f"{journal.epochs[1]}:0")) as target:
        server = make_server([target])
        server.pull()

        assert "before it is not read to its end" in server.fault(target)
    assert count(engine, schema.slots) == 0


def test_clone_of_a_machine_is_refused_and_its_original_is_not(
    make_server: MakeServer, engine: Engine, agent: Agent, tmp_path: Path
) -> None:
    agent.append(3)
    clone = Agent(tmp_path / "clone", node="c2")
    clone.append(2)
    server = make_server([agent.target])
    server.pull()
    server.targets.append(clone.target)
    agent.append()

    server.pull()
    clone.stop()

    assert "speaks for the same time" in server.fault(clone.target)
    assert server.fault(agent.target) == ""
    assert_balanced(engine, 4)


def test_two_targets_of_one_agent_are_told(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    agent.append()
    twin = Target("c", agent.target.url.replace("127.0.0.1", "localhost"))
    server = make_server([agent.target, twin])
    server.pull()
    agent.append()
    server.pull()
    server.pull()

    assert sum("served by two targets" in fault for fault in server.intake.faults.values()) == 1
    assert_balanced(engine, 2)


def test_two_servers_on_one_database_book_each_slot_once(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    servers = [make_server([agent.target], page_slots=2) for _ in range(2)]
    for _ in range(3):
        agent.append(5)
        pulls = [threading.Thread(target=server.pull) for server in servers]
        for pull in pulls:
            pull.start()
        for pull in pulls:
            pull.join()
    servers[0].pull()

    assert [server.intake.faults for server in servers] == [{}, {}]
    assert_balanced(engine, 15)


def test_node_in_the_place_of_another_is_refused(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    agent.append()
    target = Target("c", agent.target.url, node="c9")
    server = make_server([target])
    server.pull()

    assert "expected a page of node c9, found c1" in server.fault(target)
    assert count(engine, schema.nodes) == 0


def test_agent_that_does_not_answer_delays_no_other(make_server: MakeServer, engine: Engine, agent: Agent) -> None:
    agent.append(2)
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    targets = [Target("c", f"http://127.0.0.1:{each.getsockname()[1]}") for each in silent]
    server = make_server([*targets, agent.target], workers=4)
    server.intake.start()
    for _ in range(400):
        if server.intake.counts.slots == 2 or threading.Event().wait(0.05):
            break
    server.intake.stop()
    for each in silent:
        each.close()

    assert_balanced(engine, 2)


def test_credentials_of_the_wrong_kind_are_told_and_noted(
    make_server: MakeServer, engine: Engine, agent: Agent
) -> None:
    agent.append()
    make_server([agent.target]).pull()
    secret = "another-token-of-the-tests"
    wrong = make_server([agent.target], connect=lambda target: HttpClient(target.url, token=secret))

    wrong.pull()

    assert "refuses our credentials" in wrong.fault(agent.target)
    assert secret not in wrong.fault(agent.target)
    with engine.connect() as connection:
        assert "refuses our credentials" in connection.execute(select(schema.nodes.c.error)).scalar_one()
