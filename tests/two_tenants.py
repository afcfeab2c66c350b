"""A site of alice alone, and the same with others around her: what she is shown may not differ by a byte."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from fastapi import FastAPI
from sqlalchemy import Engine
from tests.account_site import SITE, J, Site, fixed, keep
from tests.asgi_client import AsgiClient
from tests.fake_account import FixedClock
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit
from tests.managed_site import said, tell, turn_of

from kwhere.access.guard import GuardRules
from kwhere.access.settings import AccessSettings
from kwhere.api.app import build_app
from kwhere.apps.door import build_doorman, build_witnesses
from kwhere.core.inventory import Inventory, InventoryNode, Person
from kwhere.core.managed import Account, Accounts, ManagerAllocation, ManagerNode, ManagerUnit, Membership, WaitingUnit
from kwhere.database.inventory import write_inventory
from kwhere.database.managed_units import write_accounts, write_nodes
from kwhere.database.reader import Reader
from kwhere.database.waiting import write_queue
from kwhere.reports.sources import Hint, Sources
from kwhere.web.app import build_pages

SECRET = "proxy-secret-of-at-least-32-characters"
NOW = datetime.fromtimestamp(T0_NS / SECOND_NS + 7260, UTC)
AIR = {"project": "air", "name": "cfd run"}
CFD = {"project": "cfd", "name": "cfd run"}
FOREIGN = ("bob", "carol", "secretjob", "darkproject", "b-0", "b-1", "b-9", "w-bob", "Bob B")
"""Words that only others' rows hold."""


def fill(engine: Engine, *, others: bool) -> Site:
    """Fill a database: alice's units and, if `others`, first those of bob and carol, some on her node."""
    site = Site(engine)
    keep(site, fixed(100.0))
    if others:
        # First of all, so that every id of alice's is another.
        site.take(_journal("n3", "carol", "b", 9, project="cfd"), "c2")
        _tell_of_others(engine)
        site.take(_journal("n2", "bob", "b", 400, project="cfd"))
        site.take(_journal("n4", "carol", "d", 500, project="air"))
        site.take(_journal("n5", "bob", "b", 120, project="darkproject"))
    site.take(_shared_node(others))
    site.clock.now_ns = int(NOW.timestamp()) * SECOND_NS
    site.roll()
    tell(engine, said("a-0", 0, 1200, user="alice", project="cfd", name="cfd run", nodes=("n1",)))
    tell(engine, said("silent", 60, 600, user="alice", project="cfd"))
    tell(engine, *_of_one_job("a", "alice", 2400))
    members = [
        Membership("alice", "cfd"),
        Membership("alice", "air"),
        *([Membership("bob", "darkproject")] if others else []),
    ]
    accounts = [Account("cfd", "fluids"), *([Account("darkproject", "secret")] if others else [])]
    write_accounts(engine, turn_of(engine, T0_NS), Accounts(tuple(accounts), tuple(members)))
    waiting = [*(_waits(f"w-alice{at}", "alice") for at in range(3)), *([_waits("w-bob", "bob")] if others else [])]
    write_queue(engine, turn_of(engine, T0_NS), waiting)
    taken = 40.0 if others else 8.0
    write_nodes(engine, turn_of(engine, T0_NS), [_node("n1", taken), *([_node("n2", 4)] if others else [])])
    people = [Person("alice", "c1", "Alice A"), *([Person("bob", "c1", "Bob B")] if others else [])]
    nodes = [InventoryNode("n1", "c1", "r1"), *([InventoryNode("n2", "c1", "r2")] if others else [])]
    write_inventory(engine, "csv", 0, Inventory(tuple(nodes), people=tuple(people)), T0_NS)
    return site


def _tell_of_others(engine: Engine) -> None:
    tell(engine, *(said(f"b-{at}", at, 4000, user="bob", project="darkproject", name="secretjob") for at in range(3)))
    tell(engine, *_of_one_job("b", "bob", 2700))


