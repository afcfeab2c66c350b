"""A guest's meter: what it makes of a feed, and of one that is not there."""

import contextlib
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.guest_world import Feed
from tests.recorded_hosts import open_host
from tests.sampling_world import SECOND, HandClock
from tests.unit.meters.test_guest_entry import ENTRY

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.guest_entry import GuestEnergy, encode_entry
from kwhere.meters.hypervisor import FeedSource, build
from kwhere.meters.hypervisor_settings import HypervisorSettings
from kwhere.meters.hypervisor_ways import FileWay, VsockWay
from kwhere.meters.meter import Domain, MeterContext, Reading
from kwhere.meters.registry import build_meters
from kwhere.meters.settings import MeterSettings

CPU = Domain(DomainKind.CPU)


def context(fs: HostFS | None = None, **feed: object) -> MeterContext:
    settings = MeterSettings.model_validate({"hypervisor": feed})
    return MeterContext(fs or HostFS(), {0: "0"}, None, None, 2**30, dict, settings)


def source(*, stale_seconds: float = 60) -> tuple[FeedSource, Feed, HandClock]:
    clock, feed = HandClock(), Feed(encode_entry(ENTRY))
    return FeedSource(feed, stale_seconds, clock.monotonic_ns), feed, clock


def test_counters_come_with_their_idle_part_and_epoch() -> None:
    asked, _, _ = source()

    assert asked.ask()[0] == Reading(CPU, "cpu", 5, counter_uj=23, device_time=True, idle_uj=12, epoch="e1")
    assert asked.parent == ENTRY.parent


def test_a_component_new_within_an_epoch_begins_at_nothing() -> None:
    asked, feed, _ = source()
    asked.ask()
    feed.data = encode_entry(
        replace(ENTRY, seq=4, time_ns=9, energies=(*ENTRY.energies, GuestEnergy(Component.DRAM, 6, 7, 9)))
    )

    first = {reading.zone: reading for reading in asked.ask()}
    second = {reading.zone: reading for reading in asked.ask()}

    assert (first["dram"].counter_uj, first["dram"].idle_uj, first["dram"].time_ns) == (0, 0, 5)
    assert (second["dram"].counter_uj, second["dram"].idle_uj, second["dram"].time_ns) == (13, 7, 9)
    assert first["cpu"] == second["cpu"]


def test_a_component_of_another_epoch_is_taken_as_it_stands() -> None:
    asked, feed, _ = source()
    asked.ask()
    energies = (GuestEnergy(Component.DRAM, 6, 7, 9),)
    feed.data = encode_entry(replace(ENTRY, epoch="e2", host="hv2", energies=energies))

    assert [reading.counter_uj for reading in asked.ask()] == [13]
    assert asked.parent == "hv2/57f2d45e-8ddf-4338-91df-62d0044ff1b5"


def test_a_feed_that_stands_still_is_stale_until_it_moves() -> None:
    asked, feed, clock = source(stale_seconds=30)
    asked.ask()
    clock.advance(30 * SECOND)
    asked.ask()
    clock.advance(SECOND)
    with pytest.raises(Unavailable) as caught:
        asked.ask()
    assert caught.value.reason == "stale"

    feed.data = encode_entry(replace(ENTRY, seq=4))
    assert asked.ask()


def test_a_lost_feed_keeps_the_parent() -> None:
    asked, feed, _ = source()
    asked.ask()
    feed.data = None
    with pytest.raises(Unavailable):
        asked.ask()
    assert asked.parent == ENTRY.parent


def test_a_file_that_is_not_there_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        FileWay(tmp_path / "energy.json").fetch()
    assert caught.value.reason == "absent"


def test_a_directory_in_its_place_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        FileWay(tmp_path).fetch()
    assert caught.value.reason == "unreadable"


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "energy.json").write_bytes(encode_entry(ENTRY))

    assert FileWay(tmp_path / "energy.json").fetch() == encode_entry(ENTRY)


def said(data: bytes) -> socket.socket:
    """Return a connection whose other end says `data` and hangs up: a socket pair stands for AF_VSOCK."""
    mine, other = socket.socketpair()

    def say() -> None:
        with other, contextlib.suppress(OSError):  # the listener may have heard enough
            other.sendall(data)

    threading.Thread(target=say, daemon=True).start()
    return mine


def test_vsock_says_all_until_it_hangs_up() -> None:
    way = VsockWay(9811, lambda port, timeout: said(encode_entry(ENTRY)))

    assert way.fetch() == encode_entry(ENTRY)


def test_a_host_that_says_nothing_knows_no_such_guest() -> None:
    with pytest.raises(Unavailable) as caught:
        VsockWay(9811, lambda port, timeout: said(b"")).fetch()
    assert caught.value.reason == "absent"


def test_a_host_that_talks_for_ever_is_cut_short() -> None:
    way = VsockWay(9811, lambda port, timeout: said(b"x" * 300_000))

    with pytest.raises(SourceError, match="at most"):
        FeedSource(way, 60, HandClock().monotonic_ns).ask()


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ConnectionRefusedError(111, "no"), "refused"), (TimeoutError(), "timeout"), (OSError(19, "none"), "absent")],
    ids=["refused", "timeout", "absent"],
)
def test_a_vsock_that_fails_has_a_reason(error: OSError, reason: str) -> None:
    def fail(port: int, timeout: float) -> socket.socket:
        raise error

    with pytest.raises(Unavailable) as caught:
        VsockWay(9811, fail).fetch()
    assert caught.value.reason == reason


def test_where_nothing_is_set_it_says_whom_to_ask() -> None:
    with pytest.raises(Unavailable, match=r"agent\.guests") as caught:
        build(context())
    assert caught.value.reason == "absent"


def test_a_recorded_machine_has_no_host(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        build(context(open_host("vm-no-meter"), file=str(tmp_path / "energy.json")))
    assert caught.value.reason == "recorded"


def test_two_ways_at_once_are_refused() -> None:
    with pytest.raises(ValidationError, match="one of file, url and vsock_port"):
        HypervisorSettings.model_validate({"file": "/x", "vsock_port": 5})


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-secret-secret\n")
    with pytest.raises(ConfigError, match="https"):
        build(context(url="http://192.0.2.1:9812", client={"token_file": str(token)}))


def test_where_it_is_set_it_speaks_alone(tmp_path: Path) -> None:
    found = build_meters(context(file=str(tmp_path / "energy.json")))

    assert found.alone == "hypervisor"
    assert {meter.source for meter in found.by_component.values()} == {"hypervisor"}
    assert set(found.by_component) == set(Component)
    assert found.platforms == ()
    assert found.by_component[Component.CPU].method is Method.HYPERVISOR
    for meter in found.meters:
        meter.close()
