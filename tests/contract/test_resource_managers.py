"""What every resource manager does, whichever it is: one suite over all of them, each with a service of ours."""

import re
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.databases import sqlite_engine
from tests.manager_kinds import KINDS, NOON, ONE, TWO, Site

from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.core.managed import ManagerUnit
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager, find_managers
from kwhere.resource_managers.resource_manager import QueueingManager, WatchingManager
from kwhere.server.manager_pass import ManagerPass

ALL = [pytest.param(name, marks=pytest.mark.service("virsh") if name == "libvirt" else ()) for name in KINDS]
REMEMBERING = [name for name, kind in KINDS.items() if kind.remembers]
RUN = re.compile(r"(?P<unit>.+)@[0-9]+")


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with KINDS[request.param].start(tmp_path) as made:
        yield made
        for manager in (made.manager, made.absent):
            manager.close()


def lived(site: Site, start_hours: float, end_hours: float) -> list[ManagerUnit]:
    hour = timedelta(hours=1)
    return list(site.manager.fetch_units(Span(NOON + start_hours * hour, NOON + end_hours * hour)))


over_all = pytest.mark.parametrize("site", ALL, indirect=True)
over_remembering = pytest.mark.parametrize("site", REMEMBERING, indirect=True)


def test_every_manager_is_under_this_suite() -> None:
    plugins = set(find_managers(outside=()).plugins)

    # Containers of Proxmox are told by what tells its machines.
    assert plugins - {"proxmox_lxc", "proxmox-lxc"} <= set(KINDS)


@over_all
def test_the_same_question_has_the_same_answer(site: Site) -> None:
    assert lived(site, 0, 2) == lived(site, 0, 2) != []


@over_remembering
def test_spans_are_half_open_and_leave_nothing_between(site: Site) -> None:
    whole = lived(site, 0, 2)

    assert [len(lived(site, *span)) for span in ((-1, 0), (0, 1), (1, 2))] == [0, 1, 1]
    assert {u.unit for span in ((0, 1), (1, 2)) for u in lived(site, *span)} == {u.unit for u in whole}
    assert len(whole) == 2
    a, b = sorted(whole, key=lambda unit: unit.started_at)
    assert (a.started_at, a.ended_at, b.started_at, b.ended_at) == (NOON, ONE, ONE, None)


@over_all
def test_units_have_aware_times_and_ids_that_the_account_takes(site: Site) -> None:
    for unit in lived(site, 0, 2):
        times = [at for at in (unit.started_at, unit.ended_at, unit.submitted_at) if at is not None]
        assert all(at.utcoffset() == timedelta() and at.tzinfo is UTC for at in times)
        assert unit.ended_at is None or unit.ended_at >= unit.started_at
        assert unit.cluster == "c1"
        assert "/" not in unit.unit
        named = RUN.fullmatch(unit.run)
        assert unit.run == unit.unit or (named is not None and named["unit"] == unit.unit)
        assert unit.state == unit.state.lower() != ""


@over_all
def test_who_does_not_answer_is_unavailable(site: Site) -> None:
    with pytest.raises(Unavailable):
        list(site.absent.fetch_units(Span(ONE, TWO)))
    if isinstance(site.absent, QueueingManager):
        with pytest.raises(Unavailable):
            site.absent.fetch_queue()
    if isinstance(site.absent, WatchingManager):
        with pytest.raises(Unavailable):
            site.absent.watch(None)


@over_all
def test_nonsense_is_an_error_and_no_empty_answer(site: Site) -> None:
    site.speak_nonsense()
    site.clock.ahead(minutes=5)

    with pytest.raises((SourceError, Unavailable)):
        list(site.manager.fetch_units(Span(ONE, site.clock.now)))


@over_all
def test_accounts_are_replaced_as_a_whole(site: Site) -> None:
    before = site.manager.fetch_accounts()
    assert site.manager.fetch_accounts() == before
    if site.leave is None:
        return
    assert "bob" in {member.user for member in before.memberships} or len(before.memberships) > 0

    site.leave()

    after = site.manager.fetch_accounts()
    assert set(after.memberships) < set(before.memberships)
    assert "bob" not in {member.user for member in after.memberships}


@over_all
def test_what_waits_has_not_begun(site: Site) -> None:
    if not isinstance(site.manager, QueueingManager):
        return
    queue = site.manager.fetch_queue()

    assert queue == site.manager.fetch_queue()
    assert not {unit.unit for unit in queue.waiting} & {unit.unit for unit in lived(site, 0, 2)}


@over_all
def test_nodes_have_names_of_their_own(site: Site) -> None:
    names = [node.name for node in site.manager.fetch_nodes()]

    assert len(names) == len(set(names))


@over_all
def test_it_may_be_closed_twice(site: Site) -> None:
    lived(site, 0, 2)

    site.manager.close()
    site.manager.close()


@over_all
def test_a_pass_twice_over_writes_it_once(site: Site, tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "account.sqlite")
    settings = ManagerSettings(manager="any", cluster="c1", backfill_days=0.1)
    server_pass = ManagerPass(engine, BuiltManager("any", settings, site.manager), site.clock)
    rows = []
    for _ in range(2):
        site.clock.ahead(minutes=2)
        server_pass.run(_Always())
        rows.append(_units(engine))

    assert rows[0] == rows[1] != []
    engine.dispose()


@over_all
def test_a_pass_over_one_who_does_not_answer_says_so_and_ends_nothing(site: Site, tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "account.sqlite")
    settings = ManagerSettings(manager="any", cluster="c1", backfill_days=0.1)
    ManagerPass(engine, BuiltManager("any", settings, site.manager), site.clock).run(_Always())
    before = _units(engine)
    site.clock.ahead(hours=1)

    with pytest.raises(KwhereError):
        ManagerPass(engine, BuiltManager("any", settings, site.absent), site.clock).run(_Always())

    assert _units(engine) == before
    engine.dispose()


class _Always:
    def goes_on(self) -> bool:
        return True


def _units(engine: Engine) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(select(schema.units)))
