"""What of a GPU's energy fell to each place that a unit held of it, and what of that to idle holding."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.terms import Flag
from kwhere.core.unit import UnitKey
from kwhere.energy.apportion import apportion
from kwhere.energy.split import DomainSplit
from kwhere.sampling.accounts import Account, Accounts
from kwhere.sampling.gpu_holding import UnitHold
from kwhere.sampling.gpu_slot import GpuSlot


@dataclass(frozen=True, slots=True)
class PlaceWeight:
    """One place that a unit held within the span of one reading of its GPU."""

    hold: UnitHold
    """Its newest step."""
    share_ns: int
    """GPU time held."""
    idle_ns: int
    """GPU time of it held idle."""


def place_weight(hold: UnitHold, lived_ns: int, before: PlaceWeight | None) -> PlaceWeight:
    """Return the place with one more step."""
    share_ns = round(hold.place.share * lived_ns)
    idle_ns = share_ns if hold.idle else 0
    if before is not None:
        share_ns, idle_ns = share_ns + before.share_ns, idle_ns + before.idle_ns
    return PlaceWeight(hold, share_ns, idle_ns)


def book_places(
    accounts: Accounts,
    keys: Sequence[UnitKey],
    places: Sequence[Sequence[PlaceWeight]],
    split: DomainSplit,
    *,
    by_slices: bool = False,
) -> None:
    """Say of each unit's share of a GPU's energy which place it was for, and what of it fell to idle holding.

    Within a unit by GPU time held: a device has one meter, however it is divided. `by_slices`: dynamic energy went by
    slices for want of activity; who got some is flagged so.
    """
    for key, held, dynamic_uj, idle_uj in zip(keys, places, split.dynamic, split.idle, strict=True):
        account = accounts.units.get(key)
        if account is not None and held:
            _book(account, held, dynamic_uj + idle_uj)
            if by_slices and dynamic_uj:
                account.flags.add(Flag.SLICES)


def _book(account: Account, held: Sequence[PlaceWeight], energy_uj: int) -> None:
    weights = [one.share_ns for one in held]
    shares = apportion(energy_uj, weights if any(weights) else [1] * len(held))
    sums = account.sums
    for one, share_uj in zip(held, shares, strict=True):
        wasted_uj = share_uj * one.idle_ns // one.share_ns if one.share_ns else 0
        if one.hold.idle is not None or wasted_uj:
            sums.gpu_held_idle_uj = (sums.gpu_held_idle_uj or 0) + wasted_uj
        place = (one.hold.place.device, one.hold.place.instance)
        account.gpus.setdefault(place, GpuSlot(one.hold)).book(share_uj, wasted_uj)