def _of_one_job(word: str, user: str, start_s: int) -> list[ManagerUnit]:
    """Return tasks of an array and runs of a requeued job, whose numbers others have too."""
    words = {"user": user, "project": "darkproject" if user == "bob" else "cfd", "name": f"{word}-9"}
    tasks = [
        said(f"{word}-9{at}", start_s, start_s + 60, tags={"job": f"90_{at}", "array_job": "90"}, **words)
        for at in range(2)
    ]
    again = [
        said("again", start_s + at, start_s + at + 60, state="requeued" if at == 0 else "completed", **words)
        for at in (0, 120)
    ]
    return [*tasks, *again]


def _journal(node: str, user: str, word: str, slots: int, **names: str) -> HandJournal:
    journal = HandJournal(node=node, machine_id=f"machine-{node}")
    for _ in range(slots):
        entries = [
            unit(key(f"{word}-{at}"), figures((at + 1) * J, J, cpu_ns=SECOND_NS), user=user, **names) for at in range(3)
        ]
        journal.append([*entries, system(figures(J, J)), unallocated(figures(J, 0))])
    return journal


def _shared_node(others: bool) -> HandJournal:
    journal = HandJournal(node="n1", machine_id="machine-n1")
    for _ in range(120):
        entries = [
            unit(key(f"a-{at}"), figures((at + 1) * J, J, cpu_ns=SECOND_NS), user="alice", **(AIR if at else CFD))
            for at in range(4)
        ]
        if others:
            entries.append(unit(key("b-0"), figures(90 * J, J), user="bob", project="darkproject", name="secretjob"))
            entries.append(unit(key("c-0"), figures(80 * J, J), user="carol", project="cfd"))
        idle = 5 * J if others else 50 * J
        journal.append([*entries, system(figures(idle, J)), unallocated(figures(idle, 0))])
    return journal


def _waits(name: str, user: str) -> WaitingUnit:
    return WaitingUnit(
        cluster="c1",
        manager="slurm",
        unit=name,
        state="pending",
        name=f"name of {name}",
        user=user,
        project="cfd",
        submitted_at=NOW - timedelta(hours=1),
        asked=ManagerAllocation(4),
    )


def _node(name: str, taken: float) -> ManagerNode:
    return ManagerNode(name, "mixed", True, None, "epyc", 64, 2**38, {}, ManagerAllocation(taken, 2**30), ("main",))


def open_door(engine: Engine, directory: Path, settings: dict[str, object] | None = None) -> AsgiClient:
    """Return a client of API and pages behind the real door: `as_user` says who asks."""
    return AsgiClient(door_of(engine, directory, settings))


def door_of(
    engine: Engine, directory: Path, settings: dict[str, object] | None = None, host: str = "testserver"
) -> FastAPI:
    """Return API and pages behind the real door."""
    file = directory / "proxy-secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    words: dict[str, object] = {"proxy": {"secret_file": file}, "contact": "hpc@example.org", **(settings or {})}
    access = AccessSettings.model_validate(words)
    clock = FixedClock(NOW)
    sources = Sources(
        account=Reader(engine, clock, SITE),
        clock=clock,
        time_zone="UTC",
        choose_zone=lambda zone, by: None,
        hints=lambda: [Hint("open RAPL of n2", "secret hint")],
        faults=lambda: ["n2 cannot be pulled"],
        version="1",
        witness_of=build_witnesses(access, engine, clock),
    )
    rules = GuardRules(hosts=frozenset({host}))
    app = build_app(sources, rules, build_doorman(access, engine, clock, None))
    app.mount("/", build_pages(sources))
    return app


def as_user(name: str, **more: str) -> dict[str, str]:
    """Return the headers with which the proxy names a user."""
    return {"x-forwarded-user": name, "x-kwhere-proxy-secret": SECRET, "accept": "text/html,*/*", **more}
