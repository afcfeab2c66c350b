"""What every SeriesStore does, over each implementation; and the same chart from both."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from tests.prometheus_server import (
    STALE,
    PrometheusServer,
    VictoriaMetricsServer,
    running_prometheus,
    running_victoria_metrics,
)

from kwhere.core.clock import SystemClock
from kwhere.core.timespan import Span
from kwhere.series.charts import NODE_CHARTS, UNIT_CHARTS, Chart, NodeRef, UnitRef, node_chart, unit_chart
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings, PrometheusStoreSettings
from kwhere.series.store import RawSeries, ScrapedSample, Selector, SeriesStore

START = 1_795_000_200
"""A multiple of 600 s."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_numbers = count()


def span(start: float, end: float) -> Span:
    return Span(EPOCH + timedelta(seconds=START + start), EPOCH + timedelta(seconds=START + end))


def sample(name: str, time: float, value: float, **labels: str) -> ScrapedSample:
    return ScrapedSample(name, tuple(sorted(labels.items())), START + time, value)


@dataclass(frozen=True)
class Filled:
    """How a kind of store is made that holds given samples."""

    store_of: Callable[[Sequence[ScrapedSample]], SeriesStore]
    kind: str


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with running_prometheus() as server:
        yield server


@pytest.fixture(scope="module")
def victoria() -> Iterator[VictoriaMetricsServer]:
    with running_victoria_metrics() as server:
        yield server


KINDS = [
    "memory",
    "files",
    pytest.param("prometheus", marks=pytest.mark.service("prometheus")),
    pytest.param("victoria", marks=pytest.mark.service("victoria-metrics")),
]


@pytest.fixture(params=KINDS)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filled]:
    opened: list[SeriesStore] = []

    def embedded(samples: Sequence[ScrapedSample]) -> SeriesStore:
        store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(threads=1), SystemClock())
        store.append(samples)
        if request.param == "files":
            store.close()
            store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(threads=1), SystemClock())
            store.maintain()
        opened.append(store)
        return store

    def remote(samples: Sequence[ScrapedSample]) -> SeriesStore:
        server: PrometheusServer = request.getfixturevalue(request.param)
        server.write(samples)
        store = PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, scrape_seconds=10))
        opened.append(store)
        return store

    is_remote = request.param in ("prometheus", "victoria")
    yield Filled(remote if is_remote else embedded, request.param)
    for store in opened:
        store.close()


@pytest.fixture
def metric() -> str:
    """A name that no other test uses: they share one server."""
    return f"contract_{next(_numbers)}"


def pairs(found: Sequence[RawSeries]) -> list[list[tuple[float, float]]]:
    return [[(t - START, v) for t, v in zip(s.times, s.values, strict=True)] for s in found]


def test_samples_come_back_with_their_own_times_and_values(filled: Filled, metric: str) -> None:
    # VictoriaMetrics keeps some 15 digits of what lies together.
    large = 1e300 if filled.kind != "victoria" else 1e6
    values = [0.1, large, -5.25, 123456.789012, 0.0, 2.0**53 if large > 1e6 else 2.0**20, 1 / 3]
    store = filled.store_of([sample(metric, 10 * i + 0.123, v, cluster="c") for i, v in enumerate(values)])

    (series,) = store.select(Selector(metric, {"cluster": "c"}), span(0, 100), 10)

    assert series.values == (pytest.approx(values, rel=1e-9) if filled.kind == "victoria" else tuple(values))
    assert series.times == pytest.approx([START + 10 * i + 0.123 for i in range(7)], abs=1e-4)
    assert series.labels == {"cluster": "c"}


def test_a_selector_matches_every_label_it_names_exactly(filled: Filled, metric: str) -> None:
    store = filled.store_of(
        [
            sample(metric, 0, 1, a="1", b="1"),
            sample(metric, 0, 2, a="1"),
            sample(metric, 0, 3, a="11"),
            sample(metric + "x", 0, 4, a="1"),
        ]
    )

    assert pairs(store.select(Selector(metric, {"a": "1"}), span(-5, 5), 10)) == [[(0, 1)], [(0, 2)]]
    assert pairs(store.select(Selector(metric, {"a": "1", "b": ""}), span(-5, 5), 10)) == [[(0, 2)]]
    assert pairs(store.select(Selector(metric, {"a": ".*"}), span(-5, 5), 10)) == []
    assert pairs(store.select(Selector(metric, {"c": "1"}), span(-5, 5), 10)) == []


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "a{b}c,d=e", "é 中 \U0001f600", "'", "\\", '","unit":"42'])
def test_any_label_value_can_be_asked_for(filled: Filled, metric: str, value: str) -> None:
    store = filled.store_of([sample(metric, 0, 1, unit=value), sample(metric, 0, 2, unit="42")])

    (series,) = store.select(Selector(metric, {"unit": value}), span(-5, 5), 10)

    assert (series.labels, series.values) == ({"unit": value}, (1,))


