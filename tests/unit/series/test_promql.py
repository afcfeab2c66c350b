"""Names and values in PromQL: what is classic stays bare, everything else is quoted so that it can be read back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import ConfigError
from kwhere.series.promql import label_text, labels_text, quoted, read_name, selector_text


@pytest.mark.parametrize(
    ("metric", "labels", "text"),
    [
        ("up", {}, "up"),
        ("up", {"job": "a"}, 'up{job="a"}'),
        ("level:power:sum", {}, "level:power:sum"),
        ("dcgm.power", {}, '{__name__="dcgm.power"}'),
        ("dcgm.power", {"k8s.node": "n"}, '{__name__="dcgm.power","k8s.node"="n"}'),
        ("2up", {}, '{__name__="2up"}'),
        ('a"b`c\\', {"x": "é\n"}, '{__name__="a\\"b`c\\\\",x="é\\n"}'),
    ],
)
def test_names_outside_the_classic_set_are_quoted_case_ceems_523(
    metric: str, labels: dict[str, str], text: str
) -> None:
    assert selector_text(metric, labels) == text


def test_labels_of_by_and_on_are_quoted_too_case_ceems_523() -> None:
    assert labels_text(["cluster", "host.name"]) == 'cluster, "host.name"'
    assert label_text("a:b") == '"a:b"'


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("up", "up"),
        (" up ", "up"),
        ("`my.metric`", "my.metric"),
        ('"my.metric"', "my.metric"),
        ("'my.metric'", "my.metric"),
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', r"a\b"),
        (r"`a\b`", r"a\b"),
        ('`a"b`', 'a"b'),
        ("my.metric", "my.metric"),
    ],
)
def test_a_name_may_be_written_bare_or_in_either_kind_of_quotes_case_ceems_523(written: str, name: str) -> None:
    assert read_name(written, "place") == name


@pytest.mark.parametrize("written", ["", "  ", "``", '""', "`a", '"', "'a\"", "a\nb"])
def test_what_is_no_name_is_refused_with_its_place(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^rules\.metric: "):
        read_name(written, "rules.metric")


@given(st.text(min_size=1, max_size=40))
def test_a_string_of_promql_can_be_read_back(text: str) -> None:
    inner = quoted(text)[1:-1]

    assert re.sub(r'\\(["\\n])', lambda found: {"n": "\n"}.get(found[1], found[1]), inner) == text
    assert not re.search(r'(?<!\\)(?:\\\\)*"', inner)
    assert "\n" not in inner
