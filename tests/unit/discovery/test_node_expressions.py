"""Host lists, by hand and by noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.discovery.node_expressions import MOST_NODES, expand_nodes, expand_numbers


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("node[001-003,007]", 4, id="case_users_6_3_padding"),
        pytest.param("cpn-p28-[07-09,11-17]", 10, id="case_users_6_3_dash"),
        pytest.param("rack[0-1]_blade[0-1]", 4, id="case_users_6_3_two_brackets"),
        pytest.param("compute-a-[0-1,3,5-6]-b-[3-4,5,7-9]", 30, id="case_users_6_3_product"),
        pytest.param("nodeA,nodeB[001,003],nodeC", 4, id="case_users_6_3_commas"),
        pytest.param("c427-032,c429-002", 2, id="case_users_6_3_no_range"),
        pytest.param("host[001,003-004,006]", 4, id="case_users_6_3_scoop"),
        pytest.param("ml-16-node-[001-002,004],ml-17-node-[001-003]", 6, id="case_users_6_3_two_lists"),
        pytest.param("n1", 1, id="one"),
        pytest.param("n[1-2].cluster.example", 2, id="suffix"),
        pytest.param("", 0, id="case_users_6_3_empty"),
        pytest.param("None assigned", 0, id="case_users_6_3_none_assigned"),
        pytest.param("(null)", 0, id="case_users_6_3_null"),
        pytest.param("None", 0, id="case_users_6_3_none"),
    ],
)
def test_lists_have_so_many_names(text: str, count: int) -> None:
    names = expand_nodes(text)

    assert len(names) == len(set(names)) == count


def test_zeros_and_order_are_kept() -> None:
    assert expand_nodes("n[08-11],m1,r[1-2]b[3,01]") == (
        *("n08", "n09", "n10", "n11", "m1"),
        *("r1b3", "r1b01", "r2b3", "r2b01"),
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "host[01-10[01-10]]",
            "host[01-10",
            "host]1[",
            "n[10-1]",
            "n[a-b]",
            "n[]",
            "n[1-2",
            "n[1,]",
            "n[-1]",
            "n[1--2]",
        ),
        *("a,,b", ",a", "a,", "a b", "n[1-2]]", "n[٣]", "n[1-2\n]", "n[0x1]", "n[1.5]", "n[ 1]"),
    ],
)
def test_case_users_6_3_what_is_no_list_is_an_error(text: str) -> None:
    with pytest.raises(SourceError, match="node list"):
        expand_nodes(text)


@pytest.mark.parametrize(
    "text", ["host[000000001-999999999]", "a[1-999]b[1-999]", ",".join(f"n[1-{MOST_NODES // 2}]" for _ in range(3))]
)
def test_case_users_6_3_a_huge_list_is_refused_before_it_is_made(text: str) -> None:
    with pytest.raises(SourceError, match="more than"):
        expand_nodes(text)


def test_case_users_30_a_range_of_jobs() -> None:
    assert expand_numbers("100-105,107") == (*range(100, 106), 107)


@given(st.text(alphabet="n019-[],a ") | st.text())
def test_noise_is_names_or_an_error(text: str) -> None:
    try:
        names = expand_nodes(text)
    except SourceError:
        return
    assert all(name and not set(name) & set("[], \n") for name in names)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)), min_size=1, max_size=5), st.integers(1, 6))
def test_what_is_written_is_read(ranges: list[tuple[int, int]], width: int) -> None:
    inner = ",".join(f"{first:0{width}d}-{first + more}" for first, more in ranges)

    expected = [f"n{number:0{width}d}" for first, more in ranges for number in range(first, first + more + 1)]
    assert expand_nodes(f"n[{inner}]") == tuple(expected)
