"""What one server took in, sent on over real HTTP into another server's database."""

import json
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, delete, func, select, update
from tests.databases import sqlite_engine
from tests.e2e.server_thread import serve
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit
from tests.unit.ledger.journals import StandingClock

from kwhere.core.errors import Unavailable
from kwhere.database import schema
from kwhere.database.engine import writing
from kwhere.database.grid import Grid
from kwhere.database.schema import BALANCE_COLUMNS
from kwhere.ledger.pages import COLUMNS, PageHeader
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.push import PushReceiver
from kwhere.server.push_door import PushDoor, Receive, Send
from kwhere.server.push_grants import PushGrants
from kwhere.server.relay import LOOK_AGAIN_NS, Relay
from kwhere.server.relayed_ledger import UNKNOWN_FOR_NS
from kwhere.server.settings import PushGroup, RelaySettings
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient

TOKEN = "token-of-the-relay-0123456789"
NODE_TOKEN = "token-of-node-n1-0123456789"
NOW_NS = T0_NS + 86_400 * SECOND_NS


async def nothing_else(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    raise AssertionError("the relay asks for nothing but the ledger")


class Servers:
    """Two servers: `here` takes journals in, `there` gets them by relay."""

    def __init__(self, here: Engine, there: Engine, directory: Path) -> None:
        self.here, self.there = here, there
        self.clock = StandingClock(NOW_NS)
        self._stack = ExitStack()
        tokens = directory / "tokens"
        tokens.touch(0o600)
        tokens.write_text(f"{TOKEN}\nn1 {NODE_TOKEN}\n")
        grants = PushGrants([PushGroup(name="sub", cluster="there", tokens_file=tokens)])
        self._booker = PageBooker(here, Grid(ZoneInfo("UTC")), 30.0)
        self.receiver = PushReceiver(there, PageBooker(there, Grid(ZoneInfo("UTC")), 30.0), grants, self.clock)
        self.requests = 0
        self.door = PushDoor(nothing_else, self.receiver)
        self.answers: Callable[[], bool] = lambda: True

        async def answer(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            self.requests += 1
            if self.answers():
                await self.door(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        self.url = self._stack.enter_context(serve(answer))

    def take(self, journal: HandJournal, after: str | None = None, cluster: str = "here") -> None:
        """Take a journal in here, as the intake does."""
        target = Target(cluster, f"http://{journal.node}.{cluster}")
        for _ in range(20):
            outcome = self._booker.book(Received(target, journal.page(after, 3), self.clock.now_ns))
            if not outcome.more:
                return
            after = str(outcome.after)

    def relay(self, token: str = TOKEN, page_slots: int = 2) -> Relay:
        """A relay as a new process has it, which alone holds the lease."""
        with writing(self.here).begin() as connection:
            connection.execute(delete(schema.leases))
        settings = RelaySettings(cluster="here", url=self.url, page_slots=page_slots)
        made = Relay(self.here, HttpClient(self.url, token=token), settings, self.clock)
        self._stack.callback(made.close)
        return made

    def drop(self, epoch: str, before_seq: int) -> None:
        """Drop raw slots here, as 48 hours do."""
        with writing(self.here).begin() as connection:
            old = (schema.slots.c.epoch == epoch) & (schema.slots.c.seq < before_seq)
            connection.execute(delete(schema.slots).where(old))

    def close(self) -> None:
        self._stack.close()


def energy_uj(engine: Engine) -> int:
    with engine.connect() as connection:
        sums = [func.coalesce(func.sum(schema.node_5m.c[name]), 0) for name in BALANCE_COLUMNS]
        return sum(map(int, connection.execute(select(*sums)).one()))


def held(engine: Engine) -> list[tuple[str, int, str, bytes]]:
    """Raw slots as they are kept."""
    columns = (schema.slots.c.epoch, schema.slots.c.seq, schema.slots.c.digest, schema.slots.c.line)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(*columns[:2]))]


def lost(engine: Engine) -> list[tuple[str, int, int | None, int | None]]:
    columns = (schema.lost.c.epoch, schema.lost.c.first_seq, schema.lost.c.last_seq, schema.lost.c.end_ns)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(schema.lost.c.id))]


@pytest.fixture
def servers(engine: Engine, tmp_path: Path) -> Iterator[Servers]:
    """Here SQLite or PostgreSQL; there SQLite."""
    there = sqlite_engine(tmp_path / "there.sqlite")
    made = Servers(engine, there, tmp_path)
    yield made
    made.close()
    there.dispose()


def fill(journal: HandJournal, slots: int = 1) -> None:
    for number in range(slots):
        entries = [unit(key("7"), figures(1_000_003, number)), system(figures(11, 0)), unallocated(figures(0, 5))]
        journal.append(entries)


