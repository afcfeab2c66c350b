"""Samples in Parquet files, through DuckDB.

One row per sample, sorted by (name, labels, time), so that name, labels and time cost next to nothing. A series whose
values all are decimals of few places is kept as integers (value · 10^places), which pack into a few bits; reading
gives back the very same doubles, or the series is kept raw.
"""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from kwhere.series.head import Batch
from kwhere.series.labels import bounds, fragments
from kwhere.series.store import Selector

_VALUE = "coalesce(raw, scaled / pow(10, places))"
_PLACES = (0, 3, 6, 9)
_EXACT = 2**53
"""Integers below this have a double of their own."""
_FITS = " ".join(
    f"when bool_and(round(value * {10**p}) / {10**p} = value and abs(value) * {10**p} < {_EXACT}) then {p}"
    for p in _PLACES
)
_PACK = f"""
    with places as (select name, labels, (case {_FITS} end)::tinyint as places from samples group by name, labels)
    select name, labels, time, places,
           case when places is not null then round(value * pow(10, places))::bigint end as scaled,
           case when places is null then value end as raw
    from samples join places using (name, labels)
    order by name, labels, time
"""  # noqa: S608 - constants of this module
_FORMAT = "format parquet, parquet_version v2, compression zstd, row_group_size 122880"
_BATCH = """
    create or replace temp table samples as
    select name, labels, unnest(times) as time, unnest(values) as value
    from (select unnest($names::varchar[]) as name, unnest($texts::varchar[]) as labels,
                 unnest($times::bigint[][]) as times, unnest($values::double[][]) as values)
"""
DatabaseError = duckdb.Error
"""What every function here raises where a file cannot be read or written."""
_NOT_THE_FILE = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.ConnectionException,
    duckdb.InterruptException,
    duckdb.PermissionException,
    duckdb.FatalException,
)
"""Errors that say nothing against a file's content."""

Row = tuple[str, list[int], list[float]]
"""Labels as text, times in ms, values."""


def open_database(scratch: Path, memory_mebibytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Return an empty database in memory that reads and writes files, asks no network and spills to `scratch`."""
    database = duckdb.connect(":memory:")
    for name, value in (
        ("threads", str(threads)),
        ("memory_limit", f"'{memory_mebibytes}MiB'"),
        ("temp_directory", _quoted(scratch)),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("enable_progress_bar", "false"),
        ("parquet_metadata_cache", "true"),
    ):
        database.execute(f"set {name} = {value}")
    return database


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def write_batch(database: duckdb.DuckDBPyConnection, batch: Batch, path: Path) -> None:
    """Write a batch into a new file."""
    with database.cursor() as cursor:
        parameters = {"names": batch.names, "texts": batch.texts, "times": batch.times, "values": batch.values}
        cursor.execute(_BATCH, parameters)
        cursor.execute(f"copy ({_PACK}) to {_quoted(path)} ({_FORMAT})")


def merge_files(database: duckdb.DuckDBPyConnection, paths: Sequence[Path], path: Path) -> None:
    """Write all samples of `paths` into one new file."""
    with database.cursor() as cursor:
        files = ", ".join(_quoted(source) for source in paths)
        cursor.execute(
            "create or replace temp view samples as "  # noqa: S608 - quoted paths of our own
            f"select name, labels, time, {_VALUE} as value from read_parquet([{files}])"
        )
        cursor.execute(f"copy ({_PACK}) to {_quoted(path)} ({_FORMAT})")


def select_rows(
    database: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    selector: Selector,
    start_ms: int,
    end_ms: int,
    step_ms: int,
) -> list[Row]:
    """Return the series that match, by labels, with the last sample of each step in time order."""
    low, high = bounds(selector.labels)
    present, absent = fragments(selector.labels)
    conditions = [f"contains(labels, $present{i})" for i in range(len(present))]
    conditions += [f"not contains(labels, $absent{i})" for i in range(len(absent))]
    query = f"""
        select labels, list(time order by time), list(value order by time) from (
            select labels, max(time) as time, arg_max({_VALUE}, time) as value from read_parquet($files)
            where name = $name and labels >= $low and labels < $high and time >= $start and time < $end
                  {"".join(f" and {condition}" for condition in conditions)}
            group by labels, (time + $step - 1) // $step
        ) group by labels order by labels
    """  # noqa: S608 - the parts are written here, the values are parameters
    parameters: dict[str, object] = {
        "files": [str(path) for path in paths],
        "name": selector.name,
        "low": low,
        "high": high,
        "start": start_ms,
        "end": end_ms,
        "step": step_ms,
        **{f"present{i}": text for i, text in enumerate(present)},
        **{f"absent{i}": text for i, text in enumerate(absent)},
    }
    with database.cursor() as cursor:
        return cursor.execute(query, parameters).fetchall()


def is_damaged(database: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Return whether a file is there and its pages cannot be read."""
    query = f"select max(name), max(labels), max(time), max({_VALUE}) from read_parquet($file)"  # noqa: S608
    try:
        with database.cursor() as cursor:
            cursor.execute(query, {"file": str(path)}).fetchall()
    except _NOT_THE_FILE:
        return False
    except DatabaseError:
        return path.exists()
    return False
