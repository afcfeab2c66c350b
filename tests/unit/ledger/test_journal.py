import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.ledger.journals import FACTS, IDENTITY, StandingClock, append, append_at, cause_of, open_journal, seqs
from tests.unit.ledger.slots import slot

from kwhere.core.errors import JournalError, NotFound, WireError
from kwhere.ledger.decode import decode_page
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.ledger.pages import Cursor
from kwhere.ledger.settings import JournalSettings
from kwhere.ledger.wire import digest, encode_page, parse_cursor


def read_all(journal: Journal, limit: int = 2) -> list[tuple[str, int]]:
    """Follow `next` from the oldest slot to the newest, as a server does."""
    found: list[tuple[str, int]] = []
    held: str | None = None
    after: Cursor | None = None
    while True:
        page = journal.read(after, limit)
        decoded = decode_page(encode_page(page.header, page.lines))
        for line in decoded.lines:
            assert not found or line.prev == held
            held = line.digest
            found.append((page.header.epoch, line.slot.seq))
        if page.header.next is None:
            return found
        after = parse_cursor(page.header.next)


def test_new_journal_holds_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)

    page = journal.read(None, 10)

    assert page.lines == ()
    assert (page.header.oldest, page.header.newest, page.header.next) == (None, None, None)
    assert page.header.epochs == (journal.epoch,)
    assert journal.last_state() is None
    assert journal.next_seq == 1


def test_slot_is_served_as_it_was_written(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)

    append(journal, 2)

    page = journal.read(None, 10)
    decoded = decode_page(encode_page(page.header, page.lines))
    assert [line.slot for line in decoded.lines] == [slot(1), slot(2)]
    assert [line.prev for line in decoded.lines] == [None, digest(page.lines[0])]
    assert page.header.next == f"{journal.epoch}:2"


def test_page_starts_after_the_cursor_and_ends_at_the_limit(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 5)

    page = journal.read(Cursor(journal.epoch, 1), 2)

    assert [json.loads(line)["seq"] for line in page.lines] == [2, 3]
    assert page.header.next == f"{journal.epoch}:3"
    assert (page.header.oldest, page.header.newest) == (1, 5)


def test_page_ends_at_its_size_but_holds_one_slot(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 3)

    assert len(journal.read(None, 10, max_bytes=1).lines) == 1
    assert len(journal.read(None, 10, max_bytes=2 * len(journal.read(None, 1).lines[0]) + 200).lines) == 2


def test_page_of_no_slots_is_a_header_alone(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 2)

    page = journal.read(None, 0)

    assert page.lines == ()
    assert (page.header.newest, page.header.next) == (2, None)


def test_page_at_the_end_is_empty(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 2)

    page = journal.read(Cursor(journal.epoch, 2), 10)

    assert page.lines == ()
    assert page.header.next is None
    assert page.header.newest == 2


