"""The embedded store: the newest samples in memory, each minute a Parquet file, merged into ever larger ones.

One writer (a lock on the directory) and any number of reader threads. What a kill can cost is the last minute.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import Unavailable
from kwhere.core.timespan import Span
from kwhere.series.functions import last_per_step
from kwhere.series.head import Batch, Head
from kwhere.series.labels import decode_labels, encode_labels
from kwhere.series.parquet import (
    DatabaseError,
    Row,
    is_damaged,
    merge_files,
    open_database,
    select_rows,
    write_batch,
)
from kwhere.series.retention import Kept, KeptBy
from kwhere.series.segments import (
    UNFINISHED,
    Level,
    Segment,
    checksum_of,
    find_segments,
    is_whole,
    publish,
    remove,
    set_aside,
)
from kwhere.series.settings import EmbeddedStoreSettings
from kwhere.series.store import RawSeries, ScrapedSample, Selector

log = structlog.get_logger(__name__)

_HOUR_MS = 3_600_000
_REACH_MS = {Level.MINUTE: _HOUR_MS, Level.HOUR: 6 * _HOUR_MS, Level.QUARTER: 24 * _HOUR_MS}
"""Files of a level are merged into one of the next when together they reach this far."""
_MOST_FILES = 120
"""… or when there are more than this: many short lives of the server."""


class EmbeddedSeriesStore:
    """A WritableSeriesStore in a directory. Raises Unavailable when the directory is another's or cannot be used."""

    def __init__(self, directory: Path, settings: EmbeddedStoreSettings, clock: Clock) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._merging = threading.Lock()
        self._head = Head()
        self._lock_file = _take(directory)
        self._segments = self._find()
        self._in_head: set[Segment] = set()
        """Files whose samples are in memory too, and are read there."""
        self._unchecked = list(self._segments)
        """Files of earlier lives whose checksum was not yet looked at."""
        self._next = 1 + max((segment.last for segment in self._segments), default=0)
        self._database = open_database(directory / "scratch", settings.memory_mebibytes, settings.threads)
        self._flushed_ns = clock.monotonic_ns()
        self.lost_samples = 0
        """Samples dropped because they could not be written for too long."""

    @property
    def scrape_seconds(self) -> float:
        """Return the usual distance between two samples of a series, in seconds."""
        return self._settings.scrape_seconds

    def _find(self) -> list[Segment]:
        remove(self._directory / name for name in os.listdir(self._directory) if name.startswith(UNFINISHED))
        segments, replaced = find_segments(self._directory)
        remove(segment.path for segment in replaced)
        for segment in segments:
            if not is_whole(segment.path):
                log.error("series file damaged, set aside", file=str(set_aside(segment.path)))
        return [segment for segment in segments if segment.path.exists()]

    # -- writing

    def append(self, samples: Sequence[ScrapedSample]) -> None:
        """Take samples in, and write those of a minute once it is over.

        Raises Unavailable where writing fails: the samples are kept, and tried again with the next ones.
        """
        with self._lock:
            self._head.append(samples)
            self.lost_samples += self._head.shed(self._settings.head_samples)
        if self._clock.monotonic_ns() - self._flushed_ns >= self._settings.flush_seconds * 1e9:
            self.flush()

    def flush(self) -> None:
        """Write what is in no file yet. Raises Unavailable where it cannot be written."""
        with self._flushing:
            self._flushed_ns = self._clock.monotonic_ns()
            with self._lock:
                batch, marks = self._head.take_unflushed()
            if batch.is_empty:
                return
            number = self._next
            self._next += 1
            segment = _segment_of(self._directory, number, batch)
            try:
                segment = self._write(segment, partial(write_batch, self._database, batch))
            except (DatabaseError, OSError) as error:
                raise Unavailable("write", f"{segment.path}: {error}") from error
            with self._lock:
                for series, end in marks:
                    series.flushed = min(end, len(series.times))
                self._segments.append(segment)
                self._in_head.add(segment)

    def _write(self, segment: Segment, fill: Callable[[Path], None]) -> Segment:
        """Make a file appear whole. Raises DatabaseError, OSError; nothing is left of it then."""
        unfinished = self._directory / f"{UNFINISHED}{segment.path.name}"
        try:
            fill(unfinished)
            return publish(unfinished, segment)
        except (DatabaseError, OSError):
            remove([unfinished])
            raise

    # -- upkeep

    def maintain(self) -> None:
        """Drop what is older than is kept, and merge small files; call it each minute, from a thread of its own.

        Raises Unavailable where a merged file cannot be written; nothing is lost then.
        """
        with self._merging:
            self._expire()
            self._check_next()
            for level in (Level.MINUTE, Level.HOUR, Level.QUARTER):
                self._merge(level)

    def _expire(self) -> None:
        oldest_ms = self._clock.utc_ns() // 1_000_000 - int(self._settings.retention_days * 24 * _HOUR_MS)
        with self._lock:
            expired = [segment for segment in self._segments if segment.end_ms < oldest_ms]
            self._segments = [segment for segment in self._segments if segment.end_ms >= oldest_ms]
            self._in_head.difference_update(expired)
        remove(segment.path for segment in expired)

    def _check_next(self) -> None:
        """Compare one file of an earlier life with its checksum; one a minute does not burden the disk."""
        while self._unchecked:
            segment = self._unchecked.pop()
            with contextlib.suppress(FileNotFoundError):  # merged or expired meanwhile
                if checksum_of(segment.path) != segment.checksum:
                    self._set_aside([segment])
                return

    def _merge(self, level: Level) -> None:
        with self._lock:
            parts = [segment for segment in self._segments if segment.level is level]
            if not self._is_due(level, parts):
                return
            if level is Level.MINUTE:
                self._head.seal()
        whole = _merged(parts)
        try:
            whole = self._write(whole, partial(merge_files, self._database, [part.path for part in parts]))
        except (DatabaseError, OSError) as error:
            if self._set_damaged_aside(parts):
                return  # the others are merged next time
            raise Unavailable("write", f"{whole.path}: {error}") from error
        with self._lock:
            if level is Level.MINUTE:
                self._head.drop_sealed()
            self._segments = [whole if s is parts[0] else s for s in self._segments if s not in parts[1:]]
            self._in_head.difference_update(parts)
        remove(part.path for part in parts)

    def _is_due(self, level: Level, parts: Sequence[Segment]) -> bool:
        if not parts:
            return False
        if level is Level.MINUTE and any(part not in self._in_head for part in parts):
            return True  # left by an earlier life
        if level is Level.MINUTE and self._head.count > self._settings.head_samples // 2:
            return True
        reach_ms = max(part.end_ms for part in parts) - min(part.start_ms for part in parts)
        return reach_ms >= _REACH_MS[level] or len(parts) > _MOST_FILES

    # -- reading

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        """Return, per series, the last raw sample of each step. Raises Unavailable."""
        if selector.nodes:
            alone = [Selector(selector.name, {**selector.labels, "node": node}) for node in sorted(set(selector.nodes))]
            found_there = [series for each in alone for series in self.select(each, span, step_seconds)]
            return sorted(found_there, key=lambda series: encode_labels(series.labels.items()))
        start_ms, end_ms = (round(time.timestamp() * 1000) for time in (span.start, span.end))
        step_ms = max(1, round(step_seconds * 1000))
        while True:
            with self._lock:
                newest = [(s.text, *s.samples(start_ms, end_ms)) for s in self._head.matching(selector)]
                segments = [s for s in self._segments if s not in self._in_head and s.overlaps(start_ms, end_ms)]
            try:
                rows = self._rows(segments, selector, start_ms, end_ms, step_ms)
                break
            except DatabaseError as error:
                gone = any(not segment.path.exists() for segment in segments)  # merged meanwhile: look again
                if not gone and not self._set_damaged_aside(segments):
                    raise Unavailable("read", f"{self._directory}: {error}") from error
        found = {text: (times, values) for text, times, values in rows}
        for text, times, values in newest:
            if times:
                found[text] = _joined(found.get(text, ([], [])), (times, values), step_ms)
        return [_series(text, *found[text]) for text in sorted(found)]

    def kept(self, cluster: str, now: datetime) -> Kept:
        """Return how far back samples go: so far as they are kept."""
        days = self._settings.retention_days
        return Kept(now - timedelta(days=days), KeptBy.TIME, f"{days:g}d")

    def _rows(
        self, segments: Sequence[Segment], selector: Selector, start_ms: int, end_ms: int, step_ms: int
    ) -> list[Row]:
        if not segments:
            return []
        paths = [segment.path for segment in segments]
        return select_rows(self._database, paths, selector, start_ms, end_ms, step_ms)

    def _set_damaged_aside(self, segments: Sequence[Segment]) -> bool:
        """Set the files aside that cannot be read; return whether there was one."""
        damaged = [segment for segment in segments if is_damaged(self._database, segment.path)]
        self._set_aside(damaged)
        return bool(damaged)

    def _set_aside(self, damaged: Sequence[Segment]) -> None:
        """Rename files so that nobody reads them again. Samples that are in memory too are kept there."""
        for segment in damaged:
            log.error("series file damaged, set aside", file=str(set_aside(segment.path)))
        with self._lock:
            self._segments = [segment for segment in self._segments if segment not in damaged]
            self._in_head.difference_update(damaged)

    def close(self) -> None:
        """Write what is left and give the directory back. Raises Unavailable where it cannot be written."""
        try:
            self.flush()
        finally:
            with self._merging:
                self._database.close()
                os.close(self._lock_file)


