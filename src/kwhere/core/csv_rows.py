"""Tables as CSV that a person keeps: a line with names of columns, then a row per line. Pure."""

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kwhere.core.errors import SourceError

_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row: the cells by column, without spaces around them, and where it stands for whoever must mend it."""

    place: str
    cells: Mapping[str, str]


def csv_rows(
    text: str, place: str, required: Collection[str], allowed: Collection[str] | None = None
) -> Iterator[CsvRow]:
    """Yield the rows; lines that are empty or begin with `#` are passed over. Raises SourceError that names the line.

    Commas, semicolons or tabs, whichever the first line has most of. `allowed` None: any further column may stand.
    """
    # A name may hold what else ends a line in Unicode.
    numbered = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    lines = [(number, line) for number, line in numbered if line.strip() and line[0] != "#"]
    if not lines:
        raise SourceError(f"{place}: expected a line with names of columns, found nothing")
    first, header_line = lines[0]
    delimiter = max(_DELIMITERS, key=header_line.count)
    header = _cells(header_line, delimiter, f"{place} line {first}")
    _check_header(header, required, allowed, f"{place} line {first}")
    for number, line in lines[1:]:
        where = f"{place} line {number}"
        cells = _cells(line, delimiter, where)
        if len(cells) != len(header):
            raise SourceError(f"{where}: expected {len(header)} cells, found {len(cells)}")
        yield CsvRow(where, dict(zip(header, cells, strict=True)))


def _cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise SourceError(f"{where}: expected CSV: {error}") from error
    return [cell.strip() for cell in rows[0]] if rows else []


def _check_header(header: list[str], required: Collection[str], allowed: Collection[str] | None, where: str) -> None:
    for name in required:
        if name not in header:
            raise SourceError(f"{where}: expected a column {name}, found {str(header)[:200]}")
    if len(set(header)) < len(header):
        raise SourceError(f"{where}: expected each column once, found {str(header)[:200]}")
    unknown = [name for name in header if name not in allowed] if allowed is not None else []
    if unknown:
        raise SourceError(f"{where}: expected columns among {', '.join(allowed or ())}, found {str(unknown)[:100]}")
