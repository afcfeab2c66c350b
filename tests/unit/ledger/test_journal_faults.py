import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.unit.ledger.journals import append, cause_of, open_journal, seqs
from tests.unit.ledger.slots import slot

from kwhere.core.errors import JournalError, NotFound
from kwhere.ledger.decode import decode_page
from kwhere.ledger.journal_store import Position
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import encode_page, parse_cursor


def filled(directory: Path, count: int = 30) -> str:
    journal = open_journal(directory)
    append(journal, count)
    journal.close()
    return journal.epoch


def asides(directory: Path, cause: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if f".{cause}-" in path.name)


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"not a database" * 1000),
    "header": lambda path: overwrite(path, 0, b"\xff" * 100),
    "pages": lambda path: overwrite(path, 4096, b"\xa5" * (path.stat().st_size - 4096)),
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 3 * 4096),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_journal_is_set_aside_and_a_new_one_begins(tmp_path: Path, damage: str) -> None:
    filled(tmp_path)
    DAMAGES[damage](tmp_path / "journal.sqlite")
    damaged = (tmp_path / "journal.sqlite").read_bytes()

    journal = open_journal(tmp_path)
    append(journal, 2)

    assert seqs(journal) == [1, 2]
    assert json.loads(journal.read(None, 1).lines[0])["prev"] is None
    assert [path.read_bytes() for path in asides(tmp_path, "corrupt")] == [damaged]


def test_several_damaged_journals_are_all_kept(tmp_path: Path) -> None:
    for _ in range(3):
        filled(tmp_path, 1)
        (tmp_path / "journal.sqlite").write_bytes(b"x" * 5000)
        open_journal(tmp_path).close()

    assert len(asides(tmp_path, "corrupt")) == 3


def test_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").touch()

    append(open_journal(tmp_path))

    assert asides(tmp_path, "corrupt") == []


def test_journal_of_a_later_version_is_set_aside(tmp_path: Path) -> None:
    filled(tmp_path)
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()

    append(open_journal(tmp_path))

    assert len(asides(tmp_path, "foreign")) == 1


