"""Charts over a small store in memory; every expected number by hand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from kwhere.core.errors import NotFound
from kwhere.core.timespan import Span
from kwhere.series.charts import NODE_CHARTS, UNIT_CHARTS, NodeRef, UnitRef, choose_step, node_chart, unit_chart
from kwhere.series.functions import last_per_step
from kwhere.series.governors import GovernorSpan, governor_spans
from kwhere.series.retention import Kept
from kwhere.series.store import RawSeries, Selector

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNIT = UnitRef("c", "slurm", "42", (("n1", "42@0"),))


def span(start: float, end: float) -> Span:
    return Span(EPOCH + timedelta(seconds=start), EPOCH + timedelta(seconds=end))


class SeriesList:
    """A store that is a list."""

    scrape_seconds = 10.0

    def __init__(self) -> None:
        self.held: list[tuple[str, RawSeries]] = []

    def add(self, name: str, samples: Sequence[tuple[float, float]], **labels: str) -> None:
        times, values = zip(*samples, strict=True)
        self.held.append((name, RawSeries(labels, times, values)))

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        found = []
        for name, series in self.held:
            is_of_nodes = not selector.nodes or series.labels.get("node") in selector.nodes
            if name == selector.name and is_of_nodes and selector.labels.items() <= series.labels.items():
                pairs = list(zip(series.times, series.values, strict=True))
                inside = [p for p in pairs if span.start.timestamp() <= p[0] < span.end.timestamp()]
                kept = list(last_per_step([t for t, _ in inside], [v for _, v in inside], step_seconds))
                found.append(RawSeries(series.labels, tuple(t for t, _ in kept), tuple(v for _, v in kept)))
        return found

    def kept(self, cluster: str, now: datetime) -> Kept | None:
        return None

    def close(self) -> None:
        pass


def unit_series(store: SeriesList, name: str, samples: Sequence[tuple[float, float]], **labels: str) -> None:
    own = {"cluster": "c", "node": "n1", "manager": "slurm", "unit": "42", "run": "42@0"}
    store.add(name, samples, **{**own, **labels})


def test_power_is_by_component_and_part_in_the_order_of_every_legend() -> None:
    store = SeriesList()
    name = "kwhere_unit_energy_joules_total"
    unit_series(store, name, [(0, 0), (10, 50), (20, 150)], component="dram", part="idle")
    unit_series(store, name, [(0, 0), (10, 20), (20, 40)], component="cpu", part="idle")
    unit_series(store, name, [(0, 0), (10, 100), (20, 300)], component="cpu", part="dynamic")

    chart = unit_chart(store, UNIT, "power", span(0, 20), 10)

    assert chart.unit == "watts"
    assert list(chart.times) == [10, 20]
    assert [(c.label, c.values) for c in chart.columns] == [
        ("cpu dynamic", (10, 20)),
        ("cpu idle", (2, 2)),
        ("dram idle", (5, 10)),
    ]


def test_cpu_is_cores_used_and_cores_allocated() -> None:
    store = SeriesList()
    unit_series(store, "kwhere_unit_cpu_seconds_total", [(0, 0), (10, 15), (20, 35)], mode="user")
    unit_series(store, "kwhere_unit_cpu_seconds_total", [(0, 0), (10, 1), (20, 2)], mode="system")
    unit_series(store, "kwhere_unit_cpus", [(0, 4), (10, 4), (20, 4)])

    chart = unit_chart(store, UNIT, "cpu", span(0, 20), 10)

    assert [(c.label, c.values) for c in chart.columns] == [
        ("user", (1.5, 2)),
        ("system", (pytest.approx(0.1), pytest.approx(0.1))),
        ("allocated", (4, 4)),
    ]


def test_a_gap_is_none_in_every_column_that_has_it() -> None:
    store = SeriesList()
    unit_series(store, "kwhere_unit_memory_used_bytes", [(10, 7), (100, 8)])
    unit_series(store, "kwhere_unit_memory_anon_bytes", [(t, 5) for t in range(0, 110, 10)])

    chart = unit_chart(store, UNIT, "memory", span(0, 100), 10)

    # Held for two and a half scrapes of 10 s, then unknown.
    assert [(c.label, c.values) for c in chart.columns] == [
        ("used", (7, 7, 7, None, None, None, None, None, None, 8)),
        ("anon", (5,) * 10),
    ]


def test_a_unit_on_two_nodes_is_summed_and_another_run_of_its_id_left_out() -> None:
    store = SeriesList()
    name = "kwhere_unit_cpu_seconds_total"
    unit_series(store, name, [(0, 0), (10, 10)], mode="user")
    unit_series(store, name, [(0, 0), (10, 20)], mode="user", node="n2", run="42@1")
    unit_series(store, name, [(0, 0), (10, 999)], mode="user", node="n2", run="42@-9")
    both = UnitRef("c", "slurm", "42", (("n1", "42@0"), ("n2", "42@1")))

    chart = unit_chart(store, both, "cpu", span(0, 10), 10)

    assert [(c.label, c.values) for c in chart.columns] == [("user", (3,))]


def test_frequency_keeps_nodes_apart() -> None:
    store = SeriesList()
    unit_series(store, "kwhere_unit_cpu_frequency_hertz", [(10, 2.4e9)])
    unit_series(store, "kwhere_unit_cpu_frequency_hertz", [(10, 1.2e9)], node="n2", run="42@1")
    both = UnitRef("c", "slurm", "42", (("n1", "42@0"), ("n2", "42@1")))

    chart = unit_chart(store, both, "frequency", span(0, 10), 10)

    assert [(c.label, c.values) for c in chart.columns] == [("n1", (2.4e9,)), ("n2", (1.2e9,))]


def test_a_node_is_units_system_and_unallocated() -> None:
    store = SeriesList()
    node = {"cluster": "c", "node": "n1"}
    for unit in "ab":
        store.add(
            "kwhere_unit_energy_joules_total", [(0, 0), (10, 50)], **node, unit=unit, component="cpu", part="dynamic"
        )
    store.add("kwhere_system_energy_joules_total", [(0, 0), (10, 30)], **node, component="cpu", part="dynamic")
    store.add("kwhere_unallocated_energy_joules_total", [(0, 0), (10, 20)], **node, component="cpu", part="idle")

    chart = node_chart(store, NodeRef("c", "n1"), "attribution", span(0, 10), 10)

    assert [(c.label, c.values) for c in chart.columns] == [
        ("units dynamic", (10,)),
        ("system", (3,)),
        ("unallocated", (2,)),
    ]


@pytest.mark.parametrize("name", list(UNIT_CHARTS))
def test_every_unit_chart_is_empty_without_data(name: str) -> None:
    chart = unit_chart(SeriesList(), UNIT, name, span(0, 20), 10)

    assert (chart.name, chart.times, chart.columns) == (name, (10, 20), ())


@pytest.mark.parametrize("name", list(NODE_CHARTS))
def test_every_node_chart_is_empty_without_data(name: str) -> None:
    assert node_chart(SeriesList(), NodeRef("c", "n1"), name, span(0, 20), 10).columns == ()


def test_an_unknown_chart_is_not_found() -> None:
    with pytest.raises(NotFound, match="power"):
        unit_chart(SeriesList(), UNIT, "wattage", span(0, 20), 10)


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(900, 10), (3600, 10), (86400, 120), (7 * 86400, 900), (30 * 86400, 3600), (4000 * 86400, 345600)],
)
def test_a_step_is_round_and_gives_no_more_points_than_asked(seconds: float, step: float) -> None:
    assert choose_step(span(0, seconds)) == step
    assert seconds / step <= 1000


def test_governors_are_spans_per_socket() -> None:
    store = SeriesList()
    node = {"cluster": "c", "node": "n1"}
    name = "kwhere_node_cpu_governor_info"
    store.add(name, [(0, 1), (10, 1), (40, 1)], **node, socket="0", governor="powersave")
    store.add(name, [(20, 1), (30, 1)], **node, socket="0", governor="performance")
    store.add(name, [(0, 1)], **node, socket="1", governor="powersave")

    assert governor_spans(store, "c", ["n1", "n1"], span(0, 50), 10) == (
        GovernorSpan("n1", "0", 0, 10, "powersave"),
        GovernorSpan("n1", "0", 20, 30, "performance"),
        GovernorSpan("n1", "0", 40, 40, "powersave"),
        GovernorSpan("n1", "1", 0, 0, "powersave"),
    )
