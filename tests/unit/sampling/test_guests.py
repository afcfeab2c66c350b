"""A host tells its virtual machines their energy, and they book it: to the microjoule, whatever is killed meanwhile."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.guest_world import Guest, Host, Row, finish, make_host
from tests.sampling_world import SECOND, WATT

from kwhere.core.terms import Component, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.ledger.rows import ENERGY_COLUMNS
from kwhere.meters.hypervisor import DOMAIN_OF
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.step import Sampler
from kwhere.sampling.totals import StepCounts, Totals


def column(row: Row, component: Component, part: Part) -> int:
    return row[ENERGY_COLUMNS.index((component, part))]


def totals(guest: Guest) -> Totals:
    return build_totals(guest.world.sampler, StepCounts())


def nested(vcpus: int = 2) -> tuple[Host, UnitKey, Guest]:
    """Return a host with one VM that is fed, and its guest, which has taken its baseline at nothing."""
    host, guest = make_host(), Guest()
    host.world.step()
    key = host.start_vm("vm1", 1000 * vcpus)
    host.world.step()
    guest.feed.data = host.publish()[key]
    guest.run({})
    finish(host.world)
    finish(guest.world)
    return host, key, guest


def known(host: Host, key: UnitKey, guest: Guest) -> Row:
    """Let every component be known to host and guest, and kept by both; return what the host has booked."""
    host.run({key: 500}, 30 * WATT, 3 * WATT, 25 * WATT)
    host.run({key: 500}, 30 * WATT, 3 * WATT, 25 * WATT)
    finish(host.world)
    hear(host, key, guest)
    finish(guest.world)
    assert guest.account() == host.entry_of(key)
    return host.entry_of(key)


def hear(host: Host, key: UnitKey, guest: Guest) -> None:
    """Let the guest be told, and look twice: a component that is new to it is a baseline at 0 first."""
    guest.feed.data = host.publish()[key]
    guest.run({})
    guest.run({})


def settle(host: Host, key: UnitKey, guest: Guest) -> None:
    """Let the counters catch up with the account, tell it, and close both slots."""
    for _ in range(3):
        host.run({key: 900}, 50 * WATT, 5 * WATT, 30 * WATT)
    finish(host.world)
    guest.feed.data = host.publish()[key]
    guest.run({})
    guest.run({})
    finish(guest.world)


def test_case_energy_a12_watts_times_seconds_and_not_watts() -> None:
    host, key, guest = nested()
    host.run({}, 10 * WATT, 0, 0)
    hear(host, key, guest)
    known_uj = totals(guest).node_uj[Component.CPU]
    for _ in range(5):  # 5 s at 60 W: 10 W idle, of which a half is the VM's, and all that is dynamic
        host.run({key: 1000}, 60 * WATT, 0, 0)
    hear(host, key, guest)

    assert totals(guest).node_uj[Component.CPU] - known_uj == 5 * (50 + 5) * WATT


def test_case_energy_a13_every_vcpu_counts() -> None:
    host, key, guest = nested(vcpus=4)
    host.run({}, 10 * WATT, 0, 0)
    hear(host, key, guest)
    known_uj = totals(guest).node_uj[Component.CPU]
    host.run({key: 4000}, 110 * WATT, 0, 0)
    hear(host, key, guest)

    assert totals(guest).node_uj[Component.CPU] - known_uj == 110 * WATT


def test_case_energy_a1_a_busy_vm_gets_what_the_node_drew_more() -> None:
    host, first, guest = nested()
    second = host.start_vm("vm2", 2000)
    rows = []
    for used_ms, drawn_uj in ((0, 20 * WATT), (0, 20 * WATT), (900, 32 * WATT)):  # two seconds each
        host.run({first: used_ms}, drawn_uj, 0, 0)
        finish(host.world)
        rows.append((sum(host.entry_of(first)), sum(host.entry_of(second))))
        hear(host, first, guest)

    assert rows[2][0] - rows[1][0] == (rows[1][0] - rows[0][0]) + 12 * WATT
    assert rows[2][1] - rows[1][1] == rows[1][1] - rows[0][1]
    assert sum(totals(guest).node_uj.values()) == rows[2][0]


def test_parts_are_taken_as_they_are_told_and_nothing_is_learned() -> None:
    host, key, guest = nested()
    unit = guest.world.units.start("pod", milli_cpus=1000)
    for _ in range(10):
        host.run({key: 500}, 30 * WATT, 3 * WATT, 25 * WATT)
        guest.feed.data = host.publish()[key]
        guest.run({unit: 300})
    guest.feed.data = host.publish()[key]
    guest.run({unit: 300})
    settle(host, key, guest)

    assert guest.account() == host.entry_of(key)
    assert guest.world.sampler.parts.energy.baselines == {}
    seen = totals(guest)
    assert seen.idle == ()
    assert {source for _, source in seen.methods.values()} == {"hypervisor"}
    assert {method for method, _ in seen.methods.values()} == {Method.HYPERVISOR}
    entry = next(e for slot in guest.world.sink.slots for e in slot.entries if e.key == unit)
    assert entry.figures.energy_uj[Component.OTHER, Part.DYNAMIC] > 0
    assert entry.figures.energy_uj[Component.CPU, Part.IDLE] > 0


def test_a_guest_without_a_feed_has_no_energy_whatever_its_other_meters_say() -> None:
    host, key, guest = nested()
    guest.feed.data = None
    for _ in range(5):
        guest.run({})
    seen = totals(guest)
    assert seen.node_uj == {}
    assert (seen.sources["hypervisor"].up, seen.sources["hypervisor"].reason) == (False, "absent")
    del host, key


def test_a_feed_that_stands_still_is_stale_and_never_zero() -> None:
    host, key, guest = nested()
    host.run({key: 500}, 30 * WATT, 0, 0)
    guest.feed.data = host.publish()[key]
    for _ in range(100):
        guest.run({})
    seen = totals(guest)
    assert (seen.sources["hypervisor"].up, seen.sources["hypervisor"].reason) == (False, "stale")
    later = [slot for slot in guest.world.sink.slots if slot.start_ns > guest.world.clock.utc - 75 * SECOND]
    assert later
    assert all(slot.controls == () and e.figures.energy_uj == {} for slot in later for e in slot.entries)

    settle(host, key, guest)  # the host kept counting: nothing is lost
    assert guest.account() == host.entry_of(key)


def test_a_restarted_guest_fills_its_gap_from_the_counters() -> None:
    host, key, guest = nested()
    host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.run({})
    finish(guest.world)
    host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.world.clock.advance(100 * SECOND)

    guest.restart()
    guest.run({})
    settle(host, key, guest)

    assert guest.account() == host.entry_of(key)
    assert guest.gaps() == {}


def test_a_restarted_host_goes_on_in_the_same_epoch() -> None:
    host, key, guest = nested()
    for _ in range(45):
        host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.run({})
    epoch = host.shown.shown[key].epoch

    host.restart()
    guest.feed.data = host.publish()[key]
    guest.run({})
    settle(host, key, guest)

    assert host.shown.shown[key].epoch == epoch
    assert guest.account() == host.entry_of(key)
    assert guest.gaps() == {}


def test_a_host_that_forgot_what_it_told_begins_another_epoch() -> None:
    host, key, guest = nested()
    for _ in range(45):
        host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.run({})
    epoch = host.shown.shown[key].epoch

    host.text = ""
    host.restart()
    guest.feed.data = host.publish()[key]
    guest.run({})

    assert host.shown.shown[key].epoch != epoch
    assert guest.gaps()["epoch"] == 3  # cpu, dram, other
    told_uj = sum(guest.world.sampler.control.totals_uj().values())
    assert told_uj <= sum(host.entry_of(key))


def test_a_migrated_guest_takes_a_baseline_at_its_new_host() -> None:
    host, key, guest = nested()
    host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.run({})
    assert guest.source.parent == "hv1/vm1"
    before_uj = dict(totals(guest).node_uj)

    other = make_host("hv2")
    other.world.step()
    there = other.start_vm("vm1", 2000)
    other.run({there: 700}, 40 * WATT, 2 * WATT, 9 * WATT)
    host.world.units.end(key)
    host.world.step()
    guest.feed.data = other.publish()[there]
    guest.run({})
    assert guest.source.parent == "hv2/vm1"
    assert totals(guest).node_uj == before_uj  # a baseline, no energy

    told = other.entry_of(there)
    settle(other, there, guest)
    gained = sum(totals(guest).node_uj.values()) - sum(before_uj.values())
    assert guest.gaps() == {"epoch": 3}
    assert 0 < gained < sum(other.entry_of(there)) - sum(told)
    assert sum(guest.account()) <= sum(host.entry_of(key)) + sum(other.entry_of(there))


def test_a_component_that_its_host_learns_of_later_is_whole() -> None:
    """A BMC that answers after the epoch began: its first span belongs to the guest too."""
    host, key, guest = nested()
    platform = host.world.meters[1]
    platform.broken = "absent"
    host, guest = make_host(), Guest()
    host.world.meters[1].broken = "absent"
    host.world.step()
    key = host.start_vm("vm1")
    host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.run({})
    assert Component.OTHER not in totals(guest).node_uj

    host.world.meters[1].broken = ""
    host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    host.run({key: 500}, 30 * WATT, 2 * WATT, 9 * WATT)
    guest.feed.data = host.publish()[key]
    guest.run({})
    settle(host, key, guest)

    for part in Part:
        mine, its = column(guest.account(), Component.OTHER, part), column(host.entry_of(key), Component.OTHER, part)
        assert mine == its > 0


def test_the_vms_of_one_host_have_entries_of_their_own() -> None:
    host, first, _ = nested()
    second = host.start_vm("vm2")
    host.run({first: 100, second: 300}, 50 * WATT, 0, 0)
    host.run({first: 100, second: 300}, 50 * WATT, 0, 0)

    told = host.publish()

    assert set(told) == {first, second}
    assert b'"vm2"' not in told[first]
    assert b'"vm1"' not in told[second]


def test_a_vm_that_ended_is_told_nothing_more() -> None:
    host, key, _ = nested()
    host.world.units.end(key)
    host.world.step()

    assert host.publish() == {}


@pytest.mark.parametrize("domain", DOMAIN_OF.values(), ids=str)
def test_a_guest_has_no_socket_of_its_hosts(domain: object) -> None:
    assert str(domain) in {"cpu", "dram", "gpu", "other"}


EVENTS = st.sampled_from(
    ["host", "host", "host", "guest", "guest", "tell", "tell", "kill host", "kill guest", "lose", "slot"]
)


@settings(max_examples=50)
@given(
    events=st.lists(
        st.tuples(EVENTS, st.integers(0, 1000), st.integers(0, 90 * WATT), st.integers(0, 40 * WATT)), max_size=60
    )
)
def test_whatever_is_killed_the_guests_sum_is_its_entry(events: Sequence[tuple[str, int, int, int]]) -> None:
    host, key, guest = nested()
    known(host, key, guest)
    neighbour = host.start_vm("vm2", 1000)
    unit = guest.world.units.start("pod", milli_cpus=500)
    for event, used_ms, cpu_uj, more_uj in events:
        if event == "host":
            host.run({key: used_ms, neighbour: 1000 - used_ms}, cpu_uj, cpu_uj // 10, more_uj)
        elif event == "guest":
            guest.run({unit: used_ms})
        elif event == "tell":
            guest.feed.data = host.publish()[key]
        elif event == "kill host":
            host.restart()
        elif event == "kill guest":
            guest.restart()
        elif event == "lose":
            guest.feed.data = None
        else:
            host.world.sampler.finish()
            guest.world.sampler.finish()
    for _ in range(5):  # until the account has caught up with what was told before a kill
        host.run({key: 900}, 3000 * WATT, 3000 * WATT, 3000 * WATT)
    settle(host, key, guest)

    assert guest.account() == host.entry_of(key)
    assert guest.gaps() == {}


def test_a_slot_ends_where_another_host_takes_over() -> None:
    host, key, guest = nested()
    known(host, key, guest)
    turning = [False]
    guest.world.sampler = Sampler(replace(guest.world.sampler.parts, is_turning=lambda: turning[0]))
    guest.run({})
    closed = len(guest.world.sink.slots)
    guest.run({})
    assert len(guest.world.sink.slots) == closed

    turning[0] = True
    guest.run({})

    assert len(guest.world.sink.slots) == closed + 1


def test_counters_outlive_a_second_kill_while_the_feed_is_lost() -> None:
    host, key, guest = nested()
    known(host, key, guest)
    for _ in range(2):
        guest.feed.data = None
        guest.restart()
        guest.run({})
        guest.run({})

    settle(host, key, guest)

    assert guest.account() == host.entry_of(key)
    assert guest.gaps() == {}
