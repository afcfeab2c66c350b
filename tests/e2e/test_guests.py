"""A virtual machine's energy from its host's agent to its own, both real, both killed; a server counts it once."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select
from tests.e2e.guest_site import VM, FakeMachine, NestedSite, RunningMeter, row_of, vm_row, whole_row

from kwhere.core.clock import SystemClock
from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.engine import open_engine
from kwhere.database.reader import Reader
from kwhere.database.records import UsageBy
from kwhere.database.settings import DatabaseSettings, SiteSettings

pytestmark = [pytest.mark.slow, pytest.mark.service("cgroups")]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[NestedSite]:
    made = NestedSite(tmp_path, RunningMeter(tmp_path / "sys"))
    machine = FakeMachine()
    yield made
    made.close()
    made.meter.stop()
    machine.end()


def wait_for_feed(site: NestedSite, host: str, more: int = 3) -> None:
    """Wait until the host has told its guest a few times more."""

    def seq() -> int:
        try:
            return site.entry(host).seq
        except FileNotFoundError:
            return 0

    before = seq()
    site.roles.wait_until(lambda: seq() >= before + more)


def wait_for_slots(site: NestedSite, more: int = 4) -> None:
    before = site.account.slots()
    site.roles.wait_until(lambda: site.account.slots() >= before + more)


def wait_for_parent(site: NestedSite, host: str) -> None:
    """Wait until the server has read from the guest that this host feeds it: its baseline is taken."""
    nodes = schema.nodes.c
    engine = create_engine(site.account.url)

    def parent() -> str | None:
        with engine.connect() as connection:
            found: str | None = connection.execute(select(nodes.parent).where(nodes.name == "vm1")).scalar_one_or_none()
            return found

    site.roles.wait_until(lambda: parent() == f"{host}/{VM}")
    engine.dispose()


def settle(site: NestedSite, host: str) -> None:
    """Let the meter stand still and everyone book what it said last, however slow the machine is."""
    site.meter.stop()
    wait_for_feed(site, host)
    told = None
    while told != site.entry(host).energies:
        told = site.entry(host).energies
        wait_for_feed(site, host)
        wait_for_slots(site, 5)


def reader_of(site: NestedSite) -> tuple[Reader, Span]:
    reader = Reader(open_engine(DatabaseSettings(url=site.account.url)), SystemClock(), SiteSettings())
    now = datetime.now(UTC)
    return reader, Span(now - timedelta(hours=1), now + timedelta(minutes=10))


def test_a_guest_books_its_entry_to_the_microjoule_though_both_agents_are_killed(site: NestedSite) -> None:
    site.add_host("hv1")
    site.add_guest("vm1")
    site.plug("hv1")
    site.start("hv1")
    site.start_server()
    wait_for_feed(site, "hv1")
    site.start("vm1")
    wait_for_parent(site, "hv1")  # the guest has taken its baseline: nothing
    site.meter.start()
    wait_for_slots(site)

    for victim in ("hv1", "vm1"):
        wait_for_feed(site, "hv1")
        site.end(victim, signal.SIGKILL)
        site.start(victim)
        wait_for_slots(site)
    settle(site, "hv1")
    told = row_of(site.entry("hv1"))
    reader, span = reader_of(site)
    by_node = {node.node: node for node in reader.nodes().items}
    site_uj = sum(row.energy_total_uj for row in reader.usage(UsageBy.CLUSTER, span).rows)
    site.end("vm1")
    site.end("hv1")

    host, guest = site.slots("hv1"), site.slots("vm1")
    assert vm_row(host) == told
    assert whole_row(guest) == vm_row(host)
    assert sum(whole_row(guest)) > 0
    kinds = {control.component for _, slot in guest for control in slot.controls}
    assert kinds == {Component.CPU, Component.DRAM, Component.OTHER}
    assert {control.source for _, slot in guest for control in slot.controls} == {"hypervisor"}
    assert {entry.key.unit for _, slot in guest for entry in slot.entries if entry.key} != set()
    assert guest[-1][0] == f"hv1/{VM}"
    assert by_node["vm1"].parent == f"hv1/{VM}"
    assert site_uj == sum(whole_row(host))


def test_a_guest_that_migrates_is_counted_once_at_each_host(site: NestedSite) -> None:
    for host in ("hv1", "hv2"):
        site.add_host(host)
        site.start(host)
    site.add_guest("vm1")
    site.plug("hv1")
    site.start_server()
    for host in ("hv1", "hv2"):
        wait_for_feed(site, host)
    site.start("vm1")
    wait_for_parent(site, "hv1")
    site.meter.start()
    wait_for_slots(site, 9)

    site.plug("hv2")
    wait_for_parent(site, "hv2")
    wait_for_slots(site, 9)
    settle(site, "hv2")
    reader, span = reader_of(site)
    parent = {node.node: node.parent for node in reader.nodes().items}["vm1"]
    site_uj = sum(row.energy_total_uj for row in reader.usage(UsageBy.CLUSTER, span).rows)
    for name in ("vm1", "hv1", "hv2"):
        site.end(name)

    first, second, guest = site.slots("hv1"), site.slots("hv2"), site.slots("vm1")
    parents = list(dict.fromkeys(named for named, _ in guest if named))
    assert parents == [f"hv1/{VM}", f"hv2/{VM}"] == [parents[0], parent]
    at_first, at_second = (whole_row(s for s in guest if s[0] == named) for named in parents)
    assert sum(at_first) > 0
    assert sum(at_second) > 0
    assert all(mine <= its for mine, its in zip(at_first, vm_row(first), strict=True))
    assert all(mine <= its for mine, its in zip(at_second, vm_row(second), strict=True))
    assert site_uj == sum(whole_row(first)) + sum(whole_row(second))
