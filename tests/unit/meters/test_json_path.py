"""Small paths into JSON documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.meters.json_path import parse_path

PDU: Any = {
    "outlets": [
        {"id": 1, "power": 150.5, "labels": {"psu": "left"}, "on": True},
        {"id": 2, "power": 149.5, "labels": {"psu": "right"}, "on": False},
        {"id": 10, "power": 7, "labels": {"psu": "left"}, "on": True},
    ],
    "total": {"W": 307},
}
SERIES: Any = [
    {"timestamp": "a", "metric_id": "power", "value": 1},
    {"timestamp": "b", "metric_id": "heat", "value": 2},
    {"timestamp": "c", "metric_id": "power", "value": 3},
]


@pytest.mark.parametrize(
    ("document", "path", "found"),
    [
        (PDU, "total.W", [307]),
        (PDU, "outlets[0].power", [150.5]),
        (PDU, "outlets[-1].power", [7]),
        (PDU, "outlets[id=1].power", [150.5]),  # and not 10
        (PDU, "outlets[labels.psu=left].power", [150.5, 7]),
        (PDU, "outlets[labels.psu=left][-1].power", [7]),
        (PDU, "outlets[labels.psu=left][id=1].power", [150.5]),
        (PDU, "outlets[on=false].id", [2]),
        (SERIES, "[metric_id=power].value", [1, 3]),
        (SERIES, "[metric_id=power][0].value", [1]),
        ({"r": [{"m": {"o": 7}, "value": [1, "x"]}]}, "r[m.o=7].value[1]", ["x"]),
        ([{"a": [{"k": 1}, {"k": 2}]}, {"a": [{"k": 2, "v": 5}]}], "[0].a[k=2].k", [2]),
        (SERIES, "[1].value", [2]),
        ([[1, [2, 3]]], "[0][1][0]", [2]),
        (42, "", [42]),
        (PDU, "outlets[7]", []),
        (PDU, "outlets[-4]", []),
        (PDU, "outlets[id=3].power", []),
        (PDU, "outlets.power", []),
        (PDU, "total[0]", []),
        (PDU, "total.W.x", []),
        ({"a": "text"}, "a[0]", []),
        (None, "a", []),
    ],
)
def test_a_path_finds(document: Any, path: str, found: list[Any]) -> None:
    assert parse_path(path).find(document) == found


@pytest.mark.parametrize("text", [".a", "a..b", "a.", "a[", "a[b]", "a[=1]", "a]", "a=1", "[1]b", "[9999999]"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="expected keys"):
        parse_path(text)


@given(text=st.text(alphabet="ab.[]=-10 ", max_size=12), document=st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=3),
    max_leaves=10,
))  # fmt: skip
def test_any_path_into_any_document_finds_a_list(text: str, document: Any) -> None:
    try:
        path = parse_path(text)
    except ValueError:
        return
    assert isinstance(path.find(document), list)
