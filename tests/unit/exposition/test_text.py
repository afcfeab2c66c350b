import math
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.exposition.text import Format, Renderer

ENERGY = MetricSpec("kwhere_unit_energy_joules_total", Kind.COUNTER, "Energy.", ("unit", "part"))
LOAD = MetricSpec("kwhere_node_load1", Kind.GAUGE, 'Load\nover one \\ minute, "short".')
BUILD = MetricSpec("kwhere_build_info", Kind.INFO, "Version.", ("version", "revision"))
PAGE = [
    Sample(ENERGY, ("42", "idle"), 1.5, 1795975931.25),
    Sample(LOAD, (), 3),
    Sample(BUILD, ("0.1.0", ""), 1),
    Sample(ENERGY, ("42", "dynamic"), 10**15, 1795975931.25),
]


def render(samples: list[Sample], text_format: Format = Format.TEXT) -> str:
    return Renderer().render(samples, text_format).decode()


def test_text_page_is_what_prometheus_reads() -> None:
    assert render(PAGE) == (
        "# HELP kwhere_unit_energy_joules_total Energy.\n"
        "# TYPE kwhere_unit_energy_joules_total counter\n"
        'kwhere_unit_energy_joules_total{unit="42",part="idle"} 1.5\n'
        'kwhere_unit_energy_joules_total{unit="42",part="dynamic"} 1000000000000000\n'
        '# HELP kwhere_node_load1 Load\\nover one \\\\ minute, "short".\n'
        "# TYPE kwhere_node_load1 gauge\n"
        "kwhere_node_load1 3\n"
        "# HELP kwhere_build_info Version.\n"
        "# TYPE kwhere_build_info gauge\n"
        'kwhere_build_info{version="0.1.0"} 1\n'
    )


def test_openmetrics_page_tells_when_counters_began() -> None:
    assert render(PAGE, Format.OPENMETRICS_1) == (
        "# HELP kwhere_unit_energy_joules Energy.\n"
        "# TYPE kwhere_unit_energy_joules counter\n"
        'kwhere_unit_energy_joules_total{unit="42",part="idle"} 1.5\n'
        'kwhere_unit_energy_joules_created{unit="42",part="idle"} 1795975931.25\n'
        'kwhere_unit_energy_joules_total{unit="42",part="dynamic"} 1000000000000000\n'
        'kwhere_unit_energy_joules_created{unit="42",part="dynamic"} 1795975931.25\n'
        '# HELP kwhere_node_load1 Load\\nover one \\\\ minute, \\"short\\".\n'
        "# TYPE kwhere_node_load1 gauge\n"
        "kwhere_node_load1 3\n"
        "# HELP kwhere_build Version.\n"
        "# TYPE kwhere_build info\n"
        'kwhere_build_info{version="0.1.0"} 1\n'
        "# EOF\n"
    )


def test_empty_page() -> None:
    assert render([]) == ""
    assert render([], Format.OPENMETRICS_1) == "# EOF\n"


numbers = st.floats() | st.integers(-(2**53), 2**53) | st.sampled_from([1e21, 5e-324, -0.0, 1.7976931348623157e308])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.lists(st.tuples(texts.filter(bool), numbers), unique_by=lambda pair: pair[0], min_size=1, max_size=5)
VALUE = MetricSpec("kwhere_value", Kind.GAUGE, "A value.", ("name", "fixed"))


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@given(values, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_text_says_what_was_sampled(pairs: list[tuple[str, float]], help_text: str) -> None:
    spec = MetricSpec("kwhere_value", Kind.GAUGE, help_text, ("name", "fixed"))

    [family] = parse_text(render([Sample(spec, (name, "x"), value) for name, value in pairs]))

    assert [sample.labels for sample in family.samples] == [{"name": name, "fixed": "x"} for name, _ in pairs]
    assert all(same(found.value, value) for found, (_, value) in zip(family.samples, pairs, strict=True))


@given(values)
def test_openmetrics_says_what_was_sampled(pairs: list[tuple[str, float]]) -> None:
    page = render([Sample(VALUE, (name, "x"), value) for name, value in pairs], Format.OPENMETRICS_1)

    [family] = parse_openmetrics(page)  # type: ignore[no-untyped-call]

    assert [sample.labels for sample in family.samples] == [{"name": name, "fixed": "x"} for name, _ in pairs]
    assert all(same(found.value, value) for found, (_, value) in zip(family.samples, pairs, strict=True))


def test_openmetrics_parser_accepts_counters_and_infos() -> None:
    families = {family.name: family for family in parse_openmetrics(render(PAGE, Format.OPENMETRICS_1))}  # type: ignore[no-untyped-call]

    assert families["kwhere_unit_energy_joules"].type == "counter"
    assert families["kwhere_build"].type == "info"
    assert families["kwhere_node_load1"].documentation == LOAD.help


def test_label_that_is_no_unicode_does_not_spoil_the_page() -> None:
    assert 'name="a�b"' in render([Sample(VALUE, ("a\udcffb", ""), 1)])


def test_labels_are_the_same_from_a_warm_cache() -> None:
    renderer = Renderer()
    first = renderer.render(PAGE, Format.TEXT)

    for _ in range(200):
        assert renderer.render(PAGE, Format.TEXT) == first


def test_labels_unused_for_long_are_forgotten() -> None:
    renderer = Renderer()
    renderer.render([Sample(VALUE, (str(number), ""), 1) for number in range(1000)], Format.TEXT)

    for _ in range(200):
        renderer.render(PAGE, Format.TEXT)

    assert sum(len(owners) for cache in (renderer._young, renderer._old) for owners in cache.values()) < 10


def test_equal_values_under_other_names_are_told_apart() -> None:
    other = MetricSpec("kwhere_other", Kind.GAUGE, "Other.", ("a", "b"))

    page = render([Sample(VALUE, ("x", "y"), 1), Sample(other, ("x", "y"), 2)])

    assert 'kwhere_value{name="x",fixed="y"} 1\n' in page
    assert 'kwhere_other{a="x",b="y"} 2\n' in page


@pytest.mark.service("promtool")
def test_promtool_reads_the_page() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=render(PAGE).encode(), capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr + done.stdout
