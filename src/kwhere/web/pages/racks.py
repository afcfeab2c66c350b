"""Racks: what their nodes draw against what they may."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.quantities import joules
from kwhere.database.inventory_records import RackRecord
from kwhere.web.formatting import BarPiece, Column, bar_pieces, column_of


@dataclass(frozen=True, slots=True)
class RackRow:
    """A line of the table of racks, in watts."""

    record: RackRecord
    watts: float | None
    pieces: Sequence[BarPiece]
    """Power against the limit; none where one of them is not known."""
    used_ratio: float | None

    @property
    def is_over(self) -> bool:
        """Return whether it draws more than it may."""
        return self.used_ratio is not None and self.used_ratio > 1


@dataclass(frozen=True, slots=True)
class RackTable:
    """The racks and the scale of their figures."""

    rows: Sequence[RackRow]
    column: Column


def rack_table(records: Sequence[RackRecord]) -> RackTable:
    """Return the table of racks, the fullest first, those without a limit last."""
    rows = sorted(map(_row, records), key=lambda row: -1.0 if row.used_ratio is None else row.used_ratio, reverse=True)
    watts = [value for row in rows for value in (row.watts, row.record.limit_watts)]
    return RackTable(rows, column_of(watts, "power"))


def _row(record: RackRecord) -> RackRow:
    watts, limit = None if record.power_uw is None else joules(record.power_uw), record.limit_watts
    if watts is None or limit is None:
        return RackRow(record, watts, (), None)
    return RackRow(record, watts, bar_pieces([("fill-accent", "power now", watts)], max(limit, watts)), watts / limit)
