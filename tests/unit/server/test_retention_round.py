"""The server's slow round over clusters: how far back each one's series go, and what a store that fails costs."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from tests.account_site import HandClock
from tests.fake_account import FixedClock
from tests.fake_series import FakeSeries

from kwhere.core.errors import Unavailable
from kwhere.series.retention import Kept, KeptBy
from kwhere.server.retention_round import REST_SECONDS, RetentionRound

REST_NS = int(REST_SECONDS) * 1_000_000_000
SINCE = datetime(2026, 11, 15, tzinfo=UTC)


@dataclass
class Store(FakeSeries):
    """Knows some clusters, and fails for others."""

    known: dict[str, Kept] = field(default_factory=dict)
    fails_for: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def kept(self, cluster: str, now: datetime) -> Kept | None:
        self.asked.append(cluster)
        if cluster in self.fails_for:
            raise Unavailable("timeout", "store: no answer")
        return self.known.get(cluster)


def test_each_cluster_is_asked_of_and_one_that_fails_takes_no_other_down() -> None:
    kept = Kept(SINCE, KeptBy.SIZE, "50GiB")
    store = Store(known={"b": kept}, fails_for={"a"})
    found = RetentionRound(lambda: ["a", "b", "c"], store, FixedClock())

    assert not found.run_once()

    assert [found.of(cluster) for cluster in "abc"] == [None, kept, None]


def test_a_failure_is_asked_again_and_what_was_found_stands_meanwhile_case_ceems_110() -> None:
    store = Store(known={"a": Kept(SINCE, KeptBy.TIME, "15d")})
    clock = HandClock(0)
    found = RetentionRound(lambda: ["a"], store, clock)
    assert found.run_once()
    store.fails_for.add("a")
    clock.now_ns += REST_NS
    with structlog.testing.capture_logs() as logs:
        assert not found.run_once()
        assert not found.run_once()
    assert found.of("a") == Kept(SINCE, KeptBy.TIME, "15d")
    assert len(logs) == 1
    later = Kept(SINCE + timedelta(days=1), KeptBy.TIME, "15d")
    store.fails_for.clear()
    store.known["a"] = later

    assert found.run_once()

    assert found.of("a") == later


def test_a_cluster_without_an_answer_does_not_have_the_others_asked_every_time() -> None:
    store = Store(known={"b": Kept(SINCE, KeptBy.TIME, "15d")}, fails_for={"a"})
    clock = HandClock(0)
    found = RetentionRound(lambda: ["a", "b", "c"], store, clock)

    for _ in range(3):
        assert not found.run_once()
    clock.now_ns += REST_NS
    found.run_once()

    assert {cluster: store.asked.count(cluster) for cluster in "abc"} == {"a": 4, "b": 2, "c": 4}
    assert found.of("b") is not None


def test_a_cluster_that_is_gone_is_forgotten_and_none_at_all_is_looked_at_soon_again() -> None:
    clusters = ["a"]
    found = RetentionRound(lambda: clusters, Store(known={"a": Kept(SINCE, KeptBy.TIME, "15d")}), FixedClock())
    found.run_once()
    clusters.clear()

    assert not found.run_once()
    assert found.of("a") is None


def test_it_ends_at_once_when_told() -> None:
    found = RetentionRound(list, Store(), FixedClock())
    found.start()

    found.stop()

    assert found.of("a") is None
