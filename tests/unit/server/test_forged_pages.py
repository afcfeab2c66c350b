"""Pages with anything in them: a clear error or a booked page that adds up, never a crash."""

import itertools
import json
from contextlib import suppress
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select
from tests.account_site import worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal

from kwhere.core.errors import KwhereError
from kwhere.database import schema
from kwhere.database.grid import Grid
from kwhere.ledger.columns import decode_column_page
from kwhere.ledger.pages import COLUMNS, ENERGY_COLUMN_NAMES
from kwhere.ledger.wire import digest
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.target import Target

LATER_NS = T0_NS + 86_400 * SECOND_NS
_numbers = itertools.count()

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2**64),
    st.integers(0, 10**12),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.text(min_size=600, max_size=700),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
changes = st.one_of(
    st.tuples(st.just("slot"), st.sampled_from(["seq", "start", "end", "monotonic_ns", "flags", "entries"]), values),
    st.tuples(st.just("control"), st.sampled_from(["uj", "span_ns", "method", "source"]), values),
    st.tuples(st.just("entry"), st.sampled_from(COLUMNS), values),
    st.tuples(st.just("both"), st.integers(0, 2**63), st.integers(0, 2**63)),
)


def forge(record: dict[str, Any], change: tuple[str, Any, Any]) -> None:
    """Put something else in one place; `both` changes energy so that it still balances."""
    where, name, value = change
    if where == "slot":
        record[name] = value
    elif where == "control":
        record["control"]["cpu"][name] = value
    elif where == "entry":
        record["entries"][0][COLUMNS.index(name)] = value
    else:
        at = COLUMNS.index(ENERGY_COLUMN_NAMES[0])
        record["control"]["cpu"]["uj"] += name - record["entries"][0][at]
        record["control"]["cpu"]["span_ns"] = value
        record["entries"][0][at] = name


def forged(changed: list[tuple[str, Any, Any]], at: int) -> HandJournal:
    number = next(_numbers)
    journal = HandJournal(node=f"n{number}", machine_id=f"m{number}")
    worked_case(journal, slots=3)
    (epoch,) = journal.epochs
    records = [json.loads(line) for line in journal.lines[epoch]]
    for change in changed:
        with suppress(TypeError, LookupError):  # an earlier change took the place away
            forge(records[at], change)
    before: str | None = None
    for place, record in enumerate(records):
        record["prev"] = before
        line = json.dumps(record).encode()
        journal.lines[epoch][place], before = line, digest(line)
    return journal


def totals(engine: Engine) -> set[int]:
    """The energy of everything, summed in three places."""
    found: set[int] = set()
    with engine.connect() as connection:
        for table in (schema.run_totals, schema.usage_5m):
            columns = [table.c[name] for name in ENERGY_COLUMN_NAMES]
            found.add(sum(int(connection.execute(select(func.sum(column))).scalar_one() or 0) for column in columns))
        shares = [schema.node_5m.c[name] for name in schema.BALANCE_COLUMNS]
        found.add(sum(int(connection.execute(select(func.sum(share))).scalar_one() or 0) for share in shares))
    return found


@pytest.mark.parametrize("at", [0, 2])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(changed=st.lists(changes, min_size=1, max_size=3))
def test_a_forged_page_is_refused_or_adds_up(engine: Engine, at: int, changed: list[tuple[str, Any, Any]]) -> None:
    booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)
    journal = forged(changed, at)

    with suppress(KwhereError):
        page = decode_column_page(journal.body())
        booker.book(Received(Target("c1", f"http://{journal.node}"), page, LATER_NS))

    assert len(totals(engine)) == 1
