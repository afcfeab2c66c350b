"""Which week of which scheduled report was written: kept so that each is written once."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Engine, select

from kwhere.core.iso_week import IsoWeek
from kwhere.core.timespan import Span
from kwhere.database import bulk, schema
from kwhere.database.engine import writing
from kwhere.database.grid import to_ns
from kwhere.database.reading.unit_filters import cluster_ids

_weeks, _nodes = schema.report_weeks.c, schema.nodes.c


class WeekState(StrEnum):
    """What became of a week of a report."""

    WAITING = "waiting"
    WRITTEN = "written"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class KeptWeek:
    """What is known of a week of a report."""

    state: WeekState
    since_ns: int
    """When it was first seen to be due, UTC ns."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written of a week."""

    file: str
    sha256: str
    completeness_ratio: float | None


def read_weeks(engine: Engine, report: str) -> Mapping[IsoWeek, KeptWeek]:
    """Return the weeks of a report that were ever due."""
    query = select(_weeks.week, _weeks.state, _weeks.since_ns).where(_weeks.report == report)
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return {IsoWeek.parse(row.week): KeptWeek(WeekState(row.state), row.since_ns) for row in rows}


def note_weeks(engine: Engine, report: str, weeks: Collection[IsoWeek], state: WeekState, now_ns: int) -> None:
    """Keep that weeks are waited for, or were missed; what is known of one already stays."""
    rows: list[bulk.Row] = [(report, str(week), str(state), now_ns) for week in weeks]
    keep = dict.fromkeys(("state", "since_ns"), bulk.Merge.KEEP)
    with writing(engine).begin() as connection:
        bulk.upsert(connection, schema.report_weeks, ("report", "week"), keep, rows)


def write_once(
    engine: Engine, report: str, week: IsoWeek, written: Written, now_ns: int, publish: Callable[[], None]
) -> bool:
    """Have `publish` put the week's file in its place, and keep that; False, without that, where it was done before.

    The row is taken first and the file put while it is held: of several servers one does it, and one that dies in
    between, or cannot publish, leaves a row that still waits. The file has to be the same each time it is put.
    """
    mine = (_weeks.report == report, _weeks.week == str(week), _weeks.state != str(WeekState.WRITTEN))
    values = {
        "state": str(WeekState.WRITTEN),
        "written_ns": now_ns,
        "file": written.file,
        "sha256": written.sha256,
        "completeness_ratio": written.completeness_ratio,
    }
    with writing(engine).begin() as connection:
        taken = connection.execute(schema.report_weeks.update().where(*mine).values(values))
        if taken.rowcount != 1:
            return False
        publish()
    return True


def is_read_to_end(engine: Engine, span: Span, cluster: str | None = None) -> bool:
    """Return whether what is to come of a span that is over has come: its nodes were read to its end, and summed up.

    A node that was heard of last before the span began is not waited for.
    """
    start_ns, end_ns = to_ns(span.start), to_ns(span.end)
    touched = schema.touched.c
    behind = select(_nodes.id).where(
        _nodes.retired_ns.is_(None),
        _nodes.first_start_ns < end_ns,
        _nodes.newest_end_ns >= start_ns,
        _nodes.newest_end_ns < end_ns,
    )
    waits = select(touched.node_id).where(touched.start_ns >= start_ns, touched.start_ns < end_ns)
    with engine.connect() as connection:
        if cluster is not None:
            theirs = _nodes.cluster_id.in_(cluster_ids(connection, cluster))
            behind = behind.where(theirs)
            waits = waits.where(touched.node_id.in_(select(_nodes.id).where(theirs)))
        return all(connection.execute(query.limit(1)).first() is None for query in (behind, waits))