def test_another_program_s_database_is_set_aside(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("CREATE TABLE t (x)")
    db.close()

    append(open_journal(tmp_path))

    assert len(asides(tmp_path, "foreign")) == 1


def test_line_that_is_not_what_was_written_is_not_served(tmp_path: Path) -> None:
    epoch = filled(tmp_path)
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("UPDATE slots SET line = (SELECT line FROM slots WHERE seq = 1) WHERE seq = 2")
    db.close()
    journal = open_journal(tmp_path)

    with pytest.raises(JournalError, match="slot 2 of epoch 1: is not what was written") as refused:
        journal.read(Cursor(epoch, 0), 10)

    assert cause_of(refused.value) == "corrupt"
    assert journal.stats().errors_total == {"corrupt": 1}


def test_damage_found_by_a_reader_sets_the_journal_aside_at_the_next_slot(tmp_path: Path) -> None:
    epoch = filled(tmp_path)
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("UPDATE slots SET line = x'00' WHERE seq = 2")
    db.close()
    journal = open_journal(tmp_path)
    begun = journal.epoch
    with pytest.raises(JournalError):
        journal.read(None, 10)

    append(journal)
    append(journal)

    assert journal.epoch != begun
    assert seqs(journal) == [1, 2]
    assert len(asides(tmp_path, "corrupt")) >= 1
    with pytest.raises(NotFound):
        journal.read(Cursor(epoch, 1), 1)


def test_journal_damaged_while_it_is_written_is_replaced(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 300)
    begun = journal.epoch
    journal.read(None, 1)
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    overwrite(tmp_path / "journal.sqlite", 0, b"\xa5" * (tmp_path / "journal.sqlite").stat().st_size)

    append(journal, 3)

    assert seqs(journal)[-1] in (3, 303)
    if journal.epoch != begun:
        assert seqs(journal) == [1, 2, 3]


def test_journal_that_was_removed_begins_anew(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 3)
    seqs(journal)
    begun = journal.epoch
    for path in tmp_path.glob("journal.sqlite*"):
        path.unlink()

    append(journal, 2)

    assert journal.epoch != begun
    assert seqs(journal) == [1, 2]


def test_full_disk_keeps_the_slot_for_later(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 2)
    store = journal._store
    assert store is not None
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(JournalError) as refused:
        append(journal, 100)

    assert cause_of(refused.value) == "full"
    held = seqs(journal)
    assert journal.next_seq == held[-1] + 1
    store._db.execute("PRAGMA max_page_count = 1000000")
    append(journal)
    assert seqs(journal) == [*held, held[-1] + 1]
    assert journal.stats().errors_total == {"full": 1}


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB in memory, mounted as root."""
    point = tmp_path / "disk"
    point.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs the service root: mounting")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(point)], check=False)
    if done.returncode != 0:
        pytest.skip("needs the service mounts: not permitted here")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def test_disk_that_fills_up_and_is_cleared_loses_nothing(tiny_disk: Path) -> None:
    journal = open_journal(tiny_disk)
    append(journal, 2)
    ballast = fill(tiny_disk)

    with pytest.raises(JournalError) as refused:
        append(journal, 200)
    held = journal.next_seq - 1
    ballast.unlink()
    append(journal, 2)

    assert cause_of(refused.value) in ("full", "io")
    assert seqs(journal) == list(range(1, held + 3))
    journal.close()


def test_disk_that_is_full_at_the_start_is_used_when_it_has_room(tiny_disk: Path) -> None:
    ballast = fill(tiny_disk)
    journal = open_journal(tiny_disk / "state")

    with pytest.raises(JournalError):
        append(journal)
    ballast.unlink()
    append(journal, 2)

    assert seqs(journal) == [1, 2]
    journal.close()


def fill(point: Path) -> Path:
    """Fill a file system to its last page; return the file that does."""
    ballast = point / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)) == 4096:
            pass
    return ballast


def remount(point: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(point)], check=True)


def test_read_only_disk_is_used_when_it_is_writable_again(tiny_disk: Path) -> None:
    remount(tiny_disk, "ro")
    journal = open_journal(tiny_disk)
    with pytest.raises(JournalError) as refused:
        append(journal)
    with pytest.raises(JournalError):
        journal.read(None, 1)
    remount(tiny_disk, "rw")
    append(journal, 2)

    assert cause_of(refused.value) == "read_only"
    assert seqs(journal) == [1, 2]
    journal.close()


def test_state_directory_that_is_a_file_does_not_stop_the_agent(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    journal = open_journal(tmp_path / "state")

    with pytest.raises(JournalError) as refused:
        append(journal)

    assert cause_of(refused.value) == "path"


def test_slot_that_was_written_but_never_acknowledged_is_replaced(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 2)
    store = journal._store
    assert store is not None
    ghost = json.dumps({"seq": 3}).encode()
    with store.transaction():
        store.write_slot(Position(1, 3), 1, ghost, "ghost")

    assert seqs(journal) == [1, 2]
    append(journal)
    page = journal.read(None, 10)
    assert [line.slot for line in decode_page(encode_page(page.header, page.lines)).lines] == [
        slot(1),
        slot(2),
        slot(3),
    ]


CHILD = """
import json, sys
from pathlib import Path
from tests.unit.ledger.journals import open_journal
from tests.unit.ledger.slots import slot

journal = open_journal(Path(sys.argv[1]))
number, total = json.loads(journal.last_state() or "[0, 0]")
while True:
    number += 1
    booked = slot(journal.next_seq, dynamic_uj=number)
    total += number
    journal.append(booked, json.dumps([number, total]))
    print(journal.epoch, booked.seq, number, total, flush=True)
"""


def acknowledged_before_death(directory: Path, lines: int) -> list[list[str]]:
    """Run a writer, kill it once it has acknowledged so many slots; return all it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout is not None
    read = [child.stdout.readline() for _ in range(lines)]
    child.kill()
    read += child.stdout.read().splitlines(keepends=True)
    child.wait()
    child.stdout.close()
    return [line.split() for line in read if line.endswith("\n")]


@pytest.mark.slow
def test_writer_killed_twenty_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    random = Random(20)
    acknowledged: list[list[str]] = []
    for _ in range(20):
        acknowledged += acknowledged_before_death(tmp_path, random.randint(0, 25))

    journal = open_journal(tmp_path)
    booked, held, after = {}, None, None
    while True:
        page = journal.read(after, 7)
        for line in decode_page(encode_page(page.header, page.lines)).lines:
            assert line.prev == held
            held = line.digest
            booked[(page.header.epoch, line.slot.seq)] = line.slot.controls[0].energy_uj - 30
        if page.header.next is None:
            break
        after = parse_cursor(page.header.next)

    for epoch, seq, number, _ in acknowledged:
        assert booked[(epoch, int(seq))] == int(number)
    number, total = json.loads(journal.last_state() or "[0, 0]")
    assert sorted(booked.values()) == list(range(1, number + 1))
    assert sum(booked.values()) == total
    assert len(booked) <= len(acknowledged) + 20
