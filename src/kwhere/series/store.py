"""The seam to a store of series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kwhere.core.timespan import Span
from kwhere.series.retention import Kept


@dataclass(frozen=True, slots=True)
class Selector:
    """A bare selector: a metric name and exact label values (`cluster` and `node` among them).

    An empty value matches series without that label.
    """

    name: str
    labels: Mapping[str, str]
    nodes: tuple[str, ...] = ()
    """Of any of these nodes, in as few questions as the store allows; empty: `labels` alone decide."""


@dataclass(frozen=True, slots=True)
class RawSeries:
    """Samples of one series in time order. `times` are UTC seconds; staleness is a gap between neighbours."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScrapedSample:
    """One sample on its way in; `labels` without `__name__`, sorted by name."""

    name: str
    labels: tuple[tuple[str, str], ...]
    time_s: float
    value: float


class SeriesStore(Protocol):
    """Any Prometheus-compatible store, or the embedded one. Synchronous; called through a worker thread."""

    @property
    def scrape_seconds(self) -> float:
        """Return the usual distance between two samples of a series, in seconds."""
        ...

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        """Return, per series, at most one raw sample per step (the last in it), ordered by labels.

        Steps are (k·step, (k+1)·step] of the Unix epoch. Raises Unavailable or SourceError.
        """
        ...

    def kept(self, cluster: str, now: datetime) -> Kept | None:
        """Return how far back samples of a cluster go; None where there are none. Raises Unavailable, SourceError."""
        ...

    def close(self) -> None:
        """Flush and give back resources."""
        ...


class WritableSeriesStore(SeriesStore, Protocol):
    """A store that kwhere itself feeds."""

    def append(self, samples: Sequence[ScrapedSample]) -> None:
        """Take samples in; durable at the next flush (each minute) or on close."""
        ...

    def maintain(self) -> None:
        """Drop what is too old and tidy up; called each minute from a thread of its own. Raises Unavailable."""
        ...
