"""Spans that are asked for in halves where the answer is too long."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerUnit
from kwhere.core.timespan import Span
from kwhere.transport.answers import AnswerTooLongError

SHORTEST = timedelta(minutes=5)


class SpanTooLongError(AnswerTooLongError):
    """The other side would have answered for a shorter span: the limit is its own."""


def fetch_in_halves(span: Span, fetch: Callable[[Span], Iterable[ManagerUnit]], limit: str) -> Iterator[ManagerUnit]:
    """Yield what `fetch` returns, of halves of the span where that is too long; `limit` is the key that bounds it.

    `fetch` raises AnswerTooLongError before it returns. Raises SourceError where even a short span is too long.
    """
    try:
        units = fetch(span)
    except AnswerTooLongError as error:
        if span.end - span.start <= SHORTEST:
            remedy = "" if isinstance(error, SpanTooLongError) else f"; raise {limit}"
            raise SourceError(f"{error}, even for {span.seconds:g} s{remedy}") from error
        middle = span.start + (span.end - span.start) / 2
        yield from fetch_in_halves(Span(span.start, middle), fetch, limit)
        yield from fetch_in_halves(Span(middle, span.end), fetch, limit)
        return
    yield from units
