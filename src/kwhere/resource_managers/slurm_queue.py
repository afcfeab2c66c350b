"""What slurmctld has in hand: jobs that wait, and the ids of those that it has begun. `squeue` and slurmrestd alike.

`sacct` does not do: it leaves out what is held or is to begin later, and calls running what slurmctld has lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kwhere.core.errors import SourceError
from kwhere.core.managed import ManagerAllocation, Queue, WaitingUnit
from kwhere.discovery.slurm import MANAGER
from kwhere.resource_managers.slurm_facts import without_suffix
from kwhere.resource_managers.slurm_json import number, rows
from kwhere.resource_managers.slurm_sacct import Faults, Table, split_records
from kwhere.resource_managers.slurm_words import count_tasks, parse_state, parse_time, parse_tres

FIELDS: tuple[str, ...] = (
    *("JobID", "JobArrayID", "State", "Reason", "StartTime", "SubmitTime", "PriorityLong", "UserName", "UserID"),
    *("GroupName", "Account", "Partition", "QOS", "tres-alloc", "NumNodes", "Comment", "Name"),
)
"""Of a job that waits, `tres-alloc` is what it asks for, however it asked; `%b` knows but one of the ways."""
_WAITS = frozenset({"pending", "requeued", "requeue_hold", "requeue_fed", "special_exit"})
_NOTHING = frozenset({"", "none", "(null)", "n/a", "unknown"})


def queue_format(delimiter: str, ending: str) -> str:
    """Return squeue's --Format: fields in full, each record from its job id to its job id."""
    return ",".join([*(f"{name}:{delimiter}" for name in FIELDS), f"JobID:{ending}"])


def read_queue(text: str, delimiter: str, ending: str, cluster: str, suffixes: Sequence[str], faults: Faults) -> Queue:
    """Return what `squeue --noheader` wrote; what cannot be read is counted."""
    table = Table((*FIELDS, "JobID"), delimiter)
    records = split_records(text.replace(f"{ending}\n", "\n"), table, faults)
    return queue_of((dict(zip(FIELDS, record, strict=False)) for record in records), cluster, suffixes, faults)


def read_queue_json(document: object, cluster: str, suffixes: Sequence[str], faults: Faults) -> Queue:
    """Return what slurmrestd's `/jobs` says. Raises SourceError for what is no answer."""
    return queue_of((_words(item) for item in rows(document, "jobs")), cluster, suffixes, faults)


def queue_of(jobs: Iterator[Mapping[str, str]], cluster: str, suffixes: Sequence[str], faults: Faults) -> Queue:
    """Return the queue of jobs in squeue's words."""
    waiting: dict[str, WaitingUnit] = {}
    living: set[str] = set()
    for job in jobs:
        job_id = job.get("JobID", "").strip()
        if not job_id.isdecimal():
            faults.add(f"squeue: expected a job id, found {job_id[:40]!r}")
            continue
        unit = str(int(job_id))
        state = parse_state(job.get("State", "")).name
        if state not in _WAITS:
            living.add(unit)
            continue
        try:
            waiting[unit] = _waiting(unit, state, job, cluster, suffixes)
        except SourceError as error:
            faults.add(str(error))
    return Queue(tuple(waiting.values()), frozenset(living))


def _waiting(unit: str, state: str, job: Mapping[str, str], cluster: str, suffixes: Sequence[str]) -> WaitingUnit:
    asked = parse_tres(job.get("tres-alloc", ""))
    shown = job.get("JobArrayID", "").strip()
    nodes, priority, uid = (_word(job, name) for name in ("NumNodes", "PriorityLong", "UserID"))
    return WaitingUnit(
        cluster=cluster,
        manager=MANAGER,
        unit=unit,
        state=state,
        name=job.get("Name") or None,
        user=_word(job, "UserName") or (f"unknown (uid {uid})" if uid else None),
        project=without_suffix(_word(job, "Account") or "", suffixes) or None,
        group=_word(job, "GroupName"),
        queue=_word(job, "Partition"),
        reason=_word(job, "Reason"),
        submitted_at=parse_time(job.get("SubmitTime", "")),
        expected_start_at=parse_time(job.get("StartTime", "")),
        priority=float(priority) if priority and priority.isdecimal() else None,
        asked=ManagerAllocation(
            asked.cpus,
            asked.memory_bytes,
            asked.gpus,
            asked.nodes if asked.nodes is not None else int(nodes) if nodes and nodes.isdecimal() else None,
        ),
        tasks=_tasks(shown),
        tags=_tags(unit, shown, job),
    )


def _tasks(shown: str) -> int:
    """Return how many tasks `123_[9-11,13%4]` stands for."""
    try:
        return max(1, count_tasks(shown))
    except SourceError:
        return 1


def _tags(unit: str, shown: str, job: Mapping[str, str]) -> dict[str, str]:
    tags = {"qos": _word(job, "QOS"), "comment": _word(job, "Comment")}
    if shown and shown != unit:
        tags["job"] = shown
        tags["het_job" if "+" in shown else "array_job"] = shown.split("_", 1)[0].split("+", 1)[0]
    return {name: word for name, word in tags.items() if word}


def _word(job: Mapping[str, str], field: str) -> str | None:
    word = job.get(field, "").strip()
    return None if word.lower() in _NOTHING else word


def _words(item: Mapping[str, Any]) -> dict[str, str]:
    """Return a job of slurmrestd in squeue's words."""
    job_id = number(item.get("job_id"))
    array, task = number(item.get("array_job_id")), item.get("array_task_string")
    het, offset = number(item.get("het_job_id")), number(item.get("het_job_offset"))
    shown = str(job_id)
    if array and isinstance(task, str) and task:
        shown = f"{array}_[{task}]"
    elif het and offset is not None:
        shown = f"{het}+{offset}"
    state = item.get("job_state")
    numbers = {
        "StartTime": number(item.get("start_time")),
        "SubmitTime": number(item.get("submit_time")),
        "PriorityLong": number(item.get("priority")),
        "UserID": number(item.get("user_id")),
        "NumNodes": number(item.get("node_count")),
    }
    texts = {
        "Reason": "state_reason",
        "UserName": "user_name",
        "GroupName": "group_name",
        "Account": "account",
        "Partition": "partition",
        "QOS": "qos",
        "tres-alloc": "tres_req_str",
        "Comment": "comment",
        "Name": "name",
    }
    return {
        "JobID": str(job_id),
        "JobArrayID": shown,
        "State": str(state[0]) if isinstance(state, list) and state else str(state),
        **{name: str(value) for name, value in numbers.items() if value is not None},
        **{name: item[key] for name, key in texts.items() if isinstance(item.get(key), str)},
    }
