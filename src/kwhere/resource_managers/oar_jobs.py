"""Jobs as OAR 2 and OAR 3 tell them, by `oarstat` and by REST: four dialects, one record.

Names of one thing differ (`Job_Id`, `job_id`, `id`), as does the form around the jobs: an object keyed by id, a list,
a page with `items`, `--gantt`'s object with `jobs`. Only times in states that say so are believed: `--gantt` writes the
end that it expects into a job that runs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from kwhere.core.errors import SourceError
from kwhere.resource_managers.oar_fields import (
    Faults,
    first_of,
    is_said,
    parse_id,
    parse_length,
    parse_number,
    parse_text,
    parse_time,
    parse_words,
)

WAITING = frozenset({"waiting", "hold", "tolaunch", "toackreservation"})
LIVING = frozenset({"launching", "running", "suspended", "resuming", "finishing", "toerror"})
OVER = frozenset({"terminated", "error"})
ID_NAMES = ("Job_Id", "job_id", "id")
_START = ("startTime", "start_time")
_STOP = ("stopTime", "stop_time")


@dataclass(frozen=True, slots=True)
class OarJob:
    """One job that has started."""

    job_id: str
    state: str
    """In lower case."""
    started_at: datetime
    ended_at: datetime | None = None
    submitted_at: datetime | None = None
    name: str | None = None
    user: str | None = None
    project: str | None = None
    queue: str | None = None
    types: tuple[str, ...] = ()
    array_id: str | None = None
    array_index: str | None = None
    resubmit_of: str | None = None
    walltime_seconds: float | None = None
    wait_status: int | None = None
    """As wait(2) has it."""
    resources: tuple[str, ...] | None = None
    """Ids of what it was assigned; None: this dialect does not say."""
    nodes: tuple[str, ...] | None = None


def read_jobs(document: object, place: str, zone: ZoneInfo | None, faults: Faults) -> Iterator[OarJob]:
    """Yield the jobs that have started; one that cannot be read is counted. Raises SourceError for another form."""
    for key, value in records(document, place):
        if not isinstance(value, Mapping):
            faults.add(f"{place}: job {key}: expected an object, found {type(value).__name__}")
            continue
        try:
            job = _job(key, value, zone)
        except SourceError as error:
            faults.add(f"{place}: {error}")
            continue
        if job is not None:
            yield job


def records(document: object, place: str) -> Iterator[tuple[str, object]]:
    """Yield key and value of each record, whatever stands around them. Raises SourceError."""
    if isinstance(document, Mapping):
        for inner in ("items", "jobs"):
            if isinstance(document.get(inner), list | Mapping):
                document = document[inner]
                break
    if isinstance(document, list):
        yield from (("", value) for value in document)
    elif isinstance(document, Mapping):
        yield from ((str(key), value) for key, value in document.items())
    else:
        raise SourceError(f"{place}: expected an object or a list, found {type(document).__name__}")


def _job(key: str, record: Mapping[str, object], zone: ZoneInfo | None) -> OarJob | None:
    job_id = parse_id(first_of(record, ID_NAMES)) or parse_id(key)
    if job_id is None:
        raise SourceError(f"job {key[:40]!r}: expected an id")
    state = (parse_text(record.get("state")) or "").lower()
    if not state:
        raise SourceError(f"job {job_id}: expected a state")
    said_start = first_of(record, _START)
    if state in WAITING or not is_said(said_start):
        return None
    started_at = parse_time(said_start, zone)
    if started_at is None:
        raise SourceError(f"job {job_id}: expected a start in epoch seconds (or set time_zone), found {said_start!r}")
    return OarJob(
        job_id=job_id,
        state=state,
        started_at=started_at,
        ended_at=_end(job_id, state, record, started_at, zone),
        submitted_at=parse_time(first_of(record, ("submissionTime", "submission_time", "submission")), zone),
        name=parse_text(first_of(record, ("name", "job_name"))),
        user=parse_text(first_of(record, ("owner", "user", "job_user"))),
        project=parse_text(record.get("project")),
        queue=parse_text(first_of(record, ("queue", "queue_name"))),
        types=parse_words(record.get("types")),
        array_id=parse_id(record.get("array_id")),
        array_index=parse_id(record.get("array_index")),
        resubmit_of=parse_id(record.get("resubmit_job_id")),
        walltime_seconds=parse_length(record.get("walltime")),
        wait_status=_status(first_of(record, ("exit_code", "exit_status_code"))),
        resources=_assigned(record, ("assigned_resources", "resource_id", "resources"), ("id", "resource_id")),
        nodes=_assigned(record, ("assigned_network_address", "network_address", "nodes"), ("network_address",)),
    )


def _end(
    job_id: str, state: str, record: Mapping[str, object], started_at: datetime, zone: ZoneInfo | None
) -> datetime | None:
    """Return when a job ended, None while it runs. Raises SourceError where it is over and nobody knows since when."""
    if state in LIVING:
        return None
    said = first_of(record, _STOP)
    if not is_said(said):
        if state not in OVER:
            return None
        ended_at = _last_event(record, zone)
    else:
        ended_at = parse_time(said, zone)
    if ended_at is None or ended_at < started_at:
        raise SourceError(f"job {job_id}: is {state}; expected an end after its start, found {said!r}")
    return ended_at


def _last_event(record: Mapping[str, object], zone: ZoneInfo | None) -> datetime | None:
    events = record.get("events")
    dates = [parse_time(event.get("date"), zone) for event in _objects(events)]
    return max((date for date in dates if date is not None), default=None)


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, Mapping))


def _assigned(record: Mapping[str, object], names: tuple[str, ...], keys: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return ids or names, each once; of objects only those that are assigned, not those that are foreseen."""
    value = first_of(record, names)
    if not isinstance(value, list):
        return None
    found: dict[str, None] = {}
    for each in value:
        if isinstance(each, Mapping):
            if each.get("status", "assigned") != "assigned":
                continue
            each = first_of(each, keys)
        text = parse_text(each)
        if text is not None:
            found[text] = None
    return tuple(found)


def _status(value: object) -> int | None:
    number = parse_number(value)
    return int(number) if number is not None and 0 <= number < 2**16 and number == int(number) else None
