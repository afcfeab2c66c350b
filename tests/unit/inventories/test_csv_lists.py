"""The site's lists as CSV: what is read, and that a wrong line is named and nothing of the file taken."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.emission_services import HandClock

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.inventory import InventoryNode, InventoryRack, Person, gecos_name, parse_language, parse_mail
from kwhere.inventories.csv_file import CsvSettings, CsvSource
from kwhere.inventories.csv_lists import parse_day_or_time, parse_nodes, parse_people, parse_racks

NODES = """\
# from the asset database
node;rack;type;power_limit_watts;meter;retired_at;cluster
n1; R07 ;gpu-a100;1200;pdu3:7;;c1
n2;R07;cpu;;;2026-05-01;

"n3";;;;;2026-05-01T12:00:00+02:00;
"""


def test_nodes_are_read_with_what_stands_there_and_nothing_else() -> None:
    assert parse_nodes(NODES, "nodes.csv") == (
        InventoryNode("n1", "c1", "R07", "gpu-a100", 1200.0, "pdu3:7"),
        InventoryNode("n2", None, "R07", "cpu", retired_at=datetime(2026, 5, 1, tzinfo=UTC)),
        InventoryNode("n3", retired_at=datetime(2026, 5, 1, 10, tzinfo=UTC)),
    )


def test_racks_and_people_are_read() -> None:
    assert parse_racks("rack,power_limit_watts\nR07,12000\n", "r", "c1") == (InventoryRack("R07", "c1", 12000.0),)
    people = "user,full_name,mail,language,opt_out\nalice,Alice A,a@x.org,fr_FR,yes\nbob,,,,\n"
    assert parse_people(people, "p") == (
        Person("alice", None, "Alice A", "a@x.org", "fr-FR", True),
        Person("bob"),
    )


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_line_ends_where_a_line_ends_case_users_39(sign: str, line_end: str) -> None:
    lines = ("rack,power_limit_watts", f"R{sign}7,12000", "R8,")

    assert len(parse_racks(line_end.join(lines), "r", "c1")) == 2


def test_an_empty_list_is_one_and_an_empty_file_is_none() -> None:
    assert parse_nodes("node,rack\n", "nodes.csv") == ()
    with pytest.raises(SourceError, match="found nothing"):
        parse_nodes("", "nodes.csv")


WRONG = {
    "no_node_column": ("name,rack\nn1,R1\n", "nodes.csv line 1: expected a column node"),
    "unknown_column": ("node,rak\nn1,R1\n", r"line 1: expected columns among node, .*found \['rak'\]"),
    "column_twice": ("node,rack,rack\nn1,R1,R2\n", "each column once"),
    "cells": ("node,rack\nn1\n", "line 2: expected 2 cells, found 1"),
    "empty_name": ("node,rack\nn1,R1\n,R2\n", "line 3: node: expected a name, found nothing"),
    "twice": ("node\nn1\nn1\n", "line 3: expected each node once, found 'n1' again"),
    "kilowatts": ("node,power_limit_watts\nn1,1.2 kW\n", "line 2: power_limit_watts: expected watts above 0"),
    "nan": ("node,power_limit_watts\nn1,nan\n", "expected watts above 0"),
    "zero": ("node,power_limit_watts\nn1,0\n", "expected watts above 0"),
    "day": ("node,retired_at\nn1,1.5.2026\n", "line 2: retired_at: expected 2026-01-31 or"),
    "no_offset": ("node,retired_at\nn1,2026-05-01T12:00:00\n", "retired_at: expected 2026-01-31 or"),
    "year": ("node,retired_at\nn1,0026-05-01\n", "between 1970 and 2100"),
    "long": (f"node\n{'n' * 256}\n", "at most 255 bytes"),
    "quote": ('node\n"n1\n', "expected CSV"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_line_is_named(kind: str) -> None:
    text, message = WRONG[kind]

    with pytest.raises(SourceError, match=message):
        parse_nodes(text, "nodes.csv")


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("mail", "alice"),
        ("mail", "a@x.org b@x.org"),
        ("mail", "a@x.org,b@x.org"),
        ("opt_out", "maybe"),
        ("language", "?"),
    ],
)
def test_a_wrong_value_of_a_person_is_named(column: str, cell: str) -> None:
    with pytest.raises(SourceError, match=f"line 2: {column}: expected"):
        parse_people(f'user;{column}\nalice;"{cell}"\n', "people.csv")


@given(st.text())
@example("node\x00\n")
@example("node,rack\n\ud800,\n")
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    for parse in (parse_nodes, parse_racks, parse_people):
        try:
            found = parse(text, "x.csv")
        except SourceError:
            continue
        assert isinstance(found, tuple)


CELLS = st.text(st.characters(whitelist_categories=["L", "N", "P", "S"]), max_size=20)


@given(st.dictionaries(CELLS.filter(bool), CELLS, max_size=5))
def test_what_is_written_is_read(racks: dict[str, str]) -> None:
    def quoted(word: str) -> str:
        return '"' + word.replace('"', '""') + '"'

    rows = "".join(f"{quoted(node)},{quoted(rack)}\n" for node, rack in racks.items())

    assert {node.name: node.rack or "" for node in parse_nodes("node,rack\n" + rows, "x")} == racks


@given(st.text())
def test_a_mail_address_is_one_alone(word: str) -> None:
    try:
        found = parse_mail(word)
    except ValueError:
        return
    assert found is None or (found.count("@") == 1 and found.isprintable() and not set(" ,;<>\n") & set(found))


@given(st.text())
def test_a_day_or_time_is_utc_or_refused(word: str) -> None:
    try:
        found = parse_day_or_time(word)
    except ValueError:
        return
    assert found is None or found.tzinfo is UTC


@pytest.mark.parametrize(
    ("word", "tag"),
    [("fr", "fr"), ("FR", "fr"), ("fr_FR.UTF-8", "fr-FR"), ("pt-br", "pt-BR"), ("de, en;q=0.8", "de"), (" ", None)],
)
def test_a_language_is_a_tag(word: str, tag: str | None) -> None:
    assert parse_language(word) == tag


@pytest.mark.parametrize(
    ("gecos", "shown"),
    [
        ("", "alice"),
        (",,,", "alice"),
        ("  ,room 7", "alice"),
        ("Alice A,room 7,,", "Alice A"),
        ("& Liddell", "Alice Liddell"),
        ("\x07", "alice"),
    ],
)
def test_an_empty_full_name_falls_back_to_the_login__case_users_43(gecos: str, shown: str) -> None:
    assert Person("alice", full_name=gecos_name(gecos, "alice")).shown_name == shown


def settings_of(folder: Path, **files: str) -> CsvSettings:
    words = {key: str(folder / name) for key, name in files.items()}
    return CsvSettings.model_validate({"source": "csv", "cluster": "c1", **words})


def test_files_that_are_not_named_are_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_bytes(b"\xef\xbb\xbfnode\nn1\n")

    found = CsvSource(settings_of(tmp_path, nodes_file="n.csv"), HandClock()).read()

    assert found.nodes == (InventoryNode("n1", "c1"),)
    assert (found.racks, found.people) == (None, None)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    source = CsvSource(settings_of(tmp_path, people_file="p.csv"), HandClock())

    with pytest.raises(Unavailable, match=r"p\.csv: cannot be read") as caught:
        source.read()
    assert caught.value.reason == "absent"

    (tmp_path / "p.csv").write_bytes(b"user\n\xff\n")
    with pytest.raises(SourceError, match="expected UTF-8"):
        source.read()


def test_some_file_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one of nodes_file"):
        settings_of(tmp_path)
