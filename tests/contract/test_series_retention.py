"""How far back real stores go: a Prometheus that dropped its oldest blocks, and one that tells nothing."""

import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from tests.prometheus_server import running_prometheus, running_victoria_metrics

from kwhere.core.timespan import Span
from kwhere.series.prometheus import PrometheusSeriesStore
from kwhere.series.retention import Kept, KeptBy
from kwhere.series.settings import PrometheusStoreSettings
from kwhere.series.store import ScrapedSample, Selector

NAME = "kwhere_build_info"
HOUR_S = 3600
LABELS = (("cluster", "c"), ("node", "n1"), ("version", "1"))


def now_s() -> int:
    return int(time.time()) // HOUR_S * HOUR_S


def utc(time_s: float) -> datetime:
    return datetime.fromtimestamp(time_s, UTC)


def history(until_s: int, hours: int) -> str:
    """Return a sample every 2.5 minutes, of a counter that does not compress well."""
    text = ",".join(f'{name}="{value}"' for name, value in LABELS)
    steps = range(until_s - hours * HOUR_S, until_s, 150)
    lines = [f"{NAME}{{{text}}} {(at * 2654435761) % 1000003}.{at % 977} {at}" for at in steps]
    return "\n".join(["# TYPE kwhere_build_info gauge", *lines, "# EOF\n"])


def kept_in(url: str, at_s: int) -> Kept | None:
    with closing(PrometheusSeriesStore(PrometheusStoreSettings(url=url))) as store:
        return store.kept("c", utc(at_s))


def oldest_in(url: str, at_s: int, hours: int) -> float:
    """Return the oldest sample of all, by a query of the whole history."""
    with closing(PrometheusSeriesStore(PrometheusStoreSettings(url=url, scrape_seconds=60))) as store:
        span = Span(utc(at_s - hours * HOUR_S), utc(at_s))
        (series,) = store.select(Selector(NAME, {"cluster": "c"}), span, 1)
        return series.times[0]


@pytest.mark.service("prometheus", "promtool")
def test_a_real_store_that_is_full_says_what_it_has_left_case_ceems_177() -> None:
    end_s = now_s()
    flags = ("--storage.tsdb.retention.time=30d", "--storage.tsdb.retention.size=16KB")
    with running_prometheus(retention=flags, history=history(end_s, 60)) as server:
        kept = kept_in(server.url, end_s)
        oldest_s = oldest_in(server.url, end_s, 60)

    assert kept is not None
    assert kept.by is KeptBy.SIZE
    assert kept.limits == "30d or 16KiB"
    assert end_s - 58 * HOUR_S < oldest_s < end_s - HOUR_S  # it did drop blocks
    assert timedelta(0) <= kept.since - utc(oldest_s) <= timedelta(minutes=6)


@pytest.mark.service("prometheus", "promtool")
def test_a_real_store_tells_its_limit_by_time_case_ceems_270() -> None:
    end_s = now_s()
    with running_prometheus(retention=()) as server:
        assert kept_in(server.url, end_s) == Kept(utc(end_s) - timedelta(days=15), KeptBy.TIME, "15d")


@pytest.mark.service("victoria-metrics")
def test_a_real_store_that_tells_nothing_is_asked_for_its_oldest_sample_case_ceems_270() -> None:
    end_s = now_s()
    start_s = end_s - 40 * 24 * HOUR_S
    samples = [ScrapedSample(NAME, LABELS, float(at), 1.0) for at in range(start_s, end_s, 60)]
    with running_victoria_metrics() as server:
        server.write(samples)

        kept = kept_in(server.url, end_s)

    assert kept is not None
    assert (kept.by, kept.limits) == (KeptBy.OLDEST, "")
    assert timedelta(0) <= kept.since - utc(start_s) <= timedelta(minutes=6)
