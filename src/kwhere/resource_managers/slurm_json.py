"""What slurmrestd answers, release by release: a number is plain, null, or `{set, infinite, number}`. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kwhere.core.errors import SourceError
from kwhere.core.managed import Account, Accounts, ManagerAllocation, ManagerNode, Membership
from kwhere.resource_managers.slurm_facts import parse_node_state, without_suffix
from kwhere.resource_managers.slurm_jobs import SlurmJob, with_whole_times
from kwhere.resource_managers.slurm_refusals import refusal
from kwhere.resource_managers.slurm_sacct import Faults
from kwhere.resource_managers.slurm_words import Tres, parse_gres, parse_tres, sluid_of, time_of

_MEGABYTE = 1024**2
_EMPTY_RESULT = 9003
"""ESLURM_REST_EMPTY_RESULT."""
NOTHING_FOUND: Mapping[str, Any] = {"errors": [{"error_number": _EMPTY_RESULT}]}
"""What an answer without content means."""
_NOTHING = frozenset({"", "none", "(null)", "n/a", "unknown"})


def read_jobs(document: object, faults: Faults) -> Iterator[SlurmJob]:
    """Yield the jobs of an answer; what cannot be read is counted. Raises SourceError for what is no answer."""
    for item in rows(document, "jobs"):
        try:
            job: SlurmJob | None = _job(item)
            # An answer that does not speak of ends says nothing of when it ended.
            if job is not None and "end" in _object(item.get("time")):
                job = with_whole_times(job, faults.add)
        except SourceError as error:
            faults.add(str(error))
            continue
        if job is not None:
            yield job


def rows(document: object, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list. Raises SourceError with the server's own words where the list is missing.

    An empty list beside an error is no answer: nothing has ended by it. Raises Unavailable then.
    """
    found = document.get(key) if isinstance(document, Mapping) else None
    if not found and is_nothing_found(document):
        return
    if not isinstance(found, list):
        raise SourceError(f"slurmrestd: expected {key}, found {words_of(document)}")
    if not found and _errors(document):
        raise refusal("slurmrestd", words_of(document))
    yield from (item for item in found if isinstance(item, Mapping))


def words_of(document: object) -> str:
    """Return what an answer says went wrong; `none` where it says nothing."""
    for first in _errors(document):
        return str(first.get("description") or first.get("error") or first)[:200]
    return "none"


def _errors(document: object) -> Sequence[Mapping[str, Any]]:
    errors = document.get("errors") if isinstance(document, Mapping) else None
    return [error for error in errors if isinstance(error, Mapping)] if isinstance(errors, list) else []


def is_nothing_found(document: object) -> bool:
    """Return whether the only fault is that there is nothing: some releases call that an error."""
    errors = _errors(document)
    return bool(errors) and all(number(error.get("error_number")) == _EMPTY_RESULT for error in errors)


def _job(item: Mapping[str, Any]) -> SlurmJob:
    raw_id = number(item.get("job_id"))
    if raw_id is None or raw_id <= 0:
        raise SourceError(f"slurmrestd: expected a job_id, found {str(item.get('job_id'))[:40]!r}")
    times = _object(item.get("time"))
    started_at, ended_at = _moment(times.get("start")), _moment(times.get("end"))
    if started_at and ended_at and ended_at < started_at:
        ended_at = started_at
    exit_code = number(_object(item.get("exit_code")).get("return_code"))
    facts = {
        "qos": _word(item.get("qos")),
        "exit_code": None if exit_code is None or ended_at is None else str(exit_code),
        "reservation": _word(_object(item.get("reservation")).get("name")),
        "wckey": _word(_object(item.get("wckey")).get("wckey")),
        "comment": _word(_object(item.get("comment")).get("job")),
    }
    return SlurmJob(
        raw_id=raw_id,
        shown_id=_shown_id(item, raw_id),
        state=_state(_object(item.get("state")).get("current")),
        sluid=sluid_of(_word(item.get("sluid")) or ""),
        submitted_at=_moment(times.get("submission")),
        started_at=started_at,
        ended_at=ended_at,
        name=item["name"] if isinstance(item.get("name"), str) and item["name"] else None,
        user=_word(item.get("user")) or _word(_object(item.get("association")).get("user")),
        uid=number(item.get("user_id")),
        group=_word(item.get("group")),
        account=_word(item.get("account")),
        partition=_word(item.get("partition")),
        nodes=item["nodes"] if isinstance(item.get("nodes"), str) else "",
        allocated=_allocated(_object(item.get("tres")).get("allocated")),
        elapsed_seconds=_seconds(times.get("elapsed")),
        facts={key: word for key, word in facts.items() if word},
    )


