"""Whose journal it is and where reading goes on, whatever order pages come in."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select
from tests.databases import sqlite_engine
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, system

from kwhere.core.errors import IntakeRefused
from kwhere.database import schema
from kwhere.database.cursors import CursorMoved, Step, advance, find_epoch, find_target
from kwhere.database.engine import writing
from kwhere.database.grid import Grid
from kwhere.ledger.columns import ColumnPage
from kwhere.server.page_booker import JournalStopped, Outcome, PageBooker, Received
from kwhere.server.target import Target

TARGET = Target("c1", "http://127.0.0.1:9810")
LATER_NS = T0_NS + 7 * 86_400 * SECOND_NS
SLOT_UJ = 100


@pytest.fixture
def booker(engine: Engine) -> PageBooker:
    return make_booker(engine)


def make_booker(engine: Engine) -> PageBooker:
    return PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)


def append(journal: HandJournal, slots: int = 1) -> HandJournal:
    for _ in range(slots):
        journal.append([system(figures(70, 30))])
    return journal


def take(booker: PageBooker, page: ColumnPage, target: Target = TARGET) -> Outcome:
    return booker.book(Received(target, page, LATER_NS))


def booked(engine: Engine) -> int:
    """Return how many slots the node's usage holds."""
    columns = schema.node_5m.c
    with engine.connect() as connection:
        total = connection.execute(select(func.sum(columns.cpu_system_uj))).scalar_one()
    slots, rest = divmod(int(total or 0), SLOT_UJ)
    assert rest == 0
    return slots


def test_a_journal_without_a_slot_opens_nothing(engine: Engine, booker: PageBooker) -> None:
    outcome = take(booker, HandJournal().page())

    assert (outcome.after, outcome.more) == (None, False)
    with engine.connect() as connection:
        assert find_target(connection, TARGET.key) is None
        assert connection.execute(select(schema.nodes.c.pull_ns)).scalar_one() == LATER_NS


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"machine_id": "machine-2"}, "expected machine-id machine-1, found machine-2"),
        ({"boot_id": "boot-2"}, "expected boot id boot-1, found boot-2"),
        ({"node": "n2"}, "its slots were another node's"),
    ],
)
def test_an_epoch_is_of_one_machine_boot_and_node(
    engine: Engine, booker: PageBooker, facts: dict[str, str], words: str
) -> None:
    journal = append(HandJournal())
    take(booker, journal.page())
    append(journal)
    for name, value in facts.items():
        setattr(journal, name, value)

    with pytest.raises(IntakeRefused, match=words):
        take(booker, journal.page())

    assert booked(engine) == 1


def test_a_following_epoch_may_be_of_another_boot(engine: Engine, booker: PageBooker) -> None:
    journal = append(HandJournal(), 2)
    after = take(booker, journal.page()).after
    journal.new_epoch()
    append(journal)
    after = take(booker, journal.page(str(after))).after
    journal.boot_id = "boot-2"

    take(booker, journal.page(str(after)))
    append(journal)
    take(booker, journal.page(f"{journal.epochs[1]}:1"))

    assert booked(engine) == 4
    with engine.connect() as connection:
        row = find_epoch(connection, journal.epochs[1])
    assert row is not None
    assert row.boot_id == "boot-2"
    assert row.journal == journal.epochs[0]


def test_an_epoch_that_names_our_last_slot_before_it_shows_that_the_last_is_over(
    engine: Engine, booker: PageBooker
) -> None:
    journal = append(HandJournal(), 2)
    take(booker, journal.page())
    journal.new_epoch()
    append(journal, 2)

    take(booker, journal.page(f"{journal.epochs[1]}:0"))

    assert booked(engine) == 4


@pytest.mark.parametrize("unread", [1, 2])
def test_an_epoch_behind_slots_that_we_do_not_hold_waits(engine: Engine, booker: PageBooker, unread: int) -> None:
    journal = append(HandJournal(), 2)
    take(booker, journal.page(limit=2 - unread if unread < 2 else 1))
    if unread == 2:
        journal.new_epoch()
        append(journal)
    journal.new_epoch()
    append(journal)

    with pytest.raises(IntakeRefused, match="is not read to its end"):
        take(booker, journal.page(f"{journal.epochs[-1]}:0"))

    assert booked(engine) == 1


