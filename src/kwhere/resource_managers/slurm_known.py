"""Records of `sacct` that are told again as they were: a job is told in each window that it lives in."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from kwhere.core.managed import ManagerUnit
from kwhere.resource_managers.slurm_jobs import JobReader
from kwhere.resource_managers.slurm_sacct import Faults, Table, read_job, split_records

MOST_KNOWN = 25_000
"""So many records of an answer are kept, of some 1.5 kB each; others are read anew."""


class RecordReader:
    """Makes units of the records of answers; what the answer before told alike is not read again.

    Used by one thread.
    """

    def __init__(self, reader: JobReader, most_known: int = MOST_KNOWN) -> None:
        self._reader = reader
        self._most = most_known
        self._fields: tuple[str, ...] = ()
        self._before: dict[bytes, ManagerUnit] = {}
        self._now: dict[bytes, ManagerUnit] = {}

    def read(self, text: str, table: Table, faults: Faults) -> Iterator[ManagerUnit | None]:
        """Yield the unit of each job of an answer without header, None for one that has not started.

        Steps are passed over, what cannot be read is counted.
        """
        self._turn(table.fields)
        for record in split_records(text, table, faults):
            key, damaged = _key(record), faults.count
            unit = self._now.get(key) or self._before.get(key)
            if unit is None:
                job = read_job(record, table, faults)
                if job is None:
                    continue
                unit = self._reader.unit_of(job)
            # One that is damaged is told so again.
            if unit is not None and faults.count == damaged and len(self._now) < self._most:
                self._now[key] = unit
            yield unit

    def _turn(self, fields: tuple[str, ...]) -> None:
        """What the last answer told is what may be told again; values of other fields say other things."""
        self._before = self._now if fields == self._fields else {}
        self._now = {}
        self._fields = fields


def _key(record: Sequence[str]) -> bytes:
    # The delimiter is another in each answer. `repr` keeps apart what joining by any character might not.
    return blake2b(repr(record).encode(), digest_size=16).digest()
