"""Exactly once: what a page adds, and what must never be added twice."""

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, func, select
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit

from kwhere.core.errors import IntakeRefused, WireError
from kwhere.core.terms import Component, Flag, Method
from kwhere.database import schema
from kwhere.database.cursors import find_epoch
from kwhere.database.flags import to_bits
from kwhere.database.grid import Grid
from kwhere.ledger.columns import ColumnPage, decode_column_page
from kwhere.ledger.rows import Entry
from kwhere.server.page_booker import JournalStopped, Outcome, PageBooker, Received
from kwhere.server.target import Target

TARGET = Target("c1", "http://127.0.0.1:9810")
LATER_NS = T0_NS + 86_400 * SECOND_NS


@pytest.fixture
def booker(engine: Engine) -> PageBooker:
    return PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)


def worked_case(journal: HandJournal, slots: int = 1) -> None:
    """energy.md §2: 10 CPUs, 100 W idle, 180 W now; A 8 CPUs busy, B 2 idle: A 160 W, B 20 W, over 60 s."""
    for _ in range(slots):
        journal.append(
            [
                unit(key("a"), figures(4_800_000_000, 4_800_000_000, cpu_ns=480 * SECOND_NS), user="alice", name="cfd"),
                unit(key("b"), figures(0, 1_200_000_000), user="bob"),
                system(figures(0, 0)),
                unallocated(figures(0, 0)),
            ]
        )


def take(booker: PageBooker, page: ColumnPage, now_ns: int = LATER_NS, target: Target = TARGET) -> Outcome:
    return booker.book(Received(target, page, now_ns))


def lifetime_uj(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.coalesce(func.sum(schema.unit_totals.c.energy_uj), 0))).scalar_one())


def bucket_uj(engine: Engine) -> int:
    columns = [schema.usage_5m.c[f"{c}_{p}_uj"] for c in Component for p in ("dynamic", "idle")]
    total = sum((func.coalesce(func.sum(column), 0) for column in columns[1:]), func.coalesce(func.sum(columns[0]), 0))
    with engine.connect() as connection:
        return int(connection.execute(select(total)).scalar_one())


def test_a_page_is_booked_to_the_microjoule(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=7)

    outcome = take(booker, journal.page())

    assert (outcome.booked, outcome.held_back) == (7, 0)
    assert lifetime_uj(engine) == 7 * 180 * 60 * 1_000_000 == journal.control_uj
    assert bucket_uj(engine) == journal.control_uj


def test_a_unit_has_its_power_cpu_time_and_owner(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=2)

    take(booker, journal.page())

    units, users, totals = schema.units, schema.users, schema.unit_totals
    query = (
        select(units, totals, users.c.name.label("user"))
        .join(users, users.c.id == units.c.user_id)
        .join(totals, totals.c.unit_id == units.c.id)
    )
    with engine.connect() as connection:
        row = connection.execute(query.where(units.c.unit == "a")).one()
    assert (row.power_uw, row.cpu_ns, row.user, row.name) == (160_000_000, 960 * SECOND_NS, "alice", "cfd")
    assert (row.energy_uj, row.started_ns, row.ended_ns) == (2 * 9_600_000_000, T0_NS, None)


def test_the_same_page_twice_counts_once(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=3)

    take(booker, journal.page())
    again = take(booker, journal.page())

    assert again.booked == 0
    assert lifetime_uj(engine) == journal.control_uj


def test_pages_that_overlap_count_their_slots_once(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=2)
    take(booker, journal.page())
    worked_case(journal, slots=2)

    outcome = take(booker, journal.page())

    assert outcome.booked == 2
    assert lifetime_uj(engine) == journal.control_uj


def test_a_following_epoch_is_opened_only_when_its_predecessor_is_read(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=3)
    first = journal.epochs[0]
    second = journal.new_epoch()
    worked_case(journal, slots=2)

    part = take(booker, journal.page(limit=2))
    with engine.connect() as connection:
        early = find_epoch(connection, second)
    rest = take(booker, journal.page(str(part.after)))
    last = take(booker, journal.page(str(rest.after)))

    assert str(part.after) == f"{first}:2"
    assert early is None
    assert (str(rest.after), last.booked) == (f"{second}:0", 2)
    assert lifetime_uj(engine) == journal.control_uj


def test_a_hole_becomes_a_lost_record(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=2)
    after = take(booker, journal.page()).after
    worked_case(journal, slots=5)
    journal.prune(journal.epochs[0], 5)

    take(booker, journal.page(str(after)))

    with engine.connect() as connection:
        lost = connection.execute(select(schema.lost)).one()
    assert (lost.first_seq, lost.last_seq) == (3, 4)
    assert (lost.start_ns, lost.end_ns) == (T0_NS + 120 * SECOND_NS, T0_NS + 240 * SECOND_NS)


def test_a_rewritten_slot_stops_the_journal(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=2)
    take(booker, journal.page())
    forged = HandJournal(epochs=list(journal.epochs))
    worked_case(forged, slots=1)
    forged.append([system(figures(5, 5))])

    with pytest.raises(JournalStopped, match="is not the one we booked"):
        take(booker, forged.page())

    worked_case(journal)
    with pytest.raises(IntakeRefused, match="is stopped"):
        take(booker, journal.page(f"{journal.epochs[0]}:2"))
    assert lifetime_uj(engine) == 2 * 180 * 60 * 1_000_000


