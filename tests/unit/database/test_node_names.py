"""Which names are one host's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.database.node_names import HostBook, choose_hosts, is_same_host

NAMES = st.text("ab1.-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("name", "named", "chosen"),
    [
        ("n1", ["n1", "n1.a"], ("n1",)),
        ("N1", ["n1", "n1.a"], ("n1",)),
        ("n1", ["n1.b", "n1.a", "n10"], ("n1.a", "n1.b")),
        ("n1.a", ["n1", "n1.b"], ("n1",)),
        ("10.0.0.1", ["10"], ()),
        ("n1", [], ()),
    ],
)
def test_the_same_name_is_meant_before_others_alike(name: str, named: list[str], chosen: tuple[str, ...]) -> None:
    assert choose_hosts(name, named) == chosen


@given(NAMES, NAMES)
def test_two_names_are_one_hosts_both_ways(one: str, other: str) -> None:
    assert is_same_host(one, other) == is_same_host(other, one)
    assert is_same_host(one, one.upper())


@given(NAMES, st.lists(NAMES))
def test_a_book_finds_what_looking_at_every_name_finds(name: str, named: list[str]) -> None:
    book = HostBook([(1, host) for host in named])

    assert book.hosts(1, name) == choose_hosts(name, named)
    assert book.hosts(2, name) == ()
