"""The newest samples of the embedded store, in memory: what is not yet in a file of many minutes."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.series.labels import encode_labels, matches
from kwhere.series.store import ScrapedSample, Selector


class HeadSeries:
    """One series: times in ms and values side by side, 16 bytes a sample."""

    __slots__ = ("flushed", "in_order", "labels", "name", "sealed", "text", "times", "values")

    def __init__(self, name: str, labels: dict[str, str], text: str) -> None:
        self.name = name
        self.labels = labels
        self.text = text
        self.times = array("q")
        self.values = array("d")
        self.flushed = 0
        """How many of the first samples are in a file."""
        self.sealed = 0
        """How many of the first samples are in the files being merged."""
        self.in_order = True

    def add(self, time_ms: int, value: float) -> None:
        """Take a sample in; the clock may have stepped back."""
        if self.times and time_ms <= self.times[-1]:
            self.in_order = False
        self.times.append(time_ms)
        self.values.append(value)

    def forget(self, count: int) -> None:
        """Drop the first `count` samples."""
        del self.times[:count]
        del self.values[:count]
        self.flushed = max(0, self.flushed - count)
        self.sealed = max(0, self.sealed - count)

    def samples(self, start_ms: int, end_ms: int) -> tuple[list[int], list[float]]:
        """Return times and values of the samples of [start, end) in time order; of one time the last that came."""
        if self.in_order:
            part = slice(bisect_left(self.times, start_ms), bisect_left(self.times, end_ms))
            return self.times[part].tolist(), self.values[part].tolist()
        latest = dict(zip(self.times, self.values, strict=True))
        times = sorted(time for time in latest if start_ms <= time < end_ms)
        return times, [latest[time] for time in times]


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples on their way into a file, by series."""

    names: list[str]
    texts: list[str]
    times: list[list[int]]
    values: list[list[float]]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not self.names


class Head:
    """All series of which a sample is in memory. Not thread-safe: the store holds its lock."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[tuple[tuple[str, str], ...], HeadSeries]] = {}
        self.count = 0

    def append(self, samples: Sequence[ScrapedSample]) -> None:
        """Take samples in."""
        for sample in samples:
            series = self._by_name.setdefault(sample.name, {}).get(sample.labels)
            if series is None:
                series = self._create(sample)
            series.add(round(sample.time_s * 1000), sample.value)
        self.count += len(samples)

    def _create(self, sample: ScrapedSample) -> HeadSeries:
        labels = {name: value for name, value in sample.labels if value}
        series = HeadSeries(sample.name, labels, encode_labels(sample.labels))
        self._by_name[sample.name][sample.labels] = series
        return series

    def matching(self, selector: Selector) -> list[HeadSeries]:
        """Return the series that `selector` matches."""
        held = self._by_name.get(selector.name, {})
        return [series for series in held.values() if matches(selector.labels, series.labels)]

    def _all(self) -> list[HeadSeries]:
        return [series for held in self._by_name.values() for series in held.values()]

    def take_unflushed(self) -> tuple[Batch, list[tuple[HeadSeries, int]]]:
        """Return what is in no file yet, and up to where each series will be flushed once it is written."""
        marks = [(series, len(series.times)) for series in self._all() if len(series.times) > series.flushed]
        batch = Batch(
            [series.name for series, _ in marks],
            [series.text for series, _ in marks],
            [series.times[series.flushed : end].tolist() for series, end in marks],
            [series.values[series.flushed : end].tolist() for series, end in marks],
        )
        return batch, marks

    def seal(self) -> None:
        """Remember which samples are in files now."""
        for series in self._all():
            series.sealed = series.flushed

    def drop_sealed(self) -> None:
        """Forget the samples that were in files at the last `seal`, and series that have none left."""
        for series in self._all():
            self.count -= series.sealed
            series.forget(series.sealed)
        self._prune()

    def shed(self, keep: int) -> int:
        """Drop the oldest samples until about `keep` are left; return how many of them are in no file."""
        lost = 0
        if self.count > keep:
            share = 1 - keep / self.count
            for series in self._all():
                count = int(len(series.times) * share) + 1
                lost += max(0, min(count, len(series.times)) - series.flushed)
                self.count -= min(count, len(series.times))
                series.forget(count)
            self._prune()
        return lost

    def _prune(self) -> None:
        self._by_name = {
            name: kept
            for name, held in self._by_name.items()
            if (kept := {labels: series for labels, series in held.items() if series.times})
        }
