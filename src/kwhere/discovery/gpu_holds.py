"""What one source says of who holds a GPU, and how all that is said becomes claims. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kwhere.core.unit import UnitKey
from kwhere.discovery import oar, slurm
from kwhere.discovery.gpu_claims import WHOLE, ClaimSource, GpuClaim
from kwhere.discovery.gpu_names import GpuNames, Place
from kwhere.discovery.settings import MANAGERS
from kwhere.discovery.unit_source import TrackedUnit

_RANKS = {source: rank for rank, source in enumerate(ClaimSource)}
_NO_JOBS = frozenset(MANAGERS) - {oar.MANAGER, slurm.MANAGER}
_OWN_WORD = ClaimSource.ENVIRON
"""What a user can say of his own job: it never takes from another what a better source gave that one alone."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One source's word that a unit holds a place. None: this source does not say."""

    unit: UnitKey
    place: Place
    source: ClaimSource
    share: int | None = None
    """Thousandths of the place."""
    exclusive: bool | None = None
    live: bool = True


@dataclass(frozen=True, slots=True)
class GpuNode:
    """What the sources look at: the GPUs that are here and the units that live, as of one moment."""

    names: GpuNames
    units: Mapping[UnitKey, TrackedUnit] = field(default_factory=dict)

    def jobs(self) -> list[TrackedUnit]:
        """Return the live units of managers that give a GPU to one job: SLURM, OAR, and what a site's rules name."""
        return [self.units[key] for key in sorted(self.units) if is_job_manager(key.manager)]

    def of_managers(self, managers: Iterable[str]) -> list[TrackedUnit]:
        """Return the live units of some managers, in the order of their keys."""
        wanted = frozenset(managers)
        return [self.units[key] for key in sorted(self.units) if key.manager in wanted]

    def labelled(self, manager: str, **labels: str) -> list[TrackedUnit]:
        """Return a manager's live units that bear these labels."""
        return [unit for unit in self.of_managers((manager,)) if labels.items() <= dict(unit.info.labels).items()]


def is_job_manager(manager: str) -> bool:
    """Return whether what a unit of this manager sees of GPUs is its own; other managers show one GPU to many."""
    return manager not in _NO_JOBS


def claims_of(holds: Iterable[Hold]) -> list[GpuClaim]:
    """Return one claim per unit and place: the first source's that speaks for them, by rank.

    What that source leaves open, the next one that knows fills in; what nobody knows: alone is exclusive, several
    share equally.
    """
    chosen = _without_contested(_chosen(holds))
    by_place: dict[Place, list[Hold]] = {}
    for hold in chosen:
        by_place.setdefault(hold.place, []).append(hold)
    return [_claim(hold, by_place[hold.place]) for hold in chosen]


def _chosen(holds: Iterable[Hold]) -> list[Hold]:
    found: dict[tuple[UnitKey, Place], Hold] = {}
    for hold in sorted(holds, key=lambda one: _RANKS[one.source]):
        key = (hold.unit, hold.place)
        before = found.get(key)
        if before is None:
            found[key] = hold
        elif before.source is hold.source:
            found[key] = _added(before, hold)
        elif before.share is None and before.exclusive is None:
            found[key] = replace(before, share=hold.share, exclusive=hold.exclusive)
    return [found[key] for key in sorted(found)]


def _added(one: Hold, other: Hold) -> Hold:
    """Return two words of one source as one: replicas add up."""
    shares = None if one.share is None or other.share is None else min(WHOLE, one.share + other.share)
    known = None if one.exclusive is None and other.exclusive is None else bool(one.exclusive or other.exclusive)
    return replace(one, share=shares, exclusive=known, live=one.live or other.live)


def _without_contested(holds: Sequence[Hold]) -> list[Hold]:
    given = [hold for hold in holds if hold.exclusive is not False and hold.live and hold.source is not _OWN_WORD]

    def is_contested(hold: Hold) -> bool:
        if hold.source is not _OWN_WORD or hold.exclusive is False:
            return False
        return any(
            _RANKS[one.source] < _RANKS[_OWN_WORD] and one.unit != hold.unit and _overlap(one.place, hold.place)
            for one in given
        )

    return [hold for hold in holds if not is_contested(hold)]


def _overlap(one: Place, other: Place) -> bool:
    return one == other or (one.device == other.device and not other.instance and not one.instance)


def _claim(hold: Hold, together: Sequence[Hold]) -> GpuClaim:
    exclusive = len(together) == 1 if hold.exclusive is None else hold.exclusive
    share = hold.share
    if share is None:
        share = WHOLE if exclusive else equal_part(together.index(hold), len(together))
    return GpuClaim(
        hold.unit, hold.place.device, hold.place.instance, share, exclusive, live=hold.live, source=hold.source
    )


def equal_part(position: int, parts: int) -> int:
    """Return the thousandths of part `position` of `parts`; all parts together are exactly the whole."""
    return (position + 1) * WHOLE // parts - position * WHOLE // parts
