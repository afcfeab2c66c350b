"""What the server reads beside ledgers: resource managers, and sources of inventory and directory."""

import structlog

from kwhere.apps.settings import Settings
from kwhere.core.clock import Clock, SystemClock
from kwhere.inventories.registry import BuiltInventory, build_inventories, find_inventories
from kwhere.resource_managers.registry import find_managers

log = structlog.get_logger(__name__)


def configured_inventories(settings: Settings, clock: Clock) -> tuple[BuiltInventory, ...]:
    """Return the configured sources. Raises ConfigError that names the wrong key."""
    found = find_inventories()
    for sentence in found.refused:
        log.warning("inventory source refused", reason=sentence)
    return build_inventories(found.plugins, settings.inventories, clock)


def check_sources(settings: Settings) -> None:
    """Raise ConfigError for an entry that a server would not start with; none is asked anything."""
    clock = SystemClock()
    for manager in find_managers().build(settings.resource_managers, clock):
        manager.source.close()
    for inventory in configured_inventories(settings, clock):
        inventory.source.close()
