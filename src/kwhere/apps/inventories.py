"""What the server reads beside ledgers: resource managers, and sources of inventory and directory."""

from contextlib import ExitStack

import structlog

from kwhere.apps.settings import Settings
from kwhere.core.clock import Clock, SystemClock
from kwhere.inventories.registry import BuiltInventory, build_inventories, find_inventories
from kwhere.resource_managers.registry import BuiltManager, find_managers

log = structlog.get_logger(__name__)


def configured_inventories(settings: Settings, clock: Clock) -> tuple[BuiltInventory, ...]:
    """Return the configured sources. Raises ConfigError that names the wrong key."""
    found = find_inventories()
    for sentence in found.refused:
        log.warning("inventory source refused", reason=sentence)
    return build_inventories(found.plugins, settings.inventories, clock)


def open_sources(
    settings: Settings, clock: Clock, stack: ExitStack
) -> tuple[tuple[BuiltManager, ...], tuple[BuiltInventory, ...]]:
    """Return the configured managers and sources, which `stack` closes. Raises ConfigError that names the wrong key."""
    managers = find_managers().build(settings.resource_managers, clock)
    for manager in managers:
        stack.callback(manager.source.close)
    inventories = configured_inventories(settings, clock)
    for inventory in inventories:
        stack.callback(inventory.source.close)
    return managers, inventories


def check_sources(settings: Settings) -> None:
    """Raise ConfigError for an entry that a server would not start with; none is asked anything."""
    with ExitStack() as stack:
        open_sources(settings, SystemClock(), stack)