def test_a_slot_that_does_not_follow_ours_stops_the_journal(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal)
    after = take(booker, journal.page()).after
    other = HandJournal(epochs=list(journal.epochs))
    other.append([system(figures(1, 1))])
    worked_case(other)

    with pytest.raises(JournalStopped, match="does not follow"):
        take(booker, other.page(str(after)))

    assert lifetime_uj(engine) == journal.control_uj


def test_a_journal_that_went_back_is_stopped(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=3)
    take(booker, journal.page())
    journal.lines[journal.epochs[0]].pop()

    with pytest.raises(JournalStopped, match="we hold slot 3, the agent only 2"):
        take(booker, journal.page(f"{journal.epochs[0]}:2"))


def test_two_targets_on_one_epoch_are_an_error(booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal)
    take(booker, journal.page())
    twin = Target("c1", "http://127.0.0.1:9999")

    with pytest.raises(IntakeRefused, match="served by two targets"):
        booker.book(Received(twin, journal.page(), LATER_NS), {TARGET.key, twin.key})


def test_a_node_that_moved_goes_on_under_its_new_address(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal)
    take(booker, journal.page())
    worked_case(journal)
    moved = Target("c1", "http://127.0.0.1:9999")

    outcome = booker.book(Received(moved, journal.page(), LATER_NS), {moved.key})

    assert outcome.booked == 1
    assert lifetime_uj(engine) == journal.control_uj


def test_a_clone_is_refused_while_it_overlaps(engine: Engine, booker: PageBooker) -> None:
    original, clone = HandJournal(), HandJournal(node="n2")
    worked_case(original, slots=2)
    worked_case(clone, slots=1)
    take(booker, original.page())

    with pytest.raises(IntakeRefused, match="speaks for the same time"):
        take(booker, clone.page(), target=Target("c1", "http://127.0.0.1:9811"))

    assert lifetime_uj(engine) == original.control_uj


def test_a_journal_that_begins_after_anothers_end_succeeds_it(engine: Engine, booker: PageBooker) -> None:
    first = HandJournal()
    worked_case(first, slots=2)
    take(booker, first.page())
    second = HandJournal(end_ns=first.end_ns)
    worked_case(second, slots=1)

    take(booker, second.page())

    assert lifetime_uj(engine) == first.control_uj + second.control_uj


@pytest.mark.parametrize(
    ("facts", "entries", "now_ns", "reason"),
    [
        (
            {"p_max_mw": {"cpu": 100_000}},
            [system(figures(6_000_000_001, 0))],
            LATER_NS,
            "cpu: at most 6000 J",
        ),
        ({"cpus": 2}, [system(figures(1, 0, cpu_ns=130 * SECOND_NS))], LATER_NS, "at most 124 CPU seconds"),
        ({}, [system(figures(1, 0))], T0_NS - 61 * SECOND_NS, "ends 121 s in the future"),
        ({}, [unit(key("a"), figures(1, 0), node_name="other")], LATER_NS, "foreign nodes: other"),
        ({}, [system(figures(2**58 + 1, 0))], LATER_NS, "a figure beyond reason"),
        ({}, [system(figures(1, 0, io_read_bytes=2**62))], LATER_NS, "a figure beyond reason"),
        ({}, [unit(key("x" * 513), figures(1, 0))], LATER_NS, "unit: at most 512 bytes expected, found 513"),
        ({}, [unit(key("é" * 257), figures(1, 0))], LATER_NS, "unit: at most 512 bytes expected, found 514"),
        ({}, [unit(key("a"), figures(1, 0), user="u" * 256)], LATER_NS, "user: at most 255 bytes"),
    ],
)
def test_what_cannot_be_goes_to_quarantine(
    engine: Engine,
    booker: PageBooker,
    facts: dict[str, Any],
    entries: list[Entry],
    now_ns: int,
    reason: str,
) -> None:
    journal = HandJournal(**facts)
    journal.append(entries)

    outcome = take(booker, journal.page(), now_ns)

    with engine.connect() as connection:
        held = connection.execute(select(schema.quarantine.c.reason)).scalar_one()
    assert (outcome.booked, outcome.held_back) == (0, 1)
    assert reason in held
    assert lifetime_uj(engine) == 0