def _shown_id(item: Mapping[str, Any], raw_id: int) -> str:
    array, het = _object(item.get("array")), _object(item.get("het"))
    array_job, task = number(array.get("job_id")), number(array.get("task_id"))
    if array_job and task is not None:
        return f"{array_job}_{task}"
    het_job, offset = number(het.get("job_id")), number(het.get("job_offset"))
    if het_job and offset is not None:
        return f"{het_job}+{offset}"
    return str(raw_id)


def _state(value: object) -> str:
    if isinstance(value, list):
        return next((word for word in value if isinstance(word, str)), "")
    return value if isinstance(value, str) else ""


def _allocated(value: object) -> Tres:
    """Write the list as `sacct` does, so that totals and types are told apart in one place."""
    parts: list[str] = []
    for item in value if isinstance(value, list) else ():
        kind, count = (_object(item).get("type"), number(_object(item).get("count")))
        name = _object(item).get("name")
        if isinstance(kind, str) and count is not None:
            key = f"{kind}/{name}" if isinstance(name, str) and name else kind
            parts.append(f"{key}={count}" + ("M" if kind == "mem" else ""))
    return parse_tres(",".join(parts))


def number(value: object) -> int | None:
    """Return a whole number, plain or wrapped; None for null, for what is not set or is infinite."""
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value if type(value) is int and -(2**63) <= value < 2**64 else None


def _moment(value: object) -> datetime | None:
    seconds = number(value)
    return None if seconds is None else time_of(seconds)


def _seconds(value: object) -> float | None:
    found = number(value)
    return None if found is None or not 0 <= found < 2**40 else float(found)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _word(value: object) -> str | None:
    word = value.strip() if isinstance(value, str) else ""
    return None if word.lower() in _NOTHING else word


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word for word in value.split(",") if word)
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def read_accounts(
    associations: object, accounts: object, cluster: str | None, suffixes: Sequence[str] = ()
) -> Accounts:
    """Return accounts and members, of one of SLURM's clusters where that is named."""
    described = {
        str(item.get("name")): _word(item.get("description")) for item in rows(accounts, "accounts") if item.get("name")
    }
    parents: dict[str, str | None] = {}
    members: set[Membership] = set()
    for item in rows(associations, "associations"):
        account, user = _word(item.get("account")), _word(item.get("user"))
        if account is None or (cluster is not None and item.get("cluster") != cluster):
            continue
        name = without_suffix(account, suffixes)
        if user:
            members.add(Membership(user, name))
            parents.setdefault(name, None)
        else:
            parents[name] = without_suffix(_word(item.get("parent_account")) or "", suffixes) or None
    found = tuple(Account(name, described.get(name), parents[name]) for name in sorted(parents))
    return Accounts(found, tuple(sorted(members)))


def read_nodes(document: object) -> Iterator[ManagerNode]:
    """Yield the nodes of an answer. Raises SourceError."""
    for item in rows(document, "nodes"):
        name = _word(item.get("name"))
        if name is not None:
            yield _node(name, item)


def _node(name: str, item: Mapping[str, Any]) -> ManagerNode:
    state, is_open = parse_node_state("+".join((*_words(item.get("state")), *_words(item.get("state_flags")))))
    memory, taken = number(item.get("real_memory")), number(item.get("alloc_memory"))
    cpus, busy = number(item.get("cpus")), number(item.get("alloc_cpus"))
    configured = parse_tres(item["tres"]) if isinstance(item.get("tres"), str) else Tres()
    used = parse_tres(item["tres_used"]) if isinstance(item.get("tres_used"), str) else Tres()
    features = _words(item.get("active_features")) or _words(item.get("features"))
    gres, held = (item[key] if isinstance(item.get(key), str) else "" for key in ("gres", "gres_used"))
    return ManagerNode(
        name=name,
        state=state,
        is_schedulable=is_open,
        reason=_word(item.get("reason")),
        type=",".join(features) or None,
        cpus=None if cpus is None else float(cpus),
        memory_bytes=None if memory is None else memory * _MEGABYTE,
        gpus=configured.gpus or parse_gres(gres),
        allocated=ManagerAllocation(
            None if busy is None else float(busy),
            None if taken is None else taken * _MEGABYTE,
            # Where AccountingStorageTRES leaves out GPUs, both kinds of TRES do.
            used.gpus if configured.gpus else parse_gres(held),
        ),
        queues=_words(item.get("partitions")),
    )
