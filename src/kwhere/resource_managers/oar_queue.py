"""Jobs of OAR that wait: who asked for what, when OAR means to start them and what keeps them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from kwhere.core.managed import ManagerAllocation, WaitingUnit
from kwhere.discovery.oar import MANAGER
from kwhere.resource_managers.oar_fields import (
    Faults,
    first_of,
    parse_id,
    parse_text,
    parse_time,
    parse_words,
)
from kwhere.resource_managers.oar_jobs import ID_NAMES, OVER, WAITING, records

LIVE_STATES = (
    *("Waiting", "Hold", "toLaunch", "toAckReservation", "Launching", "Running", "Suspended", "Resuming"),
    *("Finishing", "toError"),
)
"""As OAR writes them."""
_LEVEL = re.compile(r"/(?:([a-z_]+)=([0-9]{1,9}))")
_NODES = ("host", "network_address", "nodes")
_CPUS = ("core", "thread")


@dataclass(slots=True)
class InHand:
    """What OAR has not done with."""

    waiting: dict[str, WaitingUnit] = field(default_factory=dict)
    living: set[str] = field(default_factory=set)


def read_in_hand(
    document: object, place: str, cluster: str, zone: ZoneInfo | None, faults: Faults, found: InHand
) -> None:
    """Add what a document tells to `found`; one that cannot be read is counted. Raises SourceError for another form."""
    for key, record in records(document, place):
        if not isinstance(record, Mapping):
            faults.add(f"{place}: job {key}: expected an object, found {type(record).__name__}")
            continue
        job_id = parse_id(first_of(record, ID_NAMES)) or parse_id(key)
        state = (parse_text(record.get("state")) or "").lower()
        if job_id is None or not state:
            faults.add(f"{place}: job {key[:40]!r}: expected an id and a state")
        elif state in WAITING:
            found.waiting[job_id] = _waiting(job_id, state, record, cluster, zone)
        elif state not in OVER:
            found.living.add(job_id)


def _waiting(job_id: str, state: str, record: Mapping[str, object], cluster: str, zone: ZoneInfo | None) -> WaitingUnit:
    tags = {
        "types": ",".join(parse_words(record.get("types"))),
        "array_id": array if (array := parse_id(record.get("array_id"))) != job_id else None,
        "asked": parse_text(record.get("wanted_resources")),
    }
    return WaitingUnit(
        cluster=cluster,
        manager=MANAGER,
        unit=job_id,
        state=state,
        name=parse_text(first_of(record, ("name", "job_name"))),
        user=parse_text(first_of(record, ("owner", "user", "job_user"))),
        project=parse_text(record.get("project")),
        queue=parse_text(first_of(record, ("queue", "queue_name"))),
        reason=parse_text(record.get("message")),
        submitted_at=parse_time(first_of(record, ("submissionTime", "submission_time", "submission")), zone),
        expected_start_at=parse_time(first_of(record, ("scheduledStart", "scheduled_start")), zone),
        asked=asked_for(parse_text(record.get("wanted_resources")) or ""),
        tags={name: word for name, word in tags.items() if word},
    )


def asked_for(words: str) -> ManagerAllocation:
    """Return CPUs and nodes of `-l "{…}/host=2/core=4,walltime=1:0:0"`; nothing where several are asked for at once."""
    if words.count("walltime=") > 1 or "+" in re.sub(r"\{[^}]*\}", "", words):
        return ManagerAllocation()
    levels = [(name, int(number)) for name, number in _levels(words)]
    nodes = next((number for name, number in levels if name in _NODES), None)
    if not any(name in _CPUS for name, _ in levels):
        return ManagerAllocation(nodes=nodes)
    cpus = 1.0
    for _, number in levels:
        cpus *= number
    return ManagerAllocation(cpus=cpus, nodes=nodes)


def _levels(words: str) -> Iterator[tuple[str, str]]:
    for found in _LEVEL.finditer(re.sub(r"\{[^}]*\}", "", words)):
        yield found[1], found[2]
