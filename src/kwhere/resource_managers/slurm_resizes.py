"""Jobs that gave nodes back, lost or gained some: SLURM has a record for each size, kwhere one run of the job.

Each record but the last is `RESIZING`; the next was submitted, says SLURM, in the second in which it ended, and thus
after its own start, which is the job's. `NodeList` and the allocation are of that time alone.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from kwhere.core.managed import ManagerAllocation, ManagerUnit
from kwhere.transport.answers import AnswerTooLongError

RESIZING = "resizing"
MOST_REMEMBERED = 1000
"""So many jobs' earlier records are kept; of others they are asked for again."""
Ask = Callable[[Sequence[ManagerUnit]], Iterable[ManagerUnit]]
"""Returns all records of the jobs that these are of; others may be among them. May raise AnswerTooLongError."""

log = structlog.get_logger(__name__)


class Resizes:
    """Makes one run of the records of a job. Used by one thread."""

    def __init__(self, ask: Ask, most_remembered: int = MOST_REMEMBERED) -> None:
        self._ask = ask
        self._most = most_remembered
        self._ended: OrderedDict[str, tuple[ManagerUnit, ...]] = OrderedDict()
        """By job: the records of sizes that it no longer has; empty where none was found."""

    def join(self, records: Iterable[ManagerUnit]) -> Iterator[ManagerUnit]:
        """Yield the runs of an answer's records, those that were resized last.

        What the answer does not tell of them is asked for, of each job once.
        """
        parts: list[ManagerUnit] = []
        for record in records:
            if _is_part(record):
                parts.append(record)
            else:
                yield record
        if parts:
            yield from self._joined(parts)

    def _joined(self, told: Sequence[ManagerUnit]) -> Iterator[ManagerUnit]:
        units = {record.unit for record in told}
        known = [record for unit in units for record in self._ended.get(unit, ())]
        lacking = [record for record in (*known, *told) if self._lacks(record, [*known, *told])]
        if lacking:
            known += [record for record in self._found(lacking) if record.unit in units and _is_part(record)]
        every = [*{_key(record): record for record in (*known, *told)}.values()]
        self._remember(units, every)
        meant = {_key(record) for record in told}
        for chain in chains_of(every):
            if any(_key(record) in meant for record in chain):
                yield one_run(chain)

    def _found(self, lacking: Sequence[ManagerUnit]) -> Sequence[ManagerUnit]:
        try:
            return [*self._ask(lacking)]
        except AnswerTooLongError as error:
            # SLURM does not tell of so long ago: what it does tell is taken as it is.
            log.warning("earlier sizes of resized jobs are not told", jobs=len(lacking), fault=str(error))
            return []

    def _lacks(self, record: ManagerUnit, others: Sequence[ManagerUnit]) -> bool:
        """Return whether the record before or behind this one is missing and was not asked for before."""
        lacks_next = record.state == RESIZING and not any(_goes_on(record, other) for other in others)
        lacks_last = _is_later(record) and not any(_goes_on(other, record) for other in others)
        return lacks_next or (lacks_last and self._ended.get(record.unit) != ())

    def _remember(self, units: Iterable[str], records: Sequence[ManagerUnit]) -> None:
        for unit in units:
            self._ended.pop(unit, None)
            self._ended[unit] = tuple(each for each in records if each.unit == unit and each.state == RESIZING)
        while len(self._ended) > self._most:
            self._ended.popitem(last=False)


def chains_of(records: Iterable[ManagerUnit]) -> Iterator[list[ManagerUnit]]:
    """Yield the records of each run, in the order of time."""
    by_unit: defaultdict[str, list[ManagerUnit]] = defaultdict(list)
    for record in sorted(records, key=_begin):
        by_unit[record.unit].append(record)
    for of_unit in by_unit.values():
        chain = of_unit[:1]
        for record in of_unit[1:]:
            if not _goes_on(chain[-1], record):
                yield chain
                chain = []
            chain.append(record)
        yield chain


def one_run(chain: Sequence[ManagerUnit]) -> ManagerUnit:
    """Return the run of one job's records: as the last says, on all nodes it had, with the mean of its allocations."""
    first, last = chain[0], chain[-1]
    if first is last:
        return last
    held = [_held_seconds(record, is_first=record is first) for record in chain[:-1]]
    elapsed = last.elapsed_seconds  # since the job's start
    nodes = [record.nodes for record in chain]
    return replace(
        last,
        run=first.run,
        submitted_at=first.submitted_at,
        nodes=None if None in nodes else tuple(dict.fromkeys(name for names in nodes for name in names or ())),
        elapsed_seconds=elapsed,
        allocation=last.allocation if elapsed is None else _mean(chain, [*held, max(0.0, elapsed - sum(held))]),
        tags={**last.tags, "resized": str(len(chain) - 1)},
    )


def _key(record: ManagerUnit) -> tuple[str, str, datetime | None]:
    return record.unit, record.run, record.submitted_at


def _begin(record: ManagerUnit) -> datetime:
    """Return since when a record's size was held."""
    return max(record.started_at, record.submitted_at) if record.submitted_at else record.started_at


def _is_later(record: ManagerUnit) -> bool:
    """Nobody submits a job that runs."""
    return record.submitted_at is not None and record.submitted_at > record.started_at


def _is_part(record: ManagerUnit) -> bool:
    return record.state == RESIZING or _is_later(record)


def _goes_on(before: ManagerUnit, after: ManagerUnit) -> bool:
    if before.state != RESIZING or before.ended_at is None or before is after:
        return False
    is_same = (before.unit, before.user, before.started_at) == (after.unit, after.user, after.started_at)
    return is_same and before.ended_at == after.submitted_at


def _held_seconds(record: ManagerUnit, *, is_first: bool) -> float:
    begin = record.started_at if is_first else _begin(record)
    return max(0.0, ((record.ended_at or begin) - begin).total_seconds())


def _mean(chain: Sequence[ManagerUnit], seconds: Sequence[float]) -> ManagerAllocation:
    """Return what was allocated on average; of what one record does not tell the last's word."""
    whole, last = sum(seconds), chain[-1].allocation
    if whole <= 0:
        return last
    given = [record.allocation for record in chain]
    cpus = _weighted([each.cpus for each in given], seconds)
    memory = _weighted([each.memory_bytes for each in given], seconds)
    kinds = dict.fromkeys(kind for each in given for kind in each.gpus)
    gpus: Mapping[str, float] = {
        kind: sum(each.gpus.get(kind, 0.0) * held for each, held in zip(given, seconds, strict=True)) / whole
        for kind in kinds
    }
    return ManagerAllocation(
        last.cpus if cpus is None else cpus, last.memory_bytes if memory is None else round(memory), gpus, last.nodes
    )


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    if None in values:
        return None
    return sum((value or 0) * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
