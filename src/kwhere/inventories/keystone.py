"""The directory of people from OpenStack's Keystone, under the names that units of its servers carry."""

import structlog

from kwhere.core.clock import Clock
from kwhere.core.inventory import Inventory, Person, parse_mail, plain
from kwhere.inventories.source import InventoryPlugin, SourceSettings
from kwhere.resource_managers.keystone import Keystone
from kwhere.resource_managers.keystone_settings import KeystoneLogin
from kwhere.resource_managers.openstack_lists import identity_rows
from kwhere.resource_managers.openstack_names import names_by_id
from kwhere.resource_managers.rest_values import objects, text

log = structlog.get_logger(__name__)


class KeystoneSettings(SourceSettings, KeystoneLogin):
    """How Keystone is reached."""


class KeystoneSource:
    """Keystone's users; `email` and a full name as far as its backend keeps them."""

    def __init__(self, settings: KeystoneSettings, clock: Clock) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._keystone = Keystone(settings)

    def read(self) -> Inventory:
        """Return all users, disabled ones too: their units are still theirs."""
        domains = names_by_id(identity_rows(self._keystone, "/domains", "domains"), {})
        rows = identity_rows(self._keystone, "/users", "users", is_whole=True)
        names = names_by_id(rows, domains)
        found: dict[str, Person] = {}
        wrong = 0
        for row in objects(rows):
            name = names.get(text(row.get("id")) or "")
            if name is None:
                continue
            try:
                mail = parse_mail(text(row.get("email")))
            except ValueError:
                mail, wrong = None, wrong + 1
            full_name = plain(text(row.get("full_name")) or text(row.get("fullname")))
            found.setdefault(name, Person(name, self._settings.cluster, full_name, mail))
        if wrong:
            log.warning("values of the directory left out", source=self._settings.name or "keystone", count=wrong)
        return Inventory(people=tuple(found.values()))

    def close(self) -> None:
        """Give back the connections."""
        self._keystone.close()


plugin = InventoryPlugin("keystone", "People from OpenStack's Keystone.", KeystoneSettings, KeystoneSource)
