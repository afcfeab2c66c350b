import json
import shutil
from pathlib import Path

import pytest
from tests.unit.ledger.journals import append, open_journal
from tests.unit.ledger.slots import slot

from kwhere.ledger.closure import residuals
from kwhere.ledger.decode import decode_page
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import encode_page, parse_cursor

RELEASES = sorted((Path(__file__).parents[2] / "fixtures" / "journals").glob("*/"))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_page_of_a_release_is_read(release: Path) -> None:
    page = decode_page((release / "page.ndjson").read_bytes())

    assert [line.slot.seq for line in page.lines] == [1, 2, 3]
    assert [line.slot.controls for line in page.lines] == [slot(n).controls for n in (1, 2, 3)]
    assert all(residuals(line.slot) == {} for line in page.lines)
    assert page.header.next == f"{page.header.epochs[1]}:0"


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_journal_of_a_release_is_continued(release: Path, tmp_path: Path) -> None:
    shutil.copy(release / "journal.sqlite", tmp_path)
    journal = open_journal(tmp_path)
    append(journal, 2)

    first = journal.read(None, 10)
    second = journal.read(parse_cursor(str(first.header.next)), 10)
    third = journal.read(Cursor(journal.epoch, 0), 10)

    assert journal.last_state() == '{"seq": 2}'
    assert [len(page.lines) for page in (first, second, third)] == [3, 2, 2]
    assert first.header.epochs[2] == journal.epoch
    prev = json.loads(third.lines[0])["prev"]
    assert prev == decode_page(encode_page(second.header, second.lines)).lines[-1].digest
    assert [path.name for path in tmp_path.iterdir() if "corrupt" in path.name or "foreign" in path.name] == []