def test_a_span_has_its_start_and_not_its_end(filled: Filled, metric: str) -> None:
    store = filled.store_of([sample(metric, 10 * i, i) for i in range(5)])

    assert pairs(store.select(Selector(metric, {}), span(10, 30), 10)) == [[(10, 1), (20, 2)]]


def test_the_last_sample_of_a_step_stands_for_it(filled: Filled, metric: str) -> None:
    store = filled.store_of([sample(metric, 10 * i, i) for i in range(14)])

    found = pairs(store.select(Selector(metric, {}), span(0, 140), 60))

    assert found == [[(0, 0), (60, 6), (120, 12), (130, 13)]]


def test_a_gap_stays_a_gap(filled: Filled, metric: str) -> None:
    store = filled.store_of([sample(metric, t, t) for t in (0, 10, 200, 210)])

    assert pairs(store.select(Selector(metric, {}), span(0, 300), 10)) == [[(0, 0), (10, 10), (200, 200), (210, 210)]]


def test_series_are_ordered_by_the_unit_first(filled: Filled, metric: str) -> None:
    labels = [{"unit": u, "component": c, "cluster": "c"} for u in "ab" for c in ("cpu", "dram")]
    store = filled.store_of([sample(metric, 0, i, **own) for i, own in reversed(list(enumerate(labels)))])

    assert [dict(series.labels) for series in store.select(Selector(metric, {}), span(-5, 5), 10)] == labels


def test_nothing_is_no_series(filled: Filled, metric: str) -> None:
    assert not filled.store_of([]).select(Selector(metric, {}), span(0, 10), 10)


UNIT = {"cluster": "c", "node": "n1", "manager": "slurm", "unit": "42", "run": "42@0"}
NODE = {"cluster": "c", "node": "n1"}


def recorded(hours: float, chance: random.Random) -> list[ScrapedSample]:
    """Return what a scraper saw of one unit and its node: jitter, missed scrapes, an outage, a restart."""
    counters = [
        ("kwhere_unit_energy_joules_total", {**UNIT, "component": c, "part": p}, watts)
        for c, watts in (("cpu", 90.0), ("dram", 8.0), ("other", 20.0))
        for p in ("dynamic", "idle")
    ]
    counters += [("kwhere_unit_cpu_seconds_total", {**UNIT, "mode": m}, 1.7) for m in ("user", "system")]
    counters += [("kwhere_unit_io_read_bytes_total", UNIT, 1e6), ("kwhere_system_energy_joules_total", NODE, 3.0)]
    gauges = [
        ("kwhere_unit_memory_used_bytes", UNIT, 1e9),
        ("kwhere_node_temperature_celsius", {**NODE, "sensor": "cpu 0"}, 60.0),
    ]
    totals = dict.fromkeys(range(len(counters)), 0.0)
    samples = []
    for tick in range(int(hours * 360)):
        time = 10 * tick + round(chance.random() * 0.05, 3)
        if tick == 200:
            totals = dict.fromkeys(totals, 0.0)
        totals = {i: round(total + chance.random() * counters[i][2] * 20, 6) for i, total in totals.items()}
        if 90 <= tick < 150 or chance.random() < 0.03:
            continue
        samples += [sample(name, time, totals[i], **own) for i, (name, own, _) in enumerate(counters)]
        samples += [sample(name, time, float(chance.randrange(int(most))), **own) for name, own, most in gauges]
    return samples


def all_charts(store: SeriesStore, over: Span, step: float) -> list[Chart]:
    unit = UnitRef("c", "slurm", "42", (("n1", "42@0"),))
    return [unit_chart(store, unit, name, over, step) for name in UNIT_CHARTS] + [
        node_chart(store, NodeRef("c", "n1"), name, over, step) for name in NODE_CHARTS
    ]


@contextmanager
def both(
    server: PrometheusServer, directory: Path, samples: Sequence[ScrapedSample], **settings: object
) -> Iterator[tuple[SeriesStore, SeriesStore]]:
    """Yield the embedded store and a Prometheus that hold the same."""
    server.write(samples)
    remote = PrometheusSeriesStore(PrometheusStoreSettings.model_validate({"url": server.url, **settings}))
    embedded = EmbeddedSeriesStore(directory, EmbeddedStoreSettings(threads=1), SystemClock())
    embedded.append(samples)
    embedded.flush()
    with closing(remote), closing(embedded):
        yield embedded, remote


