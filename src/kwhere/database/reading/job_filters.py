"""Units by the ids of jobs: each way of naming one is found by an index."""

import re
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select

from kwhere.database import schema
from kwhere.database.records import JobWords

_units = schema.units.c
_ESCAPE = "\\"


def job_arms(connection: Connection, jobs: JobWords, clusters: Sequence[int]) -> list[ColumnElement[bool]]:
    """Return what the units of these ids fulfil, one condition per way of naming them; never empty."""
    found: list[ColumnElement[bool]] = [false()]
    if jobs.units:
        found += [_by_native_id(connection, jobs, clusters), _units.job_group.in_(jobs.units)]
    if jobs.shown:
        groups = {re.split(r"[_+]", word)[0] for word in jobs.shown}
        found.append(and_(_units.job_group.in_(groups), or_(*(_is_shown(word) for word in sorted(jobs.shown)))))
    if jobs.runs:
        found.append(_units.run.in_(jobs.runs))
    return found


def _by_native_id(connection: Connection, jobs: JobWords, clusters: Sequence[int]) -> ColumnElement[bool]:
    # The index begins with cluster and manager: both are named so that it serves.
    managers = {manager for cluster_id in clusters for manager in _managers(connection, cluster_id)}
    return and_(_units.cluster_id.in_(clusters), _units.manager.in_(managers), _units.unit.in_(jobs.units))


def _managers(connection: Connection, cluster_id: int) -> list[str]:
    """Return the managers of a cluster's units, each found by one step in the index."""
    found: list[str] = []
    while True:
        after = select(func.min(_units.manager)).where(_units.cluster_id == cluster_id)
        name = connection.execute(after.where(_units.manager > found[-1]) if found else after).scalar_one()
        if name is None:
            return found
        found.append(name)


def _is_shown(word: str) -> ColumnElement[bool]:
    escaped = word.replace("_", f"{_ESCAPE}_")
    return _units.labels.like(f'%"job": "{escaped}"%', escape=_ESCAPE)
