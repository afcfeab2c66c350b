"""What `sacct --parsable2` writes, read back whole: names may hold any delimiter a person thinks of, and line ends.

The delimiter is therefore drawn anew for each call. A record begins and ends with the raw job id, so that the end of a
line within a name is never taken for the end of a record.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from kwhere.core.errors import SourceError
from kwhere.resource_managers.slurm_jobs import SlurmJob, with_whole_times
from kwhere.resource_managers.slurm_words import (
    Tres,
    parse_duration,
    parse_job_id,
    parse_memory,
    parse_time,
    parse_tres,
    sluid_of,
    step_of,
)

_MARK = "JobIDRaw"
NEEDED: tuple[str, ...] = (_MARK, "JobID", "Start", "End", "State")
WANTED: tuple[str, ...] = (
    *("SLUID", "Submit", "User", "UID", "Group", "Account", "Partition", "NodeList", "AllocTRES", "AllocCPUS"),
    *(
        "AllocNodes",
        "ElapsedRaw",
        "Elapsed",
        "ReqMem",
        "QOS",
        "ExitCode",
        "Reservation",
        "WCKey",
        "Restarts",
        "JobName",
        "Comment",
    ),
)
_FACTS = {"QOS": "qos", "ExitCode": "exit_code", "Reservation": "reservation", "WCKey": "wckey", "Restarts": "restarts",
          "Comment": "comment"}  # fmt: skip
_NOTHING = frozenset({"", "None", "(null)", "Unknown", "N/A"})
_T = TypeVar("_T")


def draw_delimiter() -> str:
    """Return a delimiter that nobody can have put into a name."""
    return f"\x1f{secrets.token_hex(4)}\x1f"


def offered_fields(helpformat: str) -> frozenset[str]:
    """Return the fields that `sacct --helpformat` lists, as it spells them."""
    return frozenset(re.findall(r"[A-Za-z][A-Za-z0-9]*", helpformat))


def choose_fields(offered: frozenset[str]) -> tuple[str, ...]:
    """Return what to ask for, in order. Raises SourceError where what identifies a job is not offered."""
    known = {name.lower(): name for name in offered}
    missing = [name for name in NEEDED if name.lower() not in known]
    if missing:
        raise SourceError(f"sacct: expected the fields {', '.join(NEEDED)}, found none called {', '.join(missing)}")
    extra = [name for name in WANTED if name.lower() in known]
    return (*NEEDED, *extra, _MARK)


@dataclass(frozen=True, slots=True)
class Table:
    """How an answer is laid out."""

    fields: tuple[str, ...]
    delimiter: str


@dataclass(slots=True)
class Faults:
    """Records that could not be read, and what the first lacked."""

    count: int = 0
    first: str = ""
    torn: int = 0
    """Those of `count` that are no records at all."""

    def add(self, fault: str) -> None:
        """Count one."""
        self.count += 1
        self.first = self.first or fault

    def add_torn(self, fault: str) -> None:
        """Count one that is no record."""
        self.torn += 1
        self.add(fault)


def read_job(record: Sequence[str], table: Table, faults: Faults) -> SlurmJob | None:
    """Return the job of a record; None for a step, and for what cannot be read, which is counted."""
    try:
        job = _job(dict(zip(table.fields, record, strict=True)))
        return None if job is None else with_whole_times(job, faults.add)
    except SourceError as error:
        faults.add(str(error))
        return None


def split_records(text: str, table: Table, faults: Faults) -> Iterator[Sequence[str]]:
    """Yield the values of each record. One that does not end as it began is passed over up to the next that does."""
    most = len(table.fields) - 1
    pending: list[str] = []
    seen = 0
    for line in text.split("\n"):
        if not pending and not line:
            continue
        pending.append(line)
        here = line.count(table.delimiter)
        seen += here
        if seen < most:
            continue
        values = "\n".join(pending).split(table.delimiter)
        if seen == most and values[0] == values[-1]:
            yield values
        else:
            faults.add_torn(f"sacct: expected {most + 1} values that begin and end alike, found {len(values)}")
            # A record that was cut short must not swallow the next, which is whole by itself.
            alone = line.split(table.delimiter)
            if here == most and alone[0] == alone[-1]:
                yield alone
        pending, seen = [], 0
    if pending:
        faults.add_torn("sacct: the last record is cut short")


def _job(values: dict[str, str]) -> SlurmJob | None:
    raw = parse_job_id(values[_MARK])
    if step_of(values["JobID"]) is not None or raw.step is not None or raw.job is None:
        return None
    allocated = _allocated(values)
    uid = values.get("UID", "")
    return SlurmJob(
        raw_id=raw.job,
        shown_id=values["JobID"].strip(),
        state=values["State"],
        sluid=sluid_of(values.get("SLUID", "")),
        submitted_at=_or_none(parse_time, values.get("Submit", "")),
        started_at=parse_time(values["Start"]),
        ended_at=_end(values),
        name=values.get("JobName") or None,
        user=_word(values, "User"),
        uid=int(uid) if uid.isdecimal() and len(uid) <= 10 else None,
        group=_word(values, "Group"),
        account=_word(values, "Account"),
        partition=_word(values, "Partition"),
        nodes=values.get("NodeList", ""),
        allocated=allocated,
        elapsed_seconds=_elapsed(values),
        facts={ours: _word(values, theirs) or "" for theirs, ours in _FACTS.items()},
    )


def _elapsed(values: dict[str, str]) -> float | None:
    """Return the seconds without times of suspension, in a release without ElapsedRaw from `1-02:03:04`."""
    raw = values.get("ElapsedRaw", "").strip()
    return float(raw) if raw.isdecimal() and len(raw) <= 12 else _or_none(parse_duration, values.get("Elapsed", ""))


def _word(values: dict[str, str], field: str) -> str | None:
    word = values.get(field, "").strip()
    return None if word in _NOTHING else word


def _end(values: dict[str, str]) -> datetime | None:
    ended_at, started_at = parse_time(values["End"]), parse_time(values["Start"])
    # A clock that was set back between the two: it lived no time.
    return started_at if ended_at and started_at and ended_at < started_at else ended_at


def _or_none(parse: Callable[[str], _T | None], text: str) -> _T | None:
    try:
        return parse(text)
    except SourceError:
        return None


def _allocated(values: dict[str, str]) -> Tres:
    """AllocTRES has it all; of older releases and jobs the plain columns are used."""
    tres = parse_tres(values.get("AllocTRES", ""))
    cpus = tres.cpus if tres.cpus is not None else _count(values.get("AllocCPUS", ""))
    nodes = tres.nodes if tres.nodes is not None else _count(values.get("AllocNodes", ""))
    memory = tres.memory_bytes
    if memory is None:
        asked = _or_none(lambda text: parse_memory(text, "M"), values.get("ReqMem", ""))
        memory = None if asked is None else asked.total_bytes(cpus, nodes)
    return Tres(cpus, memory, None if nodes is None else int(nodes), tres.gpus)


def _count(text: str) -> float | None:
    word = text.strip()
    return float(word) if word.isdecimal() and len(word) <= 12 and int(word) > 0 else None
