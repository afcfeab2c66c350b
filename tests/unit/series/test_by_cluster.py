"""A cluster's questions go to its own store alone."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.fake_series import FakeSeries

from kwhere.core.errors import Unavailable
from kwhere.core.timespan import Span
from kwhere.series.by_cluster import ClusterStores, store_of
from kwhere.series.charts import NodeRef, UnitRef, node_chart, unit_chart
from kwhere.series.governors import governor_spans
from kwhere.series.gpu_charts import GpuPlace, gpu_chart
from kwhere.series.store import RawSeries, Selector

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HOUR = Span(NOW - timedelta(hours=1), NOW)


class Asked(FakeSeries):
    """Remembers whose series it was asked for."""

    def __init__(self, scrape_seconds: float = 10.0, *, fails: bool = False) -> None:
        super().__init__(scrape_seconds)
        self.clusters: list[str] = []
        self.fails = fails
        self.closed = False

    def select(self, selector: Selector, span: Span, step_seconds: float) -> list[RawSeries]:
        self.clusters.append(selector.labels["cluster"])
        return list(super().select(selector, span, step_seconds))

    def close(self) -> None:
        self.closed = True
        if self.fails:
            raise Unavailable("write", "disk full")


def test_every_kind_of_chart_asks_the_store_of_its_cluster_case_ceems_203() -> None:
    alpha, beta, rest = Asked(), Asked(30), Asked(60)
    stores = ClusterStores({"alpha": alpha, "beta": beta}, rest)

    for cluster in ("alpha", "gamma"):
        unit_chart(stores, UnitRef(cluster, "slurm", "42", (("n1", "42@0"),)), "cpu", HOUR, 60)
        node_chart(stores, NodeRef(cluster, "n1"), "cpu", HOUR, 60)
        governor_spans(stores, cluster, ["n1"], HOUR, 60)
        gpu_chart(stores, cluster, [GpuPlace("n1", "GPU-1", "", "GPU 0", NOW, NOW)], "gpu_power", HOUR, 60)

    assert set(alpha.clusters) == {"alpha"}
    assert not beta.clusters
    assert set(rest.clusters) == {"gamma"}
    assert len(alpha.clusters) == len(rest.clusters) >= 5


def test_each_clusters_own_scrape_interval_counts() -> None:
    stores = ClusterStores({"alpha": Asked(10)}, Asked(60))

    assert store_of(stores, "alpha").scrape_seconds == 10
    assert store_of(stores, "other").scrape_seconds == 60
    assert stores.scrape_seconds == 60


def test_all_stores_are_closed_also_where_one_fails() -> None:
    alpha, rest = Asked(), Asked(fails=True)

    with pytest.raises(Unavailable):
        ClusterStores({"alpha": alpha}, rest).close()

    assert alpha.closed
    assert rest.closed