def _take(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / "scratch").mkdir(exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable("path", f"{directory}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise Unavailable("locked", f"{directory}: another process writes here") from error
    return descriptor


def _segment_of(directory: Path, number: int, batch: Batch) -> Segment:
    start_ms = min(min(times) for times in batch.times)
    end_ms = max(max(times) for times in batch.times)
    return Segment(directory, Level.MINUTE, number, number, start_ms, end_ms)


def _merged(parts: Sequence[Segment]) -> Segment:
    return Segment(
        parts[0].directory,
        Level(parts[0].level + 1),
        min(part.first for part in parts),
        max(part.last for part in parts),
        min(part.start_ms for part in parts),
        max(part.end_ms for part in parts),
    )


def _joined(
    old: tuple[list[int], list[float]], new: tuple[list[int], list[float]], step_ms: int
) -> tuple[list[int], list[float]]:
    """Return the last sample per step of what is in files and what is in memory."""
    times, values = old[0] + new[0], old[1] + new[1]
    if old[0] and old[0][-1] >= new[0][0]:  # the clock stepped back
        order = sorted(range(len(times)), key=times.__getitem__)
        times, values = [times[i] for i in order], [values[i] for i in order]
    kept = list(last_per_step(times, values, step_ms))
    return [int(time) for time, _ in kept], [value for _, value in kept]


def _series(text: str, times: list[int], values: list[float]) -> RawSeries:
    return RawSeries(decode_labels(text), tuple(time / 1000 for time in times), tuple(values))