def test_a_slot_that_does_not_balance_goes_to_quarantine(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    slot = journal.append([system(figures(70, 30))])
    journal = HandJournal()
    journal.append([system(figures(70, 29))], control=slot.controls)

    take(booker, journal.page())

    with engine.connect() as connection:
        held = connection.execute(select(schema.quarantine.c.reason)).scalar_one()
    assert held == "does not balance: cpu by 1 µJ"


def test_a_unit_that_the_newest_slot_no_longer_names_has_ended(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=1)
    take(booker, journal.page())
    journal.append([unit(key("a"), figures(1, 1)), system(figures(0, 0))])

    take(booker, journal.page())

    units = schema.units
    with engine.connect() as connection:
        rows = {row.unit: (row.state, row.ended_ns) for row in connection.execute(select(units))}
    assert rows == {"a": ("running", None), "b": ("ended", T0_NS + 60 * SECOND_NS)}


def test_a_unit_that_comes_back_runs_again(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal)
    journal.append([system(figures(0, 0))])
    take(booker, journal.page())
    worked_case(journal)

    take(booker, journal.page())

    with engine.connect() as connection:
        assert set(connection.execute(select(schema.units.c.state)).scalars()) == {"running"}


def test_a_name_learned_late_is_kept(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    journal.append([unit(key("a"), figures(1, 1))])
    take(booker, journal.page())
    journal.append([unit(key("a"), figures(1, 1), name="late", user="alice")])
    take(booker, journal.page())
    journal.append([unit(key("a"), figures(1, 1))])

    take(booker, journal.page())

    with engine.connect() as connection:
        row = connection.execute(select(schema.units)).one()
    assert (row.name, row.search) == ("late", "a\nlate\nalice")
    assert row.user_id is not None


def test_measured_energy_is_told_from_modelled(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    journal.append([system(figures(60, 40))], method=Method.COUNTER)
    journal.append([system(figures(10, 0))], method=Method.MODELLED)

    take(booker, journal.page())

    with engine.connect() as connection:
        row = connection.execute(select(schema.node_5m)).one()
    assert (row.measured_uj, row.cpu_system_uj, row.accounted_ns) == (100, 110, 120 * SECOND_NS)


def test_a_truncated_or_reordered_page_is_refused_whole(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal()
    worked_case(journal, slots=3)
    header, *lines, _ = journal.body().split(b"\n")
    bad = {
        "cut in a line": b"\n".join([header, *lines])[:-20],
        "cut at a line": b"\n".join([header, *lines[:2], b""]),
        "reordered": b"\n".join([header, lines[1], lines[0], lines[2], b""]),
        "doubled": b"\n".join([header, lines[0], lines[0], lines[1], lines[2], b""]),
    }

    for body in bad.values():
        with pytest.raises(WireError):
            decode_column_page(body)
    take(booker, journal.page())

    assert lifetime_uj(engine) == journal.control_uj


@pytest.mark.parametrize(
    ("offset_s", "tolerance_s", "flagged"), [(3, 2, True), (-3, 2, True), (1, 2, False), (3, 5, False)]
)
def test_slots_of_a_node_whose_clock_is_off_are_flagged(
    engine: Engine, offset_s: int, tolerance_s: float, flagged: bool
) -> None:
    journal = HandJournal()
    worked_case(journal)
    booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0, tolerance_s)

    booker.book(Received(TARGET, journal.page(), LATER_NS, offset_s * SECOND_NS))

    with engine.connect() as connection:
        offset_ns = connection.execute(select(schema.nodes.c.clock_offset_ns)).scalar_one()
        flags = connection.execute(select(schema.slots.c.flags)).scalar_one()
    assert offset_ns == offset_s * SECOND_NS
    assert bool(flags & to_bits([Flag.CLOCK])) is flagged


@pytest.mark.parametrize(
    "facts",
    [
        {"node": "n" * 256},
        {"machine_id": "m" * 129},
        {"boot_id": "b" * 65},
        {"epochs": ["e" * 65]},
        {"parent": "p" * 513},
        {"slot_seconds": 0},
        {"cpus": 2**40},
    ],
)
def test_a_header_that_cannot_be_is_refused(engine: Engine, booker: PageBooker, facts: dict[str, Any]) -> None:
    journal = HandJournal(**facts)
    journal.append([system(figures(1, 0))], seconds=60)
    (epoch,) = journal.epochs
    header = replace(journal.header(epoch, 1), next=None)
    page = ColumnPage(header, decode_column_page(_as_good(journal)).lines)

    with pytest.raises(IntakeRefused, match="header"):
        take(booker, page)

    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(schema.nodes)).scalar_one() == 0


def _as_good(journal: HandJournal) -> bytes:
    """The journal's page under a header that is sound."""
    good = HandJournal()
    good.lines[good.epochs[0]] = journal.lines[journal.epochs[0]]
    return good.body()


def test_a_figure_at_the_limit_adds_up_without_overflow(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal(cpus=2**20)
    for _ in range(8):
        journal.append([unit(key("a"), figures(1, 0, io_read_bytes=2**58))])

    take(booker, journal.page())

    with engine.connect() as connection:
        assert connection.execute(select(schema.run_totals.c.io_read_bytes)).scalar_one() == 2**61


def test_a_slot_of_half_a_century_is_held_back(engine: Engine, booker: PageBooker) -> None:
    journal = HandJournal(end_ns=0)
    journal.append([system(figures(1, 0))], seconds=T0_NS // SECOND_NS)

    outcome = take(booker, journal.page())

    with engine.connect() as connection:
        reason = connection.execute(select(schema.quarantine.c.reason)).scalar_one()
    assert (outcome.booked, reason) == (0, "is 20417 days long")
