"""What units used of each GPU or instance in the open slot, and what of the GPU's energy fell to each place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kwhere.core.unit import UnitKey
from kwhere.energy.apportion import apportion
from kwhere.energy.split import DomainSplit
from kwhere.ledger.gpu_uses import GpuUse, Place
from kwhere.sampling.accounts import Account, Accounts
from kwhere.sampling.gpu_holding import UnitHold


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
    share_ns = round(hold.share * lived_ns)
    idle_ns = share_ns if hold.idle else 0
    if before is not None:
        share_ns, idle_ns = share_ns + before.share_ns, idle_ns + before.idle_ns
    return PlaceWeight(hold, share_ns, idle_ns)


def use_of(hold: UnitHold, lived_ns: int, idle_since_ns: int | None) -> GpuUse:
    """Return one step of one hold; `idle_since_ns` is by the monotonic clock."""
    allocated_ns = round(hold.share * lived_ns)
    return replace(
        _bare(hold),
        held_ns=lived_ns,
        allocated_ns=allocated_ns,
        place_ns=round(hold.place_share * lived_ns),
        unknown_ns=allocated_ns if hold.busy is None else 0,
        busy_ns=None if hold.busy is None else round(hold.busy * lived_ns),
        held_idle_ns=None if hold.idle is None else lived_ns * hold.idle,
        memory_peak_bytes=hold.memory_bytes,
        idle_since_ns=idle_since_ns,
    )


def add_use(gpus: dict[Place, GpuUse], use: GpuUse) -> None:
    """Add a step to a unit's open slot."""
    before = gpus.get(use.place)
    gpus[use.place] = use if before is None else before.then(use)


def book_places(
    accounts: Accounts, keys: Sequence[UnitKey], places: Sequence[Sequence[PlaceWeight]], split: DomainSplit
) -> None:
    """Say of each unit's share of a GPU's energy which place it was for, and what of it fell to idle holding.

    Within a unit by GPU time held: a device has one meter, however it is divided.
    """
    for key, held, dynamic_uj, idle_uj in zip(keys, places, split.dynamic, split.idle, strict=True):
        account = accounts.units.get(key)
        if account is not None and held:
            _book(account, held, dynamic_uj + idle_uj)


def _book(account: Account, held: Sequence[PlaceWeight], energy_uj: int) -> None:
    weights = [one.share_ns for one in held]
    shares = apportion(energy_uj, weights if any(weights) else [1] * len(held))
    sums = account.sums
    for one, share_uj in zip(held, shares, strict=True):
        wasted_uj = share_uj * one.idle_ns // one.share_ns if one.share_ns else 0
        if one.hold.idle is not None or wasted_uj:
            sums.gpu_held_idle_uj = (sums.gpu_held_idle_uj or 0) + wasted_uj
        place = (one.hold.device, one.hold.instance)
        use = account.gpus.get(place) or _bare(one.hold)
        account.gpus[place] = replace(
            use, energy_uj=(use.energy_uj or 0) + share_uj, held_idle_uj=(use.held_idle_uj or 0) + wasted_uj
        )


def _bare(hold: UnitHold) -> GpuUse:
    return GpuUse(
        device=hold.device,
        instance=hold.instance,
        index=hold.index,
        model=hold.model,
        profile=hold.profile,
        source=str(hold.source),
        memory_total_bytes=hold.memory_total_bytes,
    )
