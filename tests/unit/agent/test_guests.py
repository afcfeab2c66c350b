"""Telling guests: who is told what, by which way, and what a guest or a stranger cannot get at."""

import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guest_world import CPU0, Host, finish, make_host
from tests.recorded_hosts import open_host
from tests.sampling_world import WATT, HandClock

from kwhere.agent.guest_choice import is_fed, named_units
from kwhere.agent.guest_cids import cid_of_command, find_cids
from kwhere.agent.guest_feeds import GuestFeeds, Told
from kwhere.agent.guest_files import remove_file, uid_of, write_file
from kwhere.agent.guest_http import GuestHttp, GuestPages
from kwhere.agent.guest_settings import GuestSettings
from kwhere.agent.guest_shown import parse_shown
from kwhere.agent.guest_vsock import GuestCids, GuestVsock, listen
from kwhere.agent.http_access import AccessRules
from kwhere.agent.http_messages import Peer, Request
from kwhere.agent.web_config import load_web_config
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.guest_entry import parse_entry
from kwhere.meters.hypervisor_ways import HttpWay
from kwhere.transport.settings import HttpClientSettings

UUID = "57f2d45e-8ddf-4338-91df-62d0044ff1b5"


def vm(unit: str, name: str | None = None, title: str | None = None, manager: str = "libvirt") -> TrackedUnit:
    labels = (("vm", name),) if name else ()
    info = UnitInfo(name=title or name, labels=labels)
    return TrackedUnit(UnitKey(manager, unit, f"{unit}@1"), f"/m/{unit}", 1, None, None, info, Allocation(), True, 0)


def settings(**values: object) -> GuestSettings:
    return GuestSettings.model_validate(values)


@pytest.mark.parametrize(
    ("values", "unit", "fed"),
    [
        ({}, vm("a"), False),
        ({"directory": "/d"}, vm("a"), True),
        ({"vsock_port": 9811}, vm("a"), True),
        ({"directory": "/d"}, vm("a", manager="slurm"), False),
        ({"vms": {UUID.upper(): {}}}, vm(UUID), True),
        ({"vms": {"db1": {}}}, vm(UUID, name="db1"), True),
        ({"vms": {"db1": {}}}, vm(UUID, name="x", title="db1"), False),
        ({"vms": {"db1": {}}}, vm("pod-1", name="db1", manager="kubernetes"), True),
    ],
    ids=["off", "directory", "vsock", "no vm", "uuid", "name", "a title is the tenant's own choice", "kubevirt"],
)
def test_who_is_told(values: dict[str, object], unit: TrackedUnit, fed: bool) -> None:
    assert is_fed(settings(**values), unit) is fed


def test_a_name_that_two_machines_bear_names_neither() -> None:
    named = named_units(settings(vms={"db1": {}, "x": {}}), [vm("a", "db1"), vm("b", "db1"), vm("x", "x")])

    assert {key: unit.key.unit for key, unit in named.items()} == {"x": "x"}


# files


def test_a_file_is_its_owners_alone_and_replaced_as_a_whole(tmp_path: Path) -> None:
    write_file(tmp_path / "vm", b"one", None)
    first = (tmp_path / "vm/energy.json").stat()
    write_file(tmp_path / "vm", b"two", None)

    second = (tmp_path / "vm/energy.json").stat()
    assert (tmp_path / "vm/energy.json").read_bytes() == b"two"
    assert first.st_ino != second.st_ino
    assert stat.S_IMODE(second.st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "vm").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "vm") == ["energy.json"]


def test_a_link_planted_by_the_guest_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("precious")
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm/energy.json").symlink_to(tmp_path / "shadow")

    write_file(tmp_path / "vm", b"entry", None)

    assert (tmp_path / "shadow").read_text() == "precious"
    assert not (tmp_path / "vm/energy.json").is_symlink()


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "vm").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or ENOTDIR, by kernel
        write_file(tmp_path / "vm", b"entry", None)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_what_cannot_take_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "vm/energy.json").mkdir(parents=True)

    with pytest.raises(OSError):  # noqa: PT011 - EISDIR
        write_file(tmp_path / "vm", b"entry", None)
    assert os.listdir(tmp_path / "vm") == ["energy.json"]


