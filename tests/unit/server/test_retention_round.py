"""The server's slow round over clusters: how far back each one's series go, and what a store that fails costs."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from tests.fake_account import FixedClock
from tests.fake_series import FakeSeries

from kwhere.core.errors import Unavailable
from kwhere.series.retention import Kept, KeptBy
from kwhere.server.retention_round import RetentionRound

SINCE = datetime(2026, 11, 15, tzinfo=UTC)


@dataclass
class Store(FakeSeries):
    """Knows some clusters, and fails for others."""

    known: dict[str, Kept] = field(default_factory=dict)
    fails_for: set[str] = field(default_factory=set)

    def kept(self, cluster: str, now: datetime) -> Kept | None:
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
    found = RetentionRound(lambda: ["a"], store, FixedClock())
    assert found.run_once()
    store.fails_for.add("a")
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
