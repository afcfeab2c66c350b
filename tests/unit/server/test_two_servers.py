"""Two servers on one database that read the same agents at once: every slot is booked once."""

import threading
from zoneinfo import ZoneInfo

from sqlalchemy import Engine, func, select
from tests.account_site import worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal

from kwhere.core.errors import IntakeRefused
from kwhere.database import schema
from kwhere.database.grid import Grid
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.target import Target

NODES = 3
SLOTS = 12
LATER_NS = T0_NS + 86_400 * SECOND_NS


def read_all(engine: Engine, journals: list[HandJournal], gate: threading.Barrier) -> None:
    booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)
    gate.wait()
    for journal in journals:
        target = Target("c1", f"http://{journal.node}:9810")
        after: str | None = None
        while True:
            try:
                outcome = booker.book(Received(target, journal.page(after, 2), LATER_NS))
            except IntakeRefused:
                continue  # the other one was first: look again
            after = str(outcome.after)
            if not outcome.more:
                break


def test_two_readers_of_the_same_agents_book_each_slot_once(engine: Engine) -> None:
    journals = [HandJournal(node=f"n{n}", machine_id=f"m{n}") for n in range(NODES)]
    for journal in journals:
        worked_case(journal, slots=SLOTS)
        journal.new_epoch()
        worked_case(journal, slots=SLOTS)
    gate = threading.Barrier(2)
    orders = (journals, journals[::-1])
    threads = [threading.Thread(target=read_all, args=(engine, order, gate)) for order in orders]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert not any(thread.is_alive() for thread in threads)
    with engine.connect() as connection:
        slots = connection.execute(select(func.count()).select_from(schema.slots)).scalar_one()
        energy_uj = connection.execute(select(func.sum(schema.unit_totals.c.energy_uj))).scalar_one()
    assert slots == NODES * SLOTS * 2
    assert energy_uj == sum(journal.control_uj for journal in journals)
