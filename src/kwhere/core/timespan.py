"""Half-open UTC spans."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """[start, end) in aware UTC datetimes; never empty."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.utcoffset() is None or self.end.utcoffset() is None:
            raise ValueError(f"span: expected aware datetimes, found {self.start!r} and {self.end!r}")
        if self.end <= self.start:
            raise ValueError(f"span: expected start before end, found {self.start} and {self.end}")

    @property
    def seconds(self) -> float:
        """Return the length in seconds."""
        return (self.end - self.start).total_seconds()

    def overlaps(self, other: "Span") -> bool:
        """Return whether the two share an instant."""
        return self.start < other.end and other.start < self.end

    def buckets(self, width: timedelta) -> Iterator["Span"]:
        """Yield the buckets of `width`, aligned to the Unix epoch, that touch this span, whole and in order."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        start = epoch + (self.start - epoch) // width * width
        while start < self.end:
            yield Span(start, start + width)
            start += width
