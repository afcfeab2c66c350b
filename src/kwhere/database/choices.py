"""What was chosen on the page, and the server's own marks: a value per key."""

import json

from sqlalchemy import Connection, Engine, select

from kwhere.database import audit, bulk, schema
from kwhere.database.engine import writing
from kwhere.database.records import SiteChoice

_ZONE = "site.zone"


def read_choice(connection: Connection, key: str) -> object:
    """Return the value of a key; None where there is none."""
    value = connection.execute(select(schema.choices.c.value).where(schema.choices.c.key == key)).scalar_one_or_none()
    return None if value is None else json.loads(value)


def write_choice(connection: Connection, key: str, value: object, now_ns: int, by: str) -> None:
    """Set the value of a key."""
    bulk.upsert(
        connection,
        schema.choices,
        ("key",),
        dict.fromkeys(("value", "changed_ns", "changed_by"), bulk.Merge.NEW),
        [(key, json.dumps(value), now_ns, by)],
    )


def read_site_choice(connection: Connection) -> SiteChoice:
    """Return the zone chosen or proposed for the site."""
    held = read_choice(connection, _ZONE)
    if not isinstance(held, dict):
        return SiteChoice()
    return SiteChoice(zone=held.get("zone"), zone_proposed=bool(held.get("proposed")))


def choose_zone(engine: Engine, zone: str | None, *, now_ns: int, by: str, proposed: bool = False) -> None:
    """Set the site's zone of emission factors; a proposal never replaces what a person chose."""
    with writing(engine).begin() as connection:
        held = read_site_choice(connection)
        if proposed and (held.zone is not None and not held.zone_proposed):
            return
        if (held.zone, held.zone_proposed) == (zone, proposed):
            return
        write_choice(connection, _ZONE, {"zone": zone, "proposed": proposed}, now_ns, by)
        audit.record(connection, now_ns, by, "choose zone", zone or "", {"proposed": proposed, "before": held.zone})
