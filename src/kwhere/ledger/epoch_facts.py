"""What the page header says of an epoch, kept with the epoch: an old one is served as it was written."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from kwhere.ledger.pages import COLUMNS, FORMAT, PageHeader


@dataclass(frozen=True, slots=True)
class EpochFacts:
    """Facts of one agent start (see `PageHeader`); `columns` are those its slots are written in."""

    node: str
    node_names: tuple[str, ...]
    machine_id: str
    boot_id: str
    parent: str | None
    slot_seconds: int
    idle_policy: str
    cpus: int
    p_max_mw: Mapping[str, int]
    version: str
    columns: tuple[str, ...] = COLUMNS

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "EpochFacts":
        """Return what `to_json` wrote."""
        record = json.loads(text)
        record |= {"node_names": tuple(record["node_names"]), "columns": tuple(record["columns"])}
        return cls(**record)


def page_header(
    facts: EpochFacts,
    epoch: str,
    *,
    epochs: tuple[str, ...],
    held: tuple[int, int] | None,
    next_cursor: str | None,
) -> PageHeader:
    """Return line 1 of a page of `epoch`, of which slots `held` (oldest, newest) are held."""
    return PageHeader(
        format=FORMAT,
        node=facts.node,
        node_names=facts.node_names,
        machine_id=facts.machine_id,
        boot_id=facts.boot_id,
        parent=facts.parent,
        epoch=epoch,
        oldest=held[0] if held else None,
        newest=held[1] if held else None,
        epochs=epochs,
        next=next_cursor,
        slot_seconds=facts.slot_seconds,
        idle_policy=facts.idle_policy,
        cpus=facts.cpus,
        p_max_mw=dict(facts.p_max_mw),
        columns=facts.columns,
        version=facts.version,
    )


def facts_of(header: PageHeader) -> EpochFacts:
    """Return what a page's header says of its epoch."""
    return EpochFacts(**{item.name: getattr(header, item.name) for item in fields(EpochFacts)})
