"""The pass that reads one source of inventory and directory; one that fails keeps what it said last."""

from collections.abc import Sequence

from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.inventory import forget_other_sources, note_inventory_error, write_inventory
from kwhere.inventories.registry import BuiltInventory
from kwhere.server.passes import Turn

SECOND_LOOK_SECONDS = 60.0


class InventoryPass:
    """Reads one source as often as its settings say."""

    def __init__(self, engine: Engine, inventory: BuiltInventory, clock: Clock) -> None:
        self.name = f"inventory {inventory.name}"
        self._engine = engine
        self._inventory = inventory
        self._clock = clock
        self._due_ns = 0
        self._is_first = True

    def is_due(self) -> bool:
        """Return whether its time has come."""
        return self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Read it whole, then write it. Raises KwhereError, after noting it."""
        inventory = self._inventory
        seconds = inventory.settings.interval_seconds
        if self._is_first:  # people are kept once they were seen at work: on a new site nobody was yet
            self._is_first, seconds = False, min(seconds, SECOND_LOOK_SECONDS)
        self._due_ns = self._clock.monotonic_ns() + int(seconds * NANOSECONDS_PER_SECOND)
        try:
            found = inventory.source.read()
        except KwhereError as error:
            note_inventory_error(self._engine, inventory.name, inventory.position, str(error), self._clock.utc_ns())
            raise
        if turn.goes_on():
            write_inventory(self._engine, inventory.name, inventory.position, found, self._clock.utc_ns())


def inventory_passes(engine: Engine, inventories: Sequence[BuiltInventory], clock: Clock) -> tuple[InventoryPass, ...]:
    """Return a pass per source, after dropping what sources said that are configured no longer."""
    forget_other_sources(engine, [each.name for each in inventories], clock.utc_ns())
    return tuple(InventoryPass(engine, each, clock) for each in inventories)