@pytest.mark.service("root")
def test_the_owner_gets_directory_and_file(tmp_path: Path) -> None:
    write_file(tmp_path / "vm", b"entry", 65534)

    assert (tmp_path / "vm").stat().st_uid == (tmp_path / "vm/energy.json").stat().st_uid == 65534


def test_a_file_is_removed_once_and_may_be_gone(tmp_path: Path) -> None:
    write_file(tmp_path / "vm", b"entry", None)

    remove_file(tmp_path / "vm")
    remove_file(tmp_path / "vm")
    remove_file(tmp_path / "never")

    assert os.listdir(tmp_path / "vm") == []


def test_an_owner_is_a_number_or_a_user_of_this_machine() -> None:
    assert uid_of(None, "k") is None
    assert uid_of("64055", "k") == 64055
    assert uid_of("root", "k") == 0
    with pytest.raises(ConfigError, match=r"^agent\.guests\.owner: .*nobody-of-that-name"):
        uid_of("nobody-of-that-name", "agent.guests.owner")


# vsock: who a CID is


@pytest.mark.parametrize(
    ("arguments", "cid"),
    [
        (["qemu-kvm", "-device", "vhost-vsock-pci,id=vsock0,guest-cid=7,vhostfd=31,bus=pci.6"], 7),
        (["qemu-kvm", "-device", '{"driver":"vhost-vsock-pci","id":"vsock0","guest-cid":7,"vhostfd":"31"}'], 7),
        (["qemu-kvm", "--device", "vhost-vsock-ccw,guest-cid=4294967294"], 2**32 - 2),
        (["qemu-kvm", "-device", "virtio-net,mac=x", "-device", "vhost-user-vsock-pci,guest-cid=9"], 9),
        (["qemu-kvm", "-device", "virtio-net,guest-cid=9"], None),
        (["qemu-kvm", "-device", "vhost-vsock-pci,guest-cid=2"], None),
        (["qemu-kvm", "-device", "vhost-vsock-pci,guest-cid=4294967295"], None),
        (["qemu-kvm", "-device", "vhost-vsock-pci,guest-cid=0x7"], None),
        (["qemu-kvm", "-device", "vhost-vsock-pci,guest-cid="], None),
        (["qemu-kvm", "-device", '{"driver":"vhost-vsock-pci","guest-cid":true}'], None),
        (["qemu-kvm", "-device", "[" * 3000], None),
        (["qemu-kvm", "-device"], None),
        ([], None),
    ],
    ids=str,
)
def test_the_cid_is_read_from_qemus_command(arguments: list[str], cid: int | None) -> None:
    assert cid_of_command(arguments) == cid


@given(st.lists(st.text(max_size=60) | st.sampled_from(["-device", '{"driver":', "vhost-vsock-pci,guest-cid=5"])))
def test_any_command_has_a_cid_or_none(arguments: list[str]) -> None:
    cid = cid_of_command(arguments)
    assert cid is None or 3 <= cid < 2**32 - 1


def proc(root: Path, pid: int, command: list[str], cgroup: str) -> None:
    (root / str(pid)).mkdir(parents=True)
    (root / str(pid) / "cmdline").write_bytes(b"\0".join(part.encode() for part in command) + b"\0")
    (root / str(pid) / "cgroup").write_text(f"0::{cgroup}\n")


def qemu(cid: int, uuid: str = "a") -> list[str]:
    return ["/usr/bin/qemu-system-x86_64", "-uuid", uuid, "-device", f"vhost-vsock-pci,guest-cid={cid}"]


