"""What each guest of this host is told of itself: its account as counters that go on over a restart of the agent."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.ledger.rows import ENERGY_COLUMNS
from kwhere.sampling.accounts import Account, Accounts


@dataclass(frozen=True, slots=True)
class GuestCounter:
    """A guest's counters as they stood with a slot: microjoules in the order of the account's energy columns."""

    epoch: str
    energy_uj: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GuestNow:
    """A running guest and its counters."""

    unit: TrackedUnit
    counter: GuestCounter


class GuestBook:
    """Counters of the guests that are fed. They follow the accounts: closed slots and the open one.

    A guest's epoch lasts as long as its run and the account of it: it goes on over a restart of the agent in the same
    boot, and begins anew with another run (a new start, a migration) or where nothing was saved.
    """

    def __init__(
        self,
        is_fed: Callable[[TrackedUnit], bool],
        new_epoch: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._is_fed = is_fed
        self._new_epoch = new_epoch
        self._epochs: dict[UnitKey, str] = {}
        self._carried: dict[UnitKey, list[int]] = {}
        """What is in no running sum any more: of an earlier process, or from before the sums began at 0."""

    def now(self, accounts: Accounts) -> list[GuestNow]:
        """Return every running guest with its counters; one that is new begins an epoch. Accounts must not move."""
        found = []
        for key, account in accounts.units.items():
            if account.unit is None or account.ended_ns is not None or not self._is_fed(account.unit):
                continue
            if key not in self._epochs:
                self._epochs[key] = self._new_epoch()
            found.append(GuestNow(account.unit, self._counter(key, account)))
        for key in [key for key in self._epochs if key not in accounts.units]:
            del self._epochs[key]
            self._carried.pop(key, None)
        return found

    def renew(self, key: UnitKey) -> str:
        """Begin another epoch of a guest: what it was told before is not known. Return the new epoch."""
        epoch = self._epochs[key] = self._new_epoch()
        return epoch

    def rebase(self, accounts: Accounts) -> None:
        """Keep what running sums hold: they are about to begin at 0."""
        for key in self._epochs:
            account = accounts.units.get(key)
            if account is not None:
                self._carried[key] = self._counted(key, account.sums.energy_uj)

    def saved(self, accounts: Accounts) -> Mapping[UnitKey, GuestCounter]:
        """Return the counters to keep with a slot that holds everything booked so far."""
        return {
            key: self._counter(key, account)
            for key in list(self._epochs)
            if (account := accounts.units.get(key)) is not None
        }

    def restore(self, counters: Mapping[UnitKey, GuestCounter]) -> None:
        """Go on from the counters of an earlier process of this boot."""
        for key, counter in counters.items():
            if len(counter.energy_uj) == len(ENERGY_COLUMNS):
                self._epochs[key] = counter.epoch
                self._carried[key] = list(counter.energy_uj)

    def _counter(self, key: UnitKey, account: Account) -> GuestCounter:
        return GuestCounter(self._epochs[key], tuple(self._counted(key, account.sums.energy_uj)))

    def _counted(self, key: UnitKey, sums_uj: Sequence[int]) -> list[int]:
        carried = self._carried.get(key)
        return list(sums_uj) if carried is None else [a + b for a, b in zip(carried, sums_uj, strict=True)]
