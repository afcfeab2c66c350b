"""What figures were last derived with: PUE, prices, water. Where an edit changes that, hours are touched."""

import json
from collections.abc import Sequence

from pydantic import BaseModel
from sqlalchemy import Connection, Engine, select

from kwhere.database import schema
from kwhere.database.booking import touch
from kwhere.database.choices import read_choice, write_choice
from kwhere.database.engine import writing
from kwhere.database.grid import HOUR_NS
from kwhere.database.pue import note_pue, noted_pue
from kwhere.database.settings import SiteSettings
from kwhere.energy.steps import Steps, changed_spans

PUE, COST = "pue", "cost"
"""Causes of corrections; a change of water is one of `cost` too."""
_NOTED = "figures.noted"
_PENDING = "figures.pending"
_Span = tuple[int, int, str]
"""Start and end in UTC ns, and the cause."""


def note_terms(engine: Engine, site: SiteSettings, dated: Steps[float], now_ns: int) -> int:
    """Note PUE, prices and water in force; touch the hours in which they differ from before. Returns how many.

    What is to be touched is noted first and touched node by node: cut off anywhere, the next call goes on.
    """
    with writing(engine).begin() as connection:
        spans = [*_pending(connection), *_changes(connection, site, dated, now_ns)]
        if spans:
            write_choice(connection, _PENDING, spans, now_ns, "server")
        node_ids = connection.execute(select(schema.nodes.c.id)).scalars().all() if spans else []
    count = sum(_touch(engine, node_id, spans) for node_id in node_ids)
    if spans:
        with writing(engine).begin() as connection:
            write_choice(connection, _PENDING, [], now_ns, "server")
    return count


def _pending(connection: Connection) -> list[_Span]:
    held = read_choice(connection, _PENDING)
    return [(start, end, cause) for start, end, cause in held] if isinstance(held, list) else []


def _changes(connection: Connection, site: SiteSettings, dated: Steps[float], now_ns: int) -> list[_Span]:
    before = noted_pue(connection)
    if not before.starts_ns:  # so far hours were derived with what is set now, whatever the time
        before = Steps((0,), (site.pue_ratio,))
    after = note_pue(connection, site, dated, now_ns)
    found = [(start, end, PUE) for start, end in changed_spans(before, after, now_ns)]
    held = read_choice(connection, _NOTED)
    noted = held if isinstance(held, dict) else {}
    now = {"cost": _cost(site), "water": _water(site)}
    for name, steps in now.items():
        earlier: Steps[str] = Steps.of((start, text) for start, text in noted.get(name, []))
        found += [(start, end, COST) for start, end in changed_spans(earlier, steps, now_ns)]
    written = {name: [list(pair) for pair in steps.pairs()] for name, steps in now.items()}
    if written != noted and (noted or any(written.values())):
        write_choice(connection, _NOTED, written, now_ns, "server")
    return found


def _cost(site: SiteSettings) -> Steps[str]:
    """Return the tariffs as text; one with times of day means something else in another time zone."""
    found = []
    for entry in site.cost.tariffs:
        zone = site.time_zone if entry.periods else None
        found.append((site.start_ns(entry.since), _text(entry, site.cost.currency, zone)))
    return Steps.of(found)


def _water(site: SiteSettings) -> Steps[str]:
    return Steps.of((site.start_ns(entry.since), _text(entry)) for entry in site.water)


def _text(entry: BaseModel, *more: str | None) -> str:
    return json.dumps([entry.model_dump(mode="json", exclude={"since"}), *more], sort_keys=True)


def _touch(engine: Engine, node_id: int, spans: Sequence[_Span]) -> int:
    hours = schema.node_hour.c
    count = 0
    with writing(engine).begin() as connection:
        for start_ns, end_ns, cause in spans:
            query = select(hours.start_ns).where(
                hours.node_id == node_id, hours.start_ns > start_ns - HOUR_NS, hours.start_ns < end_ns
            )
            starts = set(connection.execute(query).scalars())
            touch(connection, node_id, "hour", starts, cause)
            count += len(starts)
    return count