def test_a_process_that_only_looks_like_qemu_is_not_believed(tmp_path: Path) -> None:
    proc(tmp_path, 10, qemu(7), "/m/a/libvirt/emulator")
    proc(tmp_path, 11, qemu(8), "/user.slice/user-1000.slice")  # a user's own, who would hear what VM a is told
    proc(tmp_path, 12, qemu(9), "/m/ab")
    proc(tmp_path, 14, qemu(6), "/user.slice/mine\x1e0::/m/a")  # a line that the name of a cgroup makes up
    proc(tmp_path, 13, ["sleep", "-device", "vhost-vsock-pci,guest-cid=5"], "/m/a")

    assert find_cids(HostFS(tmp_path, tmp_path, tmp_path), [vm("a")]) == {"a": 7}


def told(*units: TrackedUnit) -> Told:
    return Told({u.key.unit: u for u in units}, {u.key.unit: f"entry of {u.key.unit}".encode() for u in units})


def test_a_cid_is_told_its_own_and_strangers_nothing(tmp_path: Path) -> None:
    proc(tmp_path, 10, qemu(7), "/m/a")
    fs = HostFS(tmp_path, tmp_path, tmp_path)
    cids = GuestCids(settings(vsock_port=9811, vms={"b": {"cid": 20}}), lambda: told(vm("a"), vm("b")), fs)

    assert cids.entry_of(7) == b"entry of a"
    assert cids.entry_of(20) == b"entry of b"
    assert [cids.entry_of(cid) for cid in (0, 1, 2, 8)] == [None] * 4


def test_a_cid_that_two_guests_claim_is_told_nothing(tmp_path: Path) -> None:
    cids = GuestCids(settings(vms={"a": {"cid": 7}, "b": {"cid": 7}}), lambda: told(vm("a"), vm("b")), HostFS(tmp_path))

    assert cids.entry_of(7) is None


def heard(peer: object) -> bytes:
    """Return what a peer of that address hears; a socket pair stands for AF_VSOCK, whose peers need a hypervisor."""
    cids = GuestCids(settings(vms={"a": {"cid": 7}}), lambda: told(vm("a")), open_host("vm-no-meter"))
    door = GuestVsock(9811, cids, HandClock())
    mine, other = socket.socketpair()
    door.converse(other, peer)
    with mine:
        return mine.recv(1000)


@pytest.mark.parametrize(
    ("peer", "data"), [((7, 1023), b"entry of a"), ((8, 1023), b""), ("", b""), ((), b""), (("7", 1), b"")], ids=str
)
def test_the_kernels_peer_address_decides(peer: object, data: bytes) -> None:
    assert heard(peer) == data


def test_a_real_vsock_is_bound_where_the_kernel_has_one() -> None:
    """The family is this kernel's own; a guest of this machine cannot be had here."""
    try:
        listening = listen(9_811_000)
    except OSError as error:
        assert error.errno in (93, 97, 99)  # noqa: PT017 - a kernel without vsock says so
        return
    with listening:
        assert listening.getsockname() == (socket.VMADDR_CID_ANY, 9_811_000)


def test_a_host_without_vsock_goes_on() -> None:
    def fail(port: int) -> socket.socket:
        raise OSError(97, "no such family")

    cids = GuestCids(settings(), Told, HostFS())
    door = GuestVsock(9811, cids, HandClock(), fail)
    door.start()
    door.stop()


# HTTP


def token(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.touch(0o600)
    path.write_text(text)
    return str(path)


@pytest.fixture
def pages(tmp_path: Path) -> GuestPages:
    found = settings(
        vms={
            "a": {"token_file": token(tmp_path, "a", "token-of-a-0123456789")},
            "b": {"token_file": token(tmp_path, "b", "token-of-b-0123456789")},
            "c": {"token_file": token(tmp_path, "c", "token-of-c-0123456789")},
        }
    )
    return GuestPages(found, lambda: told(vm("a"), vm("b")), AccessRules(load_web_config(None), None), HandClock())


def asked(pages: GuestPages, authorization: str, path: str = "/guest", method: str = "GET") -> tuple[int, bytes]:
    answer = pages.answer(Request(method, path, "", {"authorization": authorization}, Peer(is_local=True)))
    return answer.status.value, answer.body


def test_each_token_opens_its_own_entry(pages: GuestPages) -> None:
    assert asked(pages, "Bearer token-of-a-0123456789") == (200, b"entry of a")
    assert asked(pages, "bearer token-of-b-0123456789") == (200, b"entry of b")


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Bearer \0", "Basic token-of-a-0123456789", "Bearer x"]
)
def test_without_a_token_there_is_nothing(pages: GuestPages, authorization: str) -> None:
    status, body = asked(pages, authorization)

    assert status == 401
    assert b"entry" not in body