def test_a_page_that_leaves_out_what_the_agent_holds_loses_nothing(engine: Engine, booker: PageBooker) -> None:
    journal = append(HandJournal(), 6)
    epoch = journal.epochs[0]
    take(booker, journal.page(limit=2))

    with pytest.raises(IntakeRefused, match="expected slot 3, which the agent holds, found 5"):
        take(booker, journal.page(f"{epoch}:4"))
    take(booker, journal.page(f"{epoch}:2"))

    assert booked(engine) == 6
    with engine.connect() as connection:
        assert connection.execute(select(schema.lost)).first() is None


def test_a_cluster_that_is_renamed_takes_its_nodes_along(engine: Engine, booker: PageBooker) -> None:
    journal = append(HandJournal(), 2)
    take(booker, journal.page())
    append(journal)
    renamed = replace(TARGET, cluster="c2")

    take(booker, journal.page(), renamed)
    append(journal)
    take(booker, journal.page(), renamed)

    assert booked(engine) == 4


def test_a_cursor_that_another_reader_moved_is_no_fault_of_the_page(engine: Engine, booker: PageBooker) -> None:
    journal = append(HandJournal(), 2)
    take(booker, journal.page(limit=1))
    with engine.connect() as connection:
        row = find_epoch(connection, journal.epochs[0])
    assert row is not None
    take(booker, journal.page())

    with pytest.raises(CursorMoved), writing(engine).begin() as connection:
        advance(connection, row, Step(2, "x", T0_NS, T0_NS + 1, "{}"))


def test_a_fault_is_told_once_and_a_refused_page_tells_nothing_else(
    booker: PageBooker, capsys: pytest.CaptureFixture[str]
) -> None:
    original, clone = append(HandJournal(), 2), append(HandJournal(node="n2"), 1)
    take(booker, original.page())
    capsys.readouterr()

    for _ in range(3):
        with pytest.raises(IntakeRefused, match="speaks for the same time"):
            take(booker, clone.page(), Target("c1", "http://127.0.0.1:9811"))

    assert "another journal follows" not in capsys.readouterr().out


deliveries = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("epoch"), st.just(0), st.just(0)),
        st.tuples(st.just("page"), st.integers(0, 40), st.integers(1, 5)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=40, deadline=None)
@given(deliveries)
def test_pages_in_any_order_lose_and_double_nothing(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as directory:
        engine = sqlite_engine(Path(directory) / "account.sqlite")
        journal, booker = append(HandJournal()), make_booker(engine)
        appended = 1
        for step, number, limit in steps:
            if step == "append":
                append(journal, number)
                appended += number
            elif step == "epoch":
                if journal.lines.get(journal.epochs[-1]):
                    journal.new_epoch()
                    append(journal)
                    appended += 1
            elif step == "restart":
                booker = make_booker(engine)
            else:
                deliver(booker, journal, number, limit)
        read_to_end(engine, make_booker(engine), journal)

        assert booked(engine) == appended
        with engine.connect() as connection:
            assert connection.execute(select(schema.lost)).first() is None
        engine.dispose()


def deliver(booker: PageBooker, journal: HandJournal, number: int, limit: int) -> None:
    """Deliver some page of the journal, whether or not it is its turn."""
    places = [f"{epoch}:{seq}" for epoch in journal.epochs for seq in range(len(journal.lines[epoch]))]
    try:
        take(booker, journal.page(places[number % len(places)], limit))
    except JournalStopped:
        raise
    except IntakeRefused:
        pass


def read_to_end(engine: Engine, booker: PageBooker, journal: HandJournal) -> None:
    """Read as the intake does that has just started."""
    with engine.connect() as connection:
        row = find_target(connection, TARGET.key)
    after = None if row is None else str(row.cursor)
    while True:
        outcome = take(booker, journal.page(after, 2))
        if not outcome.more:
            return
        after = str(outcome.after)
