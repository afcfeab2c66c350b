"""Lists by page: what may be asked of each of them, and how a file gets all pages."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar

from fastapi import Depends, Query, Request

from kwhere.api.context import After, Format, Limit
from kwhere.api.csv_text import wants_csv

WHOLE = 1000
"""Items of a page within a CSV."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of a list is asked for, or all of it as a file."""

    limit: int
    after: str | None
    is_csv: bool


def _paging(items: int) -> Callable[..., Paging]:
    def read(
        request: Request,
        limit: Limit = items,
        after: After = None,
        format_: Annotated[Format, Query(alias="format")] = None,
    ) -> Paging:
        return Paging(limit, after, wants_csv(request, format_))

    return read


By50 = Annotated[Paging, Depends(_paging(50))]
By100 = Annotated[Paging, Depends(_paging(100))]
By200 = Annotated[Paging, Depends(_paging(200))]
"""By so many items a page, unless another number is asked for."""


class RecordPage(Protocol[T_co]):
    """A page of the account."""

    @property
    def items(self) -> Sequence[T_co]:
        """Return its records."""
        ...

    @property
    def next(self) -> str | None:
        """Return where the next one begins; None for the last."""
        ...


def all_records(ask: Callable[[str | None], RecordPage[T]]) -> Iterator[T]:
    """Return the records of all pages, each asked for by `next` of the one before.

    The first is read at once: what refuses must not do so within a download.
    """
    return _following(ask, ask(None))


def _following(ask: Callable[[str | None], RecordPage[T]], page: RecordPage[T]) -> Iterator[T]:
    while True:
        yield from page.items
        if page.next is None:
            return
        page = ask(page.next)
