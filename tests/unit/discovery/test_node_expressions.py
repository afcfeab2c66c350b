"""Host lists, by hand and by noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.discovery.node_expressions import MOST_NODES, count_numbers, expand_nodes, expand_numbers


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
        pytest.param("foo003,foo0[10-20],foo[103-104],foo[10,12-14],foo-m11-16", 19, id="case_users_6_3_pavilion"),
        pytest.param("x1000c0s[0-3]b[0-1]n[0-1]", 16, id="case_users_6_3_three_brackets"),
        pytest.param("tux[1-3]-ib", 3, id="case_users_6_3_text_behind"),
        pytest.param("n[0-10/2]", 6, id="case_users_6_3_step"),
        pytest.param("n[0-10/3,20]", 5, id="case_users_6_3_step_that_does_not_fit"),
        pytest.param("c[2-6,6]", 5, id="case_users_6_3_twice_within_brackets"),
        pytest.param("n1,n[1-2],n2", 2, id="case_users_6_3_twice"),
        pytest.param("n[1,01]", 2, id="case_users_6_3_other_zeros_are_another_name"),
        pytest.param("n1, n[2-3]", 3, id="case_users_6_3_blank"),
        pytest.param("n1", 1, id="one"),
        pytest.param("n[1-2].cluster.example", 2, id="suffix"),
        pytest.param("", 0, id="case_users_6_3_empty"),
        pytest.param("None assigned", 0, id="case_users_6_3_none_assigned"),
        pytest.param("(null)", 0, id="case_users_6_3_null"),
        pytest.param("None", 0, id="case_users_6_3_none"),
        *(pytest.param(word, 0, id=f"case_users_6_3_{word}") for word in ("null", "(none)", "N/A", "Unknown")),
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
        *("n[0-10/0]", "n[0-10:2]", "n[1/2]", "n[0-10/]", "n{1,2}", "n(1-3)", "n1,(null)", "n[1-2](x2)", "-", "[1"),
        *("n\0", "\ufeffn1", "n\u202e1", "n1;m1", "n*", "n'1", "n$(id)", "n/1", "<n1>"),
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


def test_case_users_29_as_many_tasks_as_an_array_may_have_are_counted_and_not_made() -> None:
    assert count_numbers("0-4000000") == 4_000_001
    assert count_numbers("0-15:4,20") == 5
    assert count_numbers(f"1-{10**18 - 1}") == 10**18 - 1


@pytest.mark.parametrize("text", ["3-1", "", "1,", "0-10/2", "1:2", "0-3:0", "1-100001", "1 - 3", "n[1-2]"])
def test_what_are_no_numbers_is_told_as_such(text: str) -> None:
    with pytest.raises(SourceError, match=r"^numbers .* expected such as 9-11"):
        expand_numbers(text)


@given(st.text(alphabet="n019-[],a/ ") | st.text())
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
    assert expand_nodes(f"n[{inner}]") == tuple(dict.fromkeys(expected))
