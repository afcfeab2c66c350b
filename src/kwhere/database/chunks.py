"""Long lists of values, piece by piece: a statement takes only so many parameters."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

LONGEST = 500
_T = TypeVar("_T")


def chunks(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield pieces of `values`, in order, of at most 500 each."""
    return (values[at : at + LONGEST] for at in range(0, len(values), LONGEST))