def test_a_guest_that_does_not_run_is_not_found(pages: GuestPages) -> None:
    assert asked(pages, "Bearer token-of-c-0123456789")[0] == 404


def test_there_is_one_page_and_it_is_only_read(pages: GuestPages) -> None:
    assert asked(pages, "Bearer token-of-a-0123456789", "/metrics")[0] == 404
    assert asked(pages, "Bearer token-of-a-0123456789", method="POST")[0] == 405


def test_a_token_file_that_others_read_opens_nothing(pages: GuestPages, tmp_path: Path) -> None:
    (tmp_path / "a").chmod(0o644)

    assert asked(pages, "Bearer token-of-a-0123456789")[0] == 401
    assert asked(pages, "Bearer token-of-b-0123456789")[0] == 200


def test_a_changed_token_counts_at_once(pages: GuestPages, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("another-token-of-a-0123456789")

    assert asked(pages, "Bearer token-of-a-0123456789")[0] == 401
    assert asked(pages, "Bearer another-token-of-a-0123456789")[0] == 200


def test_a_token_that_two_share_is_nobodys(pages: GuestPages, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("token-of-a-0123456789")

    assert asked(pages, "Bearer token-of-a-0123456789")[0] == 401


def test_a_guest_asks_over_http(tmp_path: Path) -> None:
    path = token(tmp_path, "a", "token-of-a-0123456789")
    wanted = settings(listen_addresses=["127.0.0.1:0"], vms={"a": {"token_file": path}})
    served = GuestHttp(wanted, lambda: told(vm("a")), HandClock())
    served.start()
    try:
        url = f"http://{served.addresses[0]}"
        way = HttpWay(url, HttpClientSettings(token_file=Path(path)))
        assert way.fetch() == b"entry of a"
        way.close()
        other = HttpWay(url, HttpClientSettings(token_file=Path(token(tmp_path, "x", "token-of-x-0123456789"))))
        with pytest.raises(Unavailable) as caught:
            other.fetch()
        assert caught.value.reason == "permission"
        assert "token-of" not in str(caught.value)
        other.close()
    finally:
        served.stop()


def test_tokens_do_not_travel_in_the_clear() -> None:
    served = GuestHttp(settings(listen_addresses=["0.0.0.0:0"]), Told, HandClock())

    with pytest.raises(ConfigError, match=r"^agent\.guests\.listen_addresses: .*TLS"):
        served.start()


# the whole of it


def feeds_of(host: Host, state: Path, **values: object) -> GuestFeeds:
    book = host.world.sampler.parts.guests
    assert book is not None
    return GuestFeeds(settings(**values), host.name, host.world.sampler, book, state)


def running(tmp_path: Path) -> tuple[Host, UnitKey]:
    host = make_host()
    key = host.start_vm("vm1")
    host.world.step()
    host.run({key: 500}, 30 * WATT, 3 * WATT, 25 * WATT)
    (tmp_path / "state").mkdir(exist_ok=True)
    return host, key


def test_every_way_says_the_same(tmp_path: Path) -> None:
    host, _ = running(tmp_path)
    feeds = feeds_of(
        host, tmp_path / "state", directory=str(tmp_path / "all"), vms={"vm1": {"directory": str(tmp_path / "own")}}
    )

    feeds.publish()

    all_of_it = (tmp_path / "all/vm1/energy.json").read_bytes()
    assert all_of_it == (tmp_path / "own/energy.json").read_bytes() == feeds.told.entries["vm1"]
    entry = parse_entry(all_of_it, "file")
    assert (entry.host, entry.unit, entry.seq) == ("hv1", "vm1", 1)
    assert stat.S_IMODE((tmp_path / "state/guests.json").stat().st_mode) == 0o600


def test_before_the_first_step_nobody_is_told(tmp_path: Path) -> None:
    host = make_host()
    feeds = feeds_of(host, tmp_path, directory=str(tmp_path / "all"))

    feeds.publish()

    assert feeds.told == Told()
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_written_down_is_not_told(tmp_path: Path) -> None:
    host, _ = running(tmp_path)
    feeds = feeds_of(host, tmp_path / "gone", directory=str(tmp_path / "all"))

    feeds.publish()

    assert feeds.told == Told()
    assert not (tmp_path / "all").exists()


def test_one_guests_broken_share_keeps_no_other_from_being_told(tmp_path: Path) -> None:
    host, _ = running(tmp_path)
    host.start_vm("vm2")
    host.world.step()
    (tmp_path / "all").mkdir()
    (tmp_path / "all/vm1").write_text("in the way")
    feeds = feeds_of(host, tmp_path / "state", directory=str(tmp_path / "all"))

    feeds.publish()

    assert (tmp_path / "all/vm2/energy.json").exists()


def test_a_guest_that_ended_loses_its_file(tmp_path: Path) -> None:
    host, key = running(tmp_path)
    feeds = feeds_of(host, tmp_path / "state", directory=str(tmp_path / "all"))
    feeds.publish()
    host.world.units.end(key)
    host.world.step()

    feeds.publish()

    assert os.listdir(tmp_path / "all/vm1") == []


def test_damaged_last_words_begin_anew(tmp_path: Path) -> None:
    host, _ = running(tmp_path)
    (tmp_path / "state/guests.json").write_text('{"format":1,"guests":[1]}')
    feeds = feeds_of(host, tmp_path / "state", directory=str(tmp_path / "all"))

    feeds.publish()

    assert parse_entry((tmp_path / "all/vm1/energy.json").read_bytes(), "file").seq == 1


@pytest.mark.parametrize(
    "break_it", [lambda t: "", lambda t: t[:-5], lambda t: t.replace("1,", "null,"), lambda t: "[]"]
)
def test_last_words_are_what_was_written_or_an_error(break_it: Callable[[str], str]) -> None:
    host = make_host()
    host.start_vm("vm1")
    host.world.step()
    host.publish()
    assert parse_shown(host.text) == host.shown.shown

    with pytest.raises(SourceError, match="last words"):
        parse_shown(break_it(host.text))


@given(
    st.text(max_size=100)
    | st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda i: st.lists(i, max_size=6)).map(
        lambda g: json.dumps({"format": 1, "guests": g})
    )
)
def test_any_text_is_last_words_or_an_error(text: str) -> None:
    with contextlib.suppress(SourceError):
        parse_shown(text)


def test_a_guest_is_never_told_less_than_before() -> None:
    host = make_host(slot_seconds=100)
    key = host.start_vm("vm1")
    other = host.start_vm("vm2")
    host.world.step()
    host.publish()
    finish(host.world)
    host.run({key: 900}, 200 * WATT, 0, 0)  # all of it the first one's
    before = parse_entry(host.publish()[key], "feed").energies[0]
    host.world.units.use(other, 9_000_000_000)
    host.world.busy(0, 9_000_000_000)
    host.world.clock.advance(3_000_000_000)
    host.world.meters[0].add(CPU0, WATT)

    host.restart()  # the second since the last slot is split anew: the other one had nearly all of it

    after = parse_entry(host.publish()[key], "feed").energies[0]
    assert host.world.sampler.parts.guests is not None
    counted = host.world.sampler.parts.guests.saved(host.world.sampler.accounts)[key].energy_uj[0]
    assert counted < before.dynamic_uj
    assert after.dynamic_uj == before.dynamic_uj
    assert replace(after, time_ns=0) == replace(before, time_ns=0, idle_uj=after.idle_uj)
