"""How far back charts go, as far as somebody has asked their stores."""

from typing import Protocol

from kwhere.series.retention import Kept


class Retentions(Protocol):
    """What was last found of how far back stores of series go."""

    def of(self, cluster: str) -> Kept | None:
        """Return it for a cluster; None where nobody has looked yet, or the store has nothing of it."""
        ...


class NoRetentions:
    """Nobody looks."""

    def of(self, cluster: str) -> Kept | None:
        """Return None."""
        return None
