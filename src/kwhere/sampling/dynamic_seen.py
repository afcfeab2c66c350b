"""Who used what of a node's components since `other` was last booked: the weights of its dynamic part."""

from collections.abc import Sequence

from kwhere.core.unit import UnitKey
from kwhere.energy.split import DomainSplit, Use


class DynamicSeen:
    """Sums dynamic microjoules by unit until they are taken."""

    def __init__(self) -> None:
        self._by_unit: dict[UnitKey, int] = {}
        self._system = 0

    def add(self, keys: Sequence[UnitKey], split: DomainSplit) -> None:
        """Take in one domain's split."""
        for key, dynamic_uj in zip(keys, split.dynamic, strict=True):
            if dynamic_uj:
                self._by_unit[key] = self._by_unit.get(key, 0) + dynamic_uj
        self._system += split.system_dynamic

    def take(self, keys: Sequence[UnitKey]) -> Use:
        """Return the weights of `keys`, the rest as the system's, and start anew."""
        weights = [self._by_unit.pop(key, 0) for key in keys]
        use = Use(weights, self._system + sum(self._by_unit.values()))
        self.forget()
        return use

    def forget(self) -> None:
        """Start anew."""
        self._by_unit.clear()
        self._system = 0