def test_each_start_opens_an_epoch_that_continues_the_chain(tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    append(first, 3)
    first.close()
    second = open_journal(tmp_path, facts=replace(FACTS, boot_id="b2", idle_policy="usage"))
    append(second, 2)

    assert read_all(second) == [
        (first.epoch, 1),
        (first.epoch, 2),
        (first.epoch, 3),
        (second.epoch, 1),
        (second.epoch, 2),
    ]
    assert second.read(None, 10).header.next == f"{second.epoch}:0"
    assert second.read(Cursor(first.epoch, 3), 10).header.next == f"{second.epoch}:0"
    assert second.read(None, 10).header.epochs == (first.epoch, second.epoch)
    assert second.read(None, 10).header.boot_id == "b1"
    assert second.read(Cursor(second.epoch, 0), 10).header.boot_id == "b2"


def test_epoch_is_seen_with_its_first_slot(tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    append(first)
    first.close()
    second = open_journal(tmp_path)

    assert second.read(None, 10).header.epochs == (first.epoch,)
    assert second.read(Cursor(first.epoch, 1), 10).header.next is None


def test_start_without_a_slot_leaves_no_trace(tmp_path: Path) -> None:
    for _ in range(3):
        open_journal(tmp_path).close()
    journal = open_journal(tmp_path)
    append(journal)

    assert journal.read(None, 10).header.epochs == (journal.epoch,)


def test_saved_state_comes_back_after_a_restart(tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    append(first, 2)
    first.close()

    assert open_journal(tmp_path).last_state() == '{"seq": 2}'


def test_cursor_of_an_unknown_epoch_is_not_found(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    unknown = Cursor("00000000-0000-0000-0000-000000000000", 0)

    with pytest.raises(NotFound):
        journal.read(unknown, 1)

    append(journal)
    with pytest.raises(NotFound, match=f"the oldest is {journal.epoch}"):
        journal.read(unknown, 1)


def test_cursor_past_the_newest_slot_is_refused(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)

    assert journal.read(Cursor(journal.epoch, 0), 1).lines == ()
    with pytest.raises(WireError, match="past the newest"):
        journal.read(Cursor(journal.epoch, 1), 1)

    append(journal)
    with pytest.raises(WireError, match="past the newest"):
        journal.read(Cursor(journal.epoch, 2), 1)


def test_slot_out_of_sequence_is_refused(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)

    with pytest.raises(JournalError, match="expected slot 1, found 2"):
        journal.append(slot(2), "{}")


@pytest.mark.parametrize("value", [-1, 2**63, 1.5, True], ids=["negative", "huge", "float", "bool"])
def test_number_that_cannot_be_written_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: int
) -> None:
    journal = open_journal(tmp_path)
    good = slot(1)
    bad = replace(good.entries[0], figures=replace(good.entries[0].figures, io_read_bytes=value))

    journal.append(replace(good, entries=(bad, *good.entries[1:]), node_busy_ns=value), "{}")

    page = journal.read(None, 1)
    [line] = decode_page(encode_page(page.header, page.lines)).lines
    assert line.slot == replace(good, node_busy_ns=None)
    assert "slurm 4242@1795975900 io_read_bytes" in capsys.readouterr().out


def test_energy_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    good = slot(1)
    bad = replace(good, controls=(replace(good.controls[0], energy_uj=-5),))

    with pytest.raises(JournalError, match="control cpu uj: expected an integer") as refused:
        journal.append(bad, "{}")

    assert cause_of(refused.value) == "unwritable"
    append(journal)
    assert seqs(journal) == [1]


def test_second_agent_on_one_journal_is_refused(tmp_path: Path) -> None:
    first = open_journal(tmp_path)

    with pytest.raises(JournalError, match=f"another agent, process {os.getpid()}") as refused:
        open_journal(tmp_path)

    assert cause_of(refused.value) == "locked"
    first.close()
    open_journal(tmp_path)


def test_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "state"
    append(open_journal(directory))

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, machine_id="m2"),
        replace(IDENTITY, product_uuid="p2"),
        replace(IDENTITY, node="c2"),
    ],
    ids=["machine", "product", "node"],
)
def test_journal_of_another_machine_is_set_aside(tmp_path: Path, other: JournalIdentity) -> None:
    first = open_journal(tmp_path)
    append(first, 2)
    first.close()

    cloned = open_journal(tmp_path, identity=other)
    append(cloned)

    assert read_all(cloned) == [(cloned.epoch, 1)]
    assert json.loads(cloned.read(None, 1).lines[0])["prev"] is None
    assert cloned.last_state() is None
    [aside] = [path for path in tmp_path.iterdir() if ".foreign-" in path.name]
    kept = tmp_path / "kept"
    kept.mkdir()
    aside.rename(kept / "journal.sqlite")
    assert read_all(open_journal(kept)) == [(first.epoch, 1), (first.epoch, 2)]


def test_product_uuid_that_only_root_may_read_does_not_make_a_machine_foreign(tmp_path: Path) -> None:
    for product_uuid in ("p1", None, "p1"):
        journal = open_journal(tmp_path, identity=replace(IDENTITY, product_uuid=product_uuid))
        append(journal)
        journal.close()

    assert len(read_all(open_journal(tmp_path))) == 3


def test_product_uuid_is_learned_later(tmp_path: Path) -> None:
    for product_uuid in (None, "p1"):
        journal = open_journal(tmp_path, identity=replace(IDENTITY, product_uuid=product_uuid))
        append(journal)
        journal.close()

    assert read_all(open_journal(tmp_path, identity=replace(IDENTITY, product_uuid="p2"))) == []


def test_facts_may_change_within_an_epoch(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal)

    journal.set_facts(replace(FACTS, node_names=("c1", "c2"), columns=("x",)))
    append(journal)

    header = journal.read(None, 10).header
    assert header.node_names == ("c1", "c2")
    assert header.columns == FACTS.columns


def test_header_names_every_node_that_rows_speak_of(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal)
    entry, *others = slot(2).entries

    journal.append(replace(slot(2), entries=(replace(entry, node_name="c7"), *others)), "{}")

    assert journal.read(None, 10).header.node_names == ("c1", "c7")
    journal.close()
    journal = open_journal(tmp_path)
    append(journal)
    assert journal.read(None, 10).header.node_names == ("c1", "c7"), "an old epoch keeps its names"


