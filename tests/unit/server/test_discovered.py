"""Targets of discovery: what is read, and that nothing in a file can do more than be refused."""

import json
import socket
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.server.discovered import MAX_FILE_BYTES, Discovered, look_up, parse_groups, parse_json, read_file

GROUPS = [
    {"targets": ["n1:9810", "n2:9810"], "labels": {"node": "n1", "rack": "7"}},
    {"targets": ["https://n3.example:9810"]},
    {"targets": []},
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
group_like = st.fixed_dictionaries(
    {},
    optional={
        "targets": st.lists(st.text(max_size=12) | json_values, max_size=3) | json_values,
        "labels": st.dictionaries(st.text(max_size=5), st.text(max_size=5) | json_values, max_size=3) | json_values,
        "extra": json_values,
    },
)


def test_groups_are_read_in_order_with_their_labels() -> None:
    found = parse_groups(GROUPS, "here")

    assert [each.address for each in found] == ["n1:9810", "n2:9810", "https://n3.example:9810"]
    assert found[1] == Discovered("n2:9810", (("node", "n1"), ("rack", "7")))
    assert (found[1].label("rack"), found[2].label("rack")) == ("7", None)


def test_labels_may_be_empty() -> None:
    assert parse_groups([{"targets": ["a:1"], "labels": None}, {}], "here") == [Discovered("a:1")]


@pytest.mark.parametrize("name", ["targets.json", "targets.yml", "targets.yaml"])
def test_a_file_is_read_by_its_ending(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(GROUPS) if name.endswith("json") else yaml.safe_dump(GROUPS))

    assert read_file(path) == parse_groups(GROUPS, "here")


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "here: expected a list of target groups, found dict"),
        (None, "found NoneType"),
        (["n1:9810"], r"here\[0\]: expected an object"),
        ([{"targets": ["a"]}, {"target": ["b"]}], r"here\[1\]: expected an object of targets and labels"),
        ([{"targets": "n1:9810"}], r"here\[0\]\.targets: expected a list of texts"),
        ([{"targets": [1]}], r"targets: expected a list of texts"),
        ([{"targets": [""]}], r"targets: expected a list of texts"),
        ([{"targets": ["a"], "labels": {"x": 1}}], r"here\[0\]\.labels: expected texts by name"),
        ([{"targets": ["a"], "labels": ["x"]}], r"here\[0\]\.labels: expected texts by name"),
    ],
)
def test_what_is_not_the_format_is_named(tree: object, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        parse_groups(tree, "here")


@given(json_values | st.lists(group_like, max_size=4))
def test_any_tree_is_read_or_refused(tree: object) -> None:
    try:
        found = parse_groups(tree, "here")
    except SourceError:
        return
    assert all(each.address for each in found)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_groups(parse_json(data, "here"), "here")
    except SourceError:
        return


@pytest.mark.parametrize("ending", ["json", "yml"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"{" * 5_000,
        b'[{"targets": ["a:1"]',
        b"!!python/object/apply:os.system ['true']",
        b"- !!timestamp nonsense",
        b"- !!int x",
        b"? [a]\n",
        b"? [a]\n: {b: [c]}",
        b"&a [*a]",
    ],
)
def test_a_broken_file_is_an_error_and_no_more(tmp_path: Path, ending: str, data: bytes) -> None:
    path = tmp_path / f"targets.{ending}"
    path.write_bytes(data)

    with pytest.raises(SourceError, match="targets"):
        read_file(path)


def test_aliases_cannot_make_a_small_file_large(tmp_path: Path) -> None:
    path = tmp_path / "targets.yml"
    targets = ", ".join(f"n{number}:1" for number in range(1000))
    path.write_text(f"- &a {{targets: [{targets}]}}\n" + "- *a\n" * 200)

    with pytest.raises(SourceError, match="expected at most 100000 targets"):
        read_file(path)


def test_a_file_that_is_not_there_or_too_large_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    with pytest.raises(Unavailable, match=r"targets\.json: cannot be read"):
        read_file(path)
    with path.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(SourceError, match="expected at most"):
        read_file(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(Unavailable):
        read_file(path)


def test_every_address_of_a_name_is_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 9810)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 9810)),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 9810, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 9810)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **more: answers)

    assert [each.address for each in look_up("agents.example:9810")] == [
        "10.0.0.1:9810",
        "10.0.0.2:9810",
        "[2001:db8::1]:9810",
    ]


@pytest.mark.parametrize("name", ["agents", ":9810", "agents:", "agents:99999", "agents:٣", "agents:-1"])
def test_a_name_needs_a_port(name: str) -> None:
    with pytest.raises(SourceError, match="expected NAME:PORT"):
        look_up(name)


@pytest.mark.parametrize("name", ["a..b:1", f"{'x' * 70}.example:1", "\ud800.example:1"])
def test_a_name_that_cannot_be_is_not_found(name: str) -> None:
    with pytest.raises(Unavailable):
        look_up(name)