@pytest.mark.service("prometheus")
def test_both_stores_show_the_same_chart(tmp_path: Path) -> None:
    samples = recorded(2, random.Random(5))
    with running_prometheus() as server, both(server, tmp_path, samples, scrape_seconds=10) as (embedded, remote):
        for over, step in ((span(0, 7200), 10), (span(333, 4321), 30), (span(0, 7200), 600), (span(-3600, 9000), 60)):
            ours, theirs = all_charts(embedded, over, step), all_charts(remote, over, step)
            assert ours == theirs
            assert sum(len(chart.columns) for chart in ours) >= 12
            power = ours[0].columns[0].values
            assert any(power)
            assert step > 60 or None in power  # the outage


@pytest.mark.service("prometheus")
def test_a_long_span_shows_the_same_chart_within_a_scrape(tmp_path: Path) -> None:
    samples = recorded(4, random.Random(6))
    # A scrape interval this short makes four hours too long to be read raw; the answers are split too.
    short = {"scrape_seconds": 1, "max_points": 50}
    with running_prometheus() as server, both(server, tmp_path, samples, **short) as (embedded, remote):
        over = span(0, 4 * 3600)
        unit = UnitRef("c", "slurm", "42", (("n1", "42@0"),))

        ours = unit_chart(embedded, unit, "power", over, 60)
        theirs = unit_chart(remote, unit, "power", over, 60)

        assert [c.label for c in ours.columns] == [c.label for c in theirs.columns]
        for a, b in zip(ours.columns, theirs.columns, strict=True):
            known = [(x, y) for x, y in zip(a.values, b.values, strict=True) if x is not None and y is not None]
            assert len(known) > 200
            assert math.fsum(x for x, _ in known) == pytest.approx(math.fsum(y for _, y in known), rel=0.03)


@pytest.mark.service("prometheus")
def test_a_stale_marker_is_no_sample(prometheus: PrometheusServer, metric: str) -> None:
    prometheus.write([sample(metric, 0, 1), sample(metric, 10, STALE)])
    store = PrometheusSeriesStore(PrometheusStoreSettings(url=prometheus.url))

    assert pairs(store.select(Selector(metric, {}), span(0, 60), 10)) == [[(0, 1)]]
    store.close()


@pytest.mark.service("prometheus")
def test_the_sites_names_of_the_labels_are_used_both_ways(prometheus: PrometheusServer, metric: str) -> None:
    prometheus.write([sample(metric, 0, 1, k8s_cluster="c", instance="n1")])
    settings = PrometheusStoreSettings(url=prometheus.url, cluster_label="k8s_cluster", node_label="instance")
    store = PrometheusSeriesStore(settings)

    (series,) = store.select(Selector(metric, {"cluster": "c", "node": "n1"}), span(-5, 5), 10)

    assert series.labels == {"cluster": "c", "node": "n1"}
    store.close()


@pytest.mark.service("prometheus")
def test_a_unit_of_many_nodes_is_read_whatever_the_server_lets_be_loaded_case_ceems_262(metric: str) -> None:
    nodes = [f"n{number:03}" for number in range(100)]
    samples = [sample(metric, 10 * at, at, unit="42", node=node) for node in nodes for at in range(60)]
    with running_prometheus(retention=("--query.max-samples=1500",)) as server:
        server.write(samples)
        with closing(PrometheusSeriesStore(PrometheusStoreSettings(url=server.url, scrape_seconds=10))) as store:
            found = store.select(Selector(metric, {"unit": "42"}), span(0, 600), 10)

    assert [series.labels["node"] for series in found] == nodes
    assert {series.values[-1] for series in found} == {59.0}
    assert min(len(series.times) for series in found) >= 59


def test_several_nodes_are_asked_for_at_once_case_ceems_277(filled: Filled, metric: str) -> None:
    nodes = ["n1", "n2", "n.3", "nx3", 'n"4|n5', "n5"]
    store = filled.store_of([sample(metric, 0, at, cluster="c", node=node) for at, node in enumerate(nodes)])

    found = store.select(
        Selector(metric, {"cluster": "c"}, ("n5", "n1", "n.3", 'n"4|n5', "n1", "none")), span(-5, 5), 10
    )

    assert [(series.labels["node"], series.values) for series in found] == [
        ("n.3", (2,)),
        ("n1", (0,)),
        ("n5", (5,)),
        ('n"4|n5', (4,)),
    ]
