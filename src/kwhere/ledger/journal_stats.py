"""What a journal counted since its process began."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalStats:
    """Counts since the process began, and what is held now."""

    slots_total: int
    """Slots committed."""
    lost_total: int
    """Slots that a bound removed before any reader had pulled them."""
    errors_total: Mapping[str, int]
    """Failed openings, writes and reads by cause."""
    slots_held: int
    bytes_held: int
    created_s: float
    """Unix seconds since when the totals count."""
