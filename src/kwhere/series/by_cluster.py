"""Several stores of series, one per cluster, as one: each question goes to the store of its own cluster alone."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime

from kwhere.core.timespan import Span
from kwhere.series.retention import Kept
from kwhere.series.store import RawSeries, Selector, SeriesStore


class ClusterStores:
    """A SeriesStore of stores: `stores` by cluster, `rest` for all other clusters."""

    def __init__(self, stores: Mapping[str, SeriesStore], rest: SeriesStore) -> None:
        self._stores = dict(stores)
        self.rest = rest

    def of(self, cluster: str) -> SeriesStore:
        """Return the store that has a cluster's series."""
        return self._stores.get(cluster, self.rest)

    @property
    def scrape_seconds(self) -> float:
        """Return the longest distance between two samples in any store; ask `store_of` for a cluster's."""
        return max(store.scrape_seconds for store in (*self._stores.values(), self.rest))

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        """Return what the store of the selector's cluster has. Raises Unavailable, SourceError."""
        return self.of(selector.labels.get("cluster", "")).select(selector, span, step_seconds)

    def kept(self, cluster: str, now: datetime) -> Kept | None:
        """Return how far back the cluster's store goes. Raises Unavailable, SourceError."""
        return self.of(cluster).kept(cluster, now)

    def close(self) -> None:
        """Close all of them, also where one fails."""
        with ExitStack() as stack:
            for store in (*self._stores.values(), self.rest):
                stack.callback(store.close)


def store_of(store: SeriesStore, cluster: str) -> SeriesStore:
    """Return the store that has a cluster's series, where there are several."""
    return store.of(cluster) if isinstance(store, ClusterStores) else store
