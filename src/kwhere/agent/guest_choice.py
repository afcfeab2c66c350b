"""Which virtual machine of this host is told its energy, and by which ways."""

from collections.abc import Iterable

from kwhere.agent.guest_settings import GuestSettings
from kwhere.discovery.libvirt import MANAGER
from kwhere.discovery.unit_source import TrackedUnit

_NAME_LABEL = "vm"
"""The label that holds a machine's name on its host; its title is its owner's to choose and decides nothing."""


def is_fed(settings: GuestSettings, unit: TrackedUnit) -> bool:
    """Return whether a unit is told its energy by any way."""
    if _named(settings, unit) is not None:
        return True
    return unit.key.manager == MANAGER and (settings.directory is not None or settings.vsock_port is not None)


def named_units(settings: GuestSettings, units: Iterable[TrackedUnit]) -> dict[str, TrackedUnit]:
    """Return the unit that each key of the settings names; a name that two units bear names neither."""
    found: dict[str, list[TrackedUnit]] = {}
    for unit in units:
        key = _named(settings, unit)
        if key is not None:
            found.setdefault(key, []).append(unit)
    return {key: bearers[0] for key, bearers in found.items() if len(bearers) == 1}


def _named(settings: GuestSettings, unit: TrackedUnit) -> str | None:
    """Return the key of the settings that means this unit: its id, where uuids are the same in either case, or name."""
    by_id = next((key for key in settings.vms if key.lower() == unit.key.unit.lower()), None)
    if by_id is not None:
        return by_id
    name = dict(unit.info.labels).get(_NAME_LABEL)
    return name if name in settings.vms else None