def test_lines_arrive_unchanged_and_once(servers: Servers) -> None:
    journals = [HandJournal(node="n1"), HandJournal(node="n2", machine_id="machine-2")]
    for journal in journals:
        fill(journal, 5)
        servers.take(journal)

    assert servers.relay().push_all() == 10
    assert servers.relay().push_all() == 0

    assert held(servers.there) == held(servers.here)
    assert energy_uj(servers.there) == energy_uj(servers.here) == sum(each.control_uj for each in journals)
    assert lost(servers.there) == []


def test_epochs_follow_one_another(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 3)
    servers.take(journal)
    relay = servers.relay()
    relay.push_all()
    for _ in range(2):
        last = f"{journal.epochs[-1]}:{len(journal.lines[journal.epochs[-1]])}"
        journal.new_epoch()
        fill(journal, 3)
        servers.take(journal, last)
        servers.clock.now_ns += SECOND_NS

    assert relay.push_all() == 6

    assert held(servers.there) == held(servers.here)
    assert lost(servers.there) == []
    with servers.there.connect() as connection:
        journals = set(connection.execute(select(schema.cursors.c.journal)).scalars())
    assert journals == {journal.epochs[0]}


def test_only_nodes_with_news_are_asked_for(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    relay = servers.relay()
    relay.push_all()
    before = servers.requests

    relay.push_all()
    assert servers.requests == before

    servers.clock.now_ns += LOOK_AGAIN_NS
    relay.push_all()
    assert servers.requests == before + 1


def test_server_that_was_away_gets_what_it_misses(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    relay = servers.relay()
    relay.push_all()
    fill(journal, 3)
    servers.take(journal, f"{journal.epochs[0]}:2")
    servers.answers = lambda: False

    with pytest.raises(Unavailable):
        relay.push_all()
    servers.answers = lambda: True

    assert relay.push_all() == 3
    assert held(servers.there) == held(servers.here)


def test_slots_that_are_gone_here_are_recorded_as_lost_there(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 6)
    servers.take(journal)
    servers.drop(journal.epochs[0], 4)

    assert servers.relay().push_all() == 3

    assert lost(servers.there) == [(journal.epochs[0], 1, 3, T0_NS + 180 * SECOND_NS)]


def test_epoch_that_is_gone_here_is_recorded_as_lost_there(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    relay = servers.relay()
    relay.push_all()
    epoch = journal.epochs[0]
    fill(journal, 2)
    journal.new_epoch()
    fill(journal, 2)
    servers.take(journal, f"{epoch}:2")
    servers.drop(epoch, 5)

    assert relay.push_all() == 2

    assert lost(servers.there) == [(epoch, 3, None, T0_NS + 240 * SECOND_NS)]


def test_whole_epochs_that_were_gone_before_the_first_round_are_lost_too(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    journal.new_epoch()
    fill(journal, 2)
    servers.take(journal)
    servers.drop(journal.epochs[0], 3)

    assert servers.relay().push_all() == 2

    assert lost(servers.there) == [(journal.epochs[0], 1, None, T0_NS + 120 * SECOND_NS)]


def test_epoch_of_which_all_was_sent_may_be_gone(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    relay = servers.relay()
    relay.push_all()
    servers.drop(journal.epochs[0], 3)
    journal.new_epoch()
    fill(journal, 2)
    servers.take(journal, f"{journal.epochs[0]}:2")

    assert relay.push_all() == 2
    assert lost(servers.there) == []


def test_slot_in_quarantine_is_sent_for_the_other_server_to_judge(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal)
    journal.append([system(figures(7, 0))], control=())
    fill(journal)
    servers.take(journal)

    assert servers.relay().push_all() == 3

    for engine in (servers.here, servers.there):
        with engine.connect() as connection:
            assert connection.execute(select(schema.quarantine.c.seq)).scalars().all() == [2]
    assert energy_uj(servers.there) == energy_uj(servers.here)


def test_hole_in_what_was_taken_in_is_a_hole_there(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    fill(journal, 4)
    journal.prune(journal.epochs[0], 5)
    servers.take(journal, f"{journal.epochs[0]}:2")

    assert servers.relay(page_slots=100).push_all() == 4
    assert lost(servers.there) == lost(servers.here)


def test_journal_that_was_replaced_leaves_the_same_mark(servers: Servers) -> None:
    old = HandJournal()
    fill(old, 2)
    servers.take(old)
    new = HandJournal(machine_id="machine-2", boot_id="boot-2", end_ns=old.end_ns + SECOND_NS)
    fill(new, 2)
    servers.clock.now_ns += SECOND_NS
    servers.take(new)

    assert servers.relay().push_all() == 4

    assert held(servers.there) == held(servers.here)
    assert lost(servers.there) == [(old.epochs[0], 3, None, old.end_ns + SECOND_NS)]


def test_node_that_is_refused_holds_up_nobody(servers: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        journal = HandJournal(node=f"n{number}", machine_id=f"machine-{number}")
        fill(journal, 2)
        servers.take(journal)
    relay = servers.relay(NODE_TOKEN)

    assert [relay.push_all() for _ in range(3)] == [2, 0, 0]

    out = capsys.readouterr().out
    assert out.count("ledger cannot be sent on") == 1
    assert "this token is for node n1, the page is of n2" in out


def test_other_clusters_stay_here(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal, cluster="elsewhere")

    assert servers.relay().push_all() == 0
    assert servers.requests == 0


def test_state_ahead_of_ours_is_waited_for_and_nothing_is_lost(servers: Servers) -> None:
    """Our database was restored and knows less than the other server; the agent's next pages fill it."""
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    relay = servers.relay()
    relay.push_all()
    journal.new_epoch()
    fill(journal, 2)
    servers.take(journal, f"{journal.epochs[0]}:2")
    relay.push_all()
    with writing(servers.here).begin() as connection:
        for table in (schema.slots, schema.cursors):
            connection.execute(delete(table).where(table.c.epoch == journal.epochs[1]))
        connection.execute(update(schema.cursors).values(finished=False))

    again = servers.relay()
    assert again.push_all() == 0

    assert lost(servers.there) == []
    assert energy_uj(servers.there) == journal.control_uj

    servers.clock.now_ns += UNKNOWN_FOR_NS
    again.push_all()
    servers.clock.now_ns += UNKNOWN_FOR_NS
    again.push_all()
    assert [epoch for epoch, *_ in lost(servers.there)] == [journal.epochs[1]]
    assert energy_uj(servers.there) == journal.control_uj


def test_damaged_line_is_told_and_holds_up_nobody(servers: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        journal = HandJournal(node=f"n{number}", machine_id=f"machine-{number}")
        fill(journal, 2)
        servers.take(journal)
    with writing(servers.here).begin() as connection:
        first = select(schema.nodes.c.id).where(schema.nodes.c.name == "n1").scalar_subquery()
        connection.execute(update(schema.slots).where(schema.slots.c.node_id == first).values(line=b"damaged"))

    assert servers.relay().push_all() == 2

    assert "what is kept of it is damaged" in capsys.readouterr().out


class LaterJournal(HandJournal):
    """Of the release after ours, with a column that we do not know."""

    def header(self, epoch: str, last: int | None) -> PageHeader:
        return replace(super().header(epoch, last), columns=("later", *COLUMNS), node_names=("n1", "second"))

    def add_line(self, line: bytes) -> None:
        record = json.loads(line)
        record["entries"] = [[42, *row] for row in record["entries"]]
        super().add_line(json.dumps(record, separators=(",", ":")).encode())


def test_columns_that_are_not_ours_are_sent_with_their_names(servers: Servers) -> None:
    journal = LaterJournal()
    fill(journal, 3)
    servers.take(journal)

    assert servers.relay().push_all() == 3

    assert held(servers.there) == held(servers.here)
    assert energy_uj(servers.there) == journal.control_uj


def test_slots_of_a_release_that_kept_no_facts_wait_for_the_next_page(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    with writing(servers.here).begin() as connection:
        connection.execute(update(schema.cursors).values(facts=None))
    relay = servers.relay()
    assert relay.push_all() == 0

    fill(journal)
    servers.take(journal, f"{journal.epochs[0]}:2")

    assert relay.push_all() == 3


def test_two_servers_on_one_database_take_turns(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    first = servers.relay()
    settings = RelaySettings(cluster="here", url=servers.url)
    second = Relay(servers.here, HttpClient(servers.url, token=TOKEN), settings, servers.clock)

    assert (first.push_all(), second.push_all()) == (2, 0)
    fill(journal, 1)
    servers.take(journal, f"{journal.epochs[0]}:2")
    assert second.push_all() == 0
    first.close()
    assert second.push_all() == 1
    second.close()


def test_clock_of_the_node_is_passed_on(servers: Servers) -> None:
    journal = HandJournal()
    fill(journal, 2)
    servers.take(journal)
    with writing(servers.here).begin() as connection:
        connection.execute(update(schema.nodes).values(clock_offset_ns=5 * SECOND_NS))

    servers.relay().push_all()

    with servers.there.connect() as connection:
        assert connection.execute(select(schema.nodes.c.clock_offset_ns)).scalar_one() == 5 * SECOND_NS
