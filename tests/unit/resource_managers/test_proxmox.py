"""Proxmox VE: machines and containers, their runs, owners, pools, and what a token may not see."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from structlog.testing import capture_logs
from tests.emission_services import HandClock
from tests.proxmox_site import CREATED, TOKEN, UUID, Proxmox, config, container, machine, serving

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.managed import Account, ManagerUnit, Membership
from kwhere.core.timespan import Span
from kwhere.resource_managers import proxmox_lxc
from kwhere.resource_managers.proxmox import ProxmoxManager
from kwhere.resource_managers.proxmox_guests import NO_FACTS, accounts_of, facts_of, guest_of, unit_of
from kwhere.resource_managers.proxmox_settings import ProxmoxSettings
from kwhere.resource_managers.registry import find_managers

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
GIB = 1024**3


class World:
    """A cluster, its two managers and their clock."""

    def __init__(self, site: Proxmox, folder: Path) -> None:
        self.site = site
        self.clock = HandClock(NOON)
        self.token_file = folder / "token"
        self.token_file.write_text(f"{TOKEN}\n")
        self.opened: list[ProxmoxManager] = []
        self.machines, self.containers = self.start()

    def start(self, **more: Any) -> tuple[ProxmoxManager, ProxmoxManager]:
        words = {"manager": "proxmox", "cluster": "c1", "url": self.site.url, "token_file": self.token_file, **more}
        settings = ProxmoxSettings.model_validate(words)
        made = (ProxmoxManager(settings, self.clock), proxmox_lxc.build(settings, self.clock))
        self.opened += made
        return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serving(Proxmox()) as site:
        made = World(site, tmp_path)
        yield made
        for manager in made.opened:
            manager.close()


def only(manager: ProxmoxManager) -> ManagerUnit:
    [unit] = manager.watch(None).units
    return unit


def test_a_machine_is_one_run_from_its_creation(world: World) -> None:
    world.site.guests = [machine(100), container(101)]
    world.site.configs["qemu/100"] = config(hostpci0="mapping=a100,pcie=1", hostpci1="0000:3b:00.0,mdev=nvidia-47")
    machines, _ = world.start(gpu_mappings={"a100": "a100"})

    unit = only(machines)

    assert (unit.manager, unit.unit, unit.run, unit.nodes) == ("libvirt", UUID, UUID, None)
    assert (unit.name, unit.user, unit.project, unit.state) == ("vm100", "alice", "cfd", "running")
    assert (unit.started_at, unit.is_start_known) == (datetime.fromtimestamp(CREATED, UTC), True)
    assert (unit.allocation.cpus, unit.allocation.memory_bytes) == (4.0, 8 * GIB)
    assert unit.allocation.gpus == {"a100": 1.0, "vgpu:nvidia-47": 1.0}
    assert unit.tags == {"vmid": "100", "host": "pve1", "tags": "owner-alice prod"}


def test_a_machine_without_a_time_of_creation_began_at_the_latest_when_it_was_started(world: World) -> None:
    world.site.guests = [machine(100, status="stopped", uptime=0, tags="")]
    world.site.configs["qemu/100"] = {"smbios1": f"uuid={UUID.upper()},base64=1"}

    unit = only(world.machines)

    assert (unit.unit, unit.started_at, unit.is_start_known, unit.state) == (UUID, NOON, False, "stopped")
    assert (unit.user, unit.allocation.cpus, unit.allocation.memory_bytes) == (None, None, None)


def test_a_container_has_a_run_for_each_start_and_its_number_may_come_again(world: World) -> None:
    started = int(NOON.timestamp()) - 3598
    world.site.guests = [container(101)]
    world.site.tasks = [
        {"type": "vzstart", "starttime": started, "endtime": started + 3, "status": "OK", "id": "101"},
        {"type": "vzstart", "starttime": started - 86400, "status": "OK", "id": "101"},
    ]

    first = only(world.containers)

    assert (first.manager, first.unit, first.run) == ("lxc", "101", f"101@{started}")
    world.clock.ahead(seconds=60)
    world.site.guests = [container(101, uptime=3661)]
    assert only(world.containers).run == first.run
    assert only(world.start()[1]).run == first.run

    world.clock.ahead(seconds=600)
    world.site.guests = [container(101, uptime=5, tags="owner-bob")]
    second = only(world.containers)
    assert (second.run, second.user) == (f"101@{int(world.clock.now.timestamp()) - 5}", "bob")
    assert world.containers.watch("").is_relisted


def test_a_container_that_does_not_run_is_no_run(world: World) -> None:
    world.site.guests = [container(101, status="stopped", uptime=0)]

    assert world.containers.watch(None).units == ()


def test_without_the_right_to_see_tasks_the_uptime_tells(world: World) -> None:
    world.site.guests = [container(101)]
    world.site.forbidden = {"/nodes/pve1/tasks"}

    with capture_logs() as logs:
        unit = only(world.containers)

    assert unit.started_at == NOON - timedelta(seconds=3600)
    assert [line["event"] for line in logs] == ["proxmox does not tell"]
    assert "PVEAuditor" in logs[0]["fault"]


def test_configurations_are_asked_for_now_and_then(world: World) -> None:
    world.site.guests = [machine(100)]
    world.site.configs["qemu/100"] = config()
    for _ in range(3):
        only(world.machines)
        world.clock.ahead(seconds=60)
    assert sum(path.endswith("/config") for path, _ in world.site.asked) == 1

    world.clock.ahead(seconds=3600)
    world.site.configs.clear()
    assert only(world.machines).unit == UUID


def test_a_machine_that_cannot_be_read_makes_nobody_vanish(world: World) -> None:
    world.site.guests = [machine(100), machine(102)]
    world.site.configs["qemu/100"] = config()

    changes = world.machines.watch(None)

    assert [unit.unit for unit in changes.units] == [UUID]
    assert not changes.is_relisted


def test_of_two_guests_with_one_uuid_the_one_that_runs_is_meant(world: World) -> None:
    world.site.guests = [machine(100), machine(102, status="stopped", name="restored")]
    world.site.configs = {"qemu/100": config(), "qemu/102": config()}

    assert only(world.machines).name == "vm100"


def test_nodes_and_accounts_are_told_once(world: World) -> None:
    world.site.guests = [machine(100), container(101), machine(103, status="stopped"), machine(9, template=1)]
    world.site.acl = [
        {"path": "/pool/cfd", "type": "group", "ugid": "fluids", "roleid": "PVEVMUser", "propagate": 1},
        {"path": "/pool/cfd", "type": "user", "ugid": "alice@pam", "roleid": "PVEVMAdmin", "propagate": 1},
        {"path": "/pool/cfd", "type": "token", "ugid": "kwhere@pve!account", "roleid": "PVEAuditor", "propagate": 1},
        {"path": "/", "type": "user", "ugid": "root@pam", "roleid": "Administrator", "propagate": 1},
    ]

    up, down = world.machines.fetch_nodes()
    accounts = world.machines.fetch_accounts()

    assert (up.name, up.state, up.is_schedulable, up.cpus, up.memory_bytes) == ("pve1", "online", True, 32.0, 128 * GIB)
    assert up.allocated is not None
    assert (up.allocated.cpus, up.allocated.memory_bytes) == (5.0, 8 * GIB + GIB // 2)
    assert (down.name, down.state, down.is_schedulable, down.cpus) == ("pve2", "offline", False, None)
    assert accounts.accounts == (Account("cfd", "Fluids"), Account("cfd/wing", None, "cfd"))
    assert accounts.memberships == (
        Membership("alice@pam", "cfd"),
        Membership("alice@pve", "cfd"),
        Membership("bob", "cfd"),
    )
    assert (world.containers.fetch_nodes(), world.containers.fetch_accounts().accounts) == ((), ())


def test_rights_that_may_not_be_seen_leave_pools(world: World) -> None:
    world.site.forbidden = {"/access/acl", "/access/groups"}

    assert [account.name for account in world.machines.fetch_accounts().accounts] == ["cfd", "cfd/wing"]


def test_of_the_past_it_knows_nothing(world: World) -> None:
    world.site.guests = [container(101)]
    span = Span(NOON - timedelta(hours=6), NOON)

    assert len([*world.containers.fetch_units(span)]) == 1
    assert [*world.containers.fetch_units(Span(span.start, NOON - timedelta(hours=1)))] == []


def test_a_refused_token_is_told_without_it(world: World) -> None:
    world.token_file.write_text("kwhere@pve!other=0000\n")

    with pytest.raises(Unavailable, match="token is refused") as caught:
        world.machines.watch(None)

    assert caught.value.reason == "denied"
    assert "0000" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "no token", "a\nb", "ä!b=c"])
def test_a_token_file_that_holds_none_is_told(world: World, text: str) -> None:
    world.token_file.write_text(text)

    with pytest.raises(Unavailable, match="token_file") as caught:
        world.machines.watch(None)

    assert caught.value.reason == "secret"


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"data": {}}', b'{"data": null}'])
def test_nonsense_is_not_taken_for_no_guests(world: World, body: bytes) -> None:
    world.site.bodies["/cluster/resources"] = body

    with pytest.raises(SourceError):
        world.machines.watch(None)


@pytest.mark.parametrize("changes", [{"vmid": None}, {"vmid": "x"}, {"node": None}, {"node": 5}])
def test_a_guest_that_says_not_which_one_it_is_makes_nobody_vanish(world: World, changes: dict[str, Any]) -> None:
    world.site.guests, world.site.configs["qemu/100"] = [machine(100)], config()
    assert world.machines.watch(None).is_relisted

    world.site.guests = [{**machine(100), **changes}]

    assert (world.machines.watch(None).units, world.machines.watch(None).is_relisted) == ((), False)
    assert world.containers.watch(None).is_relisted


def test_a_list_with_something_else_in_it_is_no_list(world: World) -> None:
    world.site.bodies["/cluster/resources"] = b'{"data": [5]}'

    with pytest.raises(SourceError, match="expected a list of objects, found '5'"):
        world.machines.watch(None)


@pytest.mark.parametrize("uptime", [2**40, -5, "x", None, 1.5])
def test_an_uptime_that_is_none_tells_no_start(world: World, uptime: object) -> None:
    world.site.guests = [container(101, uptime=uptime)]

    assert world.containers.watch(None).units == ()


def test_a_token_in_the_clear_is_refused(tmp_path: Path) -> None:
    words = {"manager": "proxmox", "cluster": "c1", "url": "http://pve.example:8006", "token_file": str(tmp_path)}

    with pytest.raises(ConfigError, match="https"):
        ProxmoxManager(ProxmoxSettings.model_validate(words), HandClock())
    with pytest.raises(ValidationError, match="token_file"):
        ProxmoxSettings.model_validate({**words, "http": {"token_file": "/x"}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["type", "vmid", "node", "status", "uptime", "maxcpu", "maxmem", "tags", "pool", "name", "template"]
)
ROW = st.dictionaries(NAMES, JSON | st.sampled_from(["qemu", "lxc", "100", "n1"]))
CONFIG = st.dictionaries(st.sampled_from(["smbios1", "meta", "hostpci0", "hostpci"]), JSON)


@given(ROW, CONFIG)
def test_any_answer_is_a_guest_or_none(row: dict[str, Any], words: dict[str, Any]) -> None:
    guest = guest_of({"type": "qemu", "vmid": 1, "node": "n", **row})
    if guest is not None:
        unit = unit_of(guest, facts_of(words, {}), "c1", "owner-", NOON)
        assert unit is None or (unit.unit and "/" not in unit.unit)


@given(st.lists(st.dictionaries(st.sampled_from(["path", "type", "ugid", "poolid", "groupid", "users"]), JSON)))
def test_any_answer_is_accounts(rows: list[dict[str, Any]]) -> None:
    accounts_of(rows, rows, rows)


def test_both_kinds_may_be_configured_for_one_cluster(world: World) -> None:
    words = {"cluster": "c1", "url": world.site.url, "token_file": str(world.token_file)}

    built = find_managers().build([{"manager": name, **words} for name in ("proxmox", "proxmox-lxc")], HandClock())

    assert [each.claims for each in built] == ["libvirt", "lxc"]
    for each in built:
        each.source.close()


def test_numbered_guests_need_a_start() -> None:
    guest = guest_of(container(7))
    assert guest is not None

    assert unit_of(guest, NO_FACTS, "c1", "owner-", None) is None
