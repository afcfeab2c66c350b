"""Flags as bits of one integer column, so that they merge with `|` in either database."""

from collections.abc import Iterable

from kwhere.core.terms import Flag

_BITS: dict[Flag, int] = {
    Flag.GAP: 1,
    Flag.ENDED: 2,
    Flag.CLOCK: 4,
    Flag.OVERCOMMITTED: 8,
    Flag.IDLE_TABLE: 16,
    Flag.UNVERIFIED: 32,
    Flag.LOST: 64,
    Flag.UNREPORTED: 128,
    Flag.SLICES: 256,
}
"""Stored: never give a bit another meaning."""


def to_bits(flags: Iterable[Flag]) -> int:
    """Return `flags` as stored."""
    bits = 0
    for flag in flags:
        bits |= _BITS[flag]
    return bits


def from_bits(bits: int) -> frozenset[Flag]:
    """Return the flags of a stored value; bits of later versions are passed over."""
    return frozenset(flag for flag, bit in _BITS.items() if bits & bit)


ALL_BITS: tuple[int, ...] = tuple(_BITS.values())
"""Every bit in use, for merging rows in SQL."""