def test_old_slots_are_removed(tmp_path: Path) -> None:
    clock = StandingClock()
    journal = open_journal(tmp_path, settings=JournalSettings(max_days=1), clock=clock)
    for minutes in (0, 1, 2, 1441, 1442):
        append_at(journal, clock, minutes)

    # the minutes 0 and 1 ended 1442 and 1441 minutes before the last slot's end; a day has 1440
    assert seqs(journal) == [3, 4, 5]
    assert journal.stats().slots_held == 3


def test_clock_that_steps_ahead_does_not_empty_the_journal(tmp_path: Path) -> None:
    clock = StandingClock()
    journal = open_journal(tmp_path, clock=clock)
    for minutes in range(50):
        append_at(journal, clock, minutes)

    append_at(journal, clock, 60 * 24 * 365)
    append_at(journal, clock, 51)

    assert seqs(journal) == list(range(11, 53))


def test_newest_slot_stays_however_old(tmp_path: Path) -> None:
    clock = StandingClock()
    journal = open_journal(tmp_path, settings=JournalSettings(max_days=1), clock=clock)
    clock.now_ns += 10 * 86_400 * 10**9

    append(journal, 2)

    assert seqs(journal) == [2]


def test_journal_stays_within_its_size(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, settings=JournalSettings(max_mebibytes=1))
    name = os.urandom(40_000).hex()
    for seq in range(1, 41):
        entry = replace(slot(seq).entries[0], name=name)
        journal.append(replace(slot(seq), entries=(entry,)), "{}")

    stats = journal.stats()
    assert stats.bytes_held <= 1024 * 1024
    assert seqs(journal) == list(range(41 - stats.slots_held, 41))
    assert 10 <= stats.slots_held < 40
    journal.close()
    assert (tmp_path / "journal.sqlite").stat().st_size <= 1.2 * 1024 * 1024


def test_removed_slots_that_nobody_pulled_are_counted_as_lost(tmp_path: Path) -> None:
    clock = StandingClock()
    journal = open_journal(tmp_path, settings=JournalSettings(max_days=1), clock=clock)
    for minutes in range(4):
        append_at(journal, clock, minutes)
    journal.pulled(Cursor(journal.epoch, 3))
    journal.pulled(Cursor(journal.epoch, 2))
    journal.pulled(Cursor("00000000-0000-0000-0000-000000000000", 9))

    append_at(journal, clock, 3000)

    assert seqs(journal) == [5]
    assert journal.stats().lost_total == 1


def test_what_was_pulled_is_remembered(tmp_path: Path) -> None:
    clock = StandingClock()
    first = open_journal(tmp_path, clock=clock)
    append_at(first, clock, 0)
    first.pulled(Cursor(first.epoch, 1))
    append_at(first, clock, 1)
    first.close()

    second = open_journal(tmp_path, settings=JournalSettings(max_days=1), clock=clock)
    append_at(second, clock, 3000)

    assert second.stats().lost_total == 1
    assert second.read(None, 10).header.epochs == (second.epoch,)


def test_stats_count_since_the_start(tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    append(first, 2)
    first.close()
    second = open_journal(tmp_path)
    append(second)

    stats = second.stats()

    assert (stats.slots_total, stats.slots_held, stats.lost_total, stats.errors_total) == (1, 3, 0, {})
    assert stats.bytes_held > 0


def test_another_parent_begins_another_epoch(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    first = journal.epoch
    assert journal.set_parent("hv1/vm")
    assert not journal.set_parent("hv1/vm")
    assert journal.epoch == first  # nothing was written in it yet
    append(journal, 2)

    assert journal.set_parent("hv2/vm")
    second = journal.epoch
    append(journal, 1)

    assert read_all(journal) == [(first, 1), (first, 2), (second, 1)]
    assert journal.read(None, 10).header.parent == "hv1/vm"
    assert journal.read(Cursor(second, 0), 10).header.parent == "hv2/vm"


def test_an_epoch_without_a_slot_leaves_the_readers_where_they_are(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 2)
    before = journal.read(None, 10)

    journal.set_parent("hv1/vm")

    assert journal.read(None, 10) == before
    assert journal.next_seq == 1


def test_a_parents_epoch_outlives_the_process(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.set_parent("hv1/vm")
    append(journal, 1)
    journal.set_parent("hv2/vm")
    append(journal, 1)
    held = read_all(journal)
    journal.close()

    again = open_journal(tmp_path)
    append(again, 1)

    assert read_all(again) == [*held, (again.epoch, 1)]
