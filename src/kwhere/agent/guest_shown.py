"""What guests were told last, and what they are told next: counters that never fall within an epoch. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwhere.core.errors import SourceError
from kwhere.core.terms import Component, Part
from kwhere.core.unit import UnitKey
from kwhere.ledger.rows import ENERGY_COLUMNS
from kwhere.meters.guest_entry import GuestEnergy, GuestEntry
from kwhere.sampling.guest_book import GuestNow

FORMAT = 1


@dataclass(frozen=True, slots=True)
class GuestMoment:
    """The guests of this host as the account has them at one moment."""

    guests: Sequence[GuestNow]
    node_uj: Mapping[Component, int]
    """The node's own energy by component that anything measures: one that moved was booked since."""
    monotonic_ns: int
    utc_ns: int


@dataclass(frozen=True, slots=True)
class ShownGuest:
    """What one guest was told last; null columns were never told in this epoch."""

    epoch: str
    seq: int
    energy_uj: tuple[int | None, ...]
    times_ns: Mapping[Component, int]


class ShownGuests:
    """Goes from moment to moment.

    After a restart of the agent the account of the time since the last slot is made anew, and a guest may get less of
    it than it was told: its counter then waits until the account has caught up.
    """

    def __init__(self, host: str, shown: Mapping[UnitKey, ShownGuest] | None = None) -> None:
        self._host = host
        self.shown: dict[UnitKey, ShownGuest] = dict(shown or {})
        self._node_uj: Mapping[Component, int] = {}

    def advance(self, moment: GuestMoment, renew: Callable[[UnitKey], str]) -> dict[UnitKey, GuestEntry]:
        """Return what every guest is told now. `renew` begins another epoch of one whose last word is not known."""
        moved = {
            component
            for component, energy_uj in moment.node_uj.items()
            if self._node_uj.get(component) != energy_uj or component not in self._node_uj
        }
        self._node_uj = dict(moment.node_uj)
        self.shown = {guest.unit.key: self._next(guest, moment, moved, renew) for guest in moment.guests}
        return {guest.unit.key: self._entry(guest.unit.key, moment) for guest in moment.guests}

    def _next(
        self, guest: GuestNow, moment: GuestMoment, moved: set[Component], renew: Callable[[UnitKey], str]
    ) -> ShownGuest:
        key, counter = guest.unit.key, guest.counter
        before = self.shown.get(key)
        if before is None or before.epoch != counter.epoch:
            before = ShownGuest(renew(key), 0, (None,) * len(ENERGY_COLUMNS), {})
        energy_uj = tuple(
            _higher(then, now if component in moment.node_uj or now else None)
            for (component, _), then, now in zip(ENERGY_COLUMNS, before.energy_uj, counter.energy_uj, strict=True)
        )
        times_ns = {**before.times_ns, **dict.fromkeys(moved, moment.monotonic_ns)}
        return ShownGuest(before.epoch, before.seq + 1, energy_uj, times_ns)

    def _entry(self, key: UnitKey, moment: GuestMoment) -> GuestEntry:
        shown = self.shown[key]
        by_column = dict(zip(ENERGY_COLUMNS, shown.energy_uj, strict=True))
        energies = [
            GuestEnergy(component, dynamic_uj, idle_uj, shown.times_ns.get(component, moment.monotonic_ns))
            for component in Component
            if (dynamic_uj := by_column[component, Part.DYNAMIC]) is not None
            and (idle_uj := by_column[component, Part.IDLE]) is not None
        ]
        return GuestEntry(
            host=self._host,
            manager=key.manager,
            unit=key.unit,
            epoch=shown.epoch,
            seq=shown.seq,
            time_ns=moment.monotonic_ns,
            utc_ns=moment.utc_ns,
            energies=tuple(energies),
        )

    def to_json(self) -> str:
        """Return what `parse_shown` reads."""
        guests = [
            [
                [key.manager, key.unit, key.run],
                shown.epoch,
                shown.seq,
                list(shown.energy_uj),
                {str(component): time_ns for component, time_ns in shown.times_ns.items()},
            ]
            for key, shown in self.shown.items()
        ]
        return json.dumps({"format": FORMAT, "guests": guests}, separators=(",", ":"))


def parse_shown(text: str) -> dict[UnitKey, ShownGuest]:
    """Return what `ShownGuests.to_json` wrote. Raises SourceError for anything else."""
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise SourceError(f"guests' last words: expected format {FORMAT}, found {record['format']!r}")
        return {UnitKey(*map(str, key)): _shown(*rest) for key, *rest in record["guests"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SourceError(f"guests' last words: expected what was written, found {type(error).__name__}") from error


def _shown(epoch: Any, seq: Any, energy_uj: Sequence[Any], times_ns: Mapping[str, Any]) -> ShownGuest:
    columns = tuple(None if value is None else int(value) for value in energy_uj)
    if len(columns) != len(ENERGY_COLUMNS):
        raise SourceError(f"guests' last words: expected {len(ENERGY_COLUMNS)} columns, found {len(columns)}")
    return ShownGuest(str(epoch), int(seq), columns, {Component(name): int(time) for name, time in times_ns.items()})


def _higher(then: int | None, now: int | None) -> int | None:
    return then if now is None else now if then is None else max(then, now)
