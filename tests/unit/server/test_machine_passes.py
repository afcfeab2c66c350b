"""The pass over plain libvirt and Proxmox VE: what agents saw of machines and containers becomes their owners'."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.account_site import J, Site
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit
from tests.libvirt_host import domain, play_host, uuid_of
from tests.proxmox_site import TOKEN, UUID, Proxmox, config, container, machine, serving

from kwhere.database.records import UnitQuery, UnitRecord
from kwhere.resource_managers.libvirt import plugin as libvirt
from kwhere.resource_managers.plugin import AnyManagerPlugin
from kwhere.resource_managers.proxmox import plugin as proxmox
from kwhere.resource_managers.proxmox_lxc import plugin as proxmox_lxc
from kwhere.resource_managers.registry import Managers
from kwhere.server.manager_pass import ManagerPass

T0 = datetime.fromtimestamp(T0_NS / SECOND_NS, UTC)
START_S = int(T0.timestamp())


class Always:
    def goes_on(self) -> bool:
        return True


@dataclass
class World:
    """A site whose hypervisor hv1 reported one unit of 60 s and 60 J, and a pass over a manager."""

    site: Site
    server_pass: ManagerPass | None = None
    close: Callable[[], None] = lambda: None

    def report(self, manager: str, unit_id: str) -> None:
        journal = HandJournal(node="hv1")
        journal.append([unit(key(unit_id, manager, START_S), figures(60 * J, 0), name=unit_id), system(figures(0, 0))])
        self.site.take(journal)

    def manage(self, plugin: AnyManagerPlugin, **words: object) -> None:
        entry = {"manager": plugin.name, "cluster": "c1", **words}
        [built] = Managers({plugin.name: plugin}).build([entry], self.site.clock)
        self.server_pass = ManagerPass(self.site.engine, built, self.site.clock)
        self.close = built.source.close

    def look(self, later_s: int = 60) -> dict[str, UnitRecord]:
        """Let the pass look after so long; returns the units by name."""
        assert self.server_pass is not None
        self.site.clock.now_ns += later_s * SECOND_NS
        self.server_pass.run(Always())
        return {found.name or found.unit: found for found in self.site.reader.units(UnitQuery()).items}


@pytest.fixture
def world(engine: Engine) -> Iterator[World]:
    made = World(Site(engine))
    yield made
    made.close()


@pytest.mark.service("virsh")
def test_a_machine_of_plain_libvirt_has_its_owner_and_ends_when_it_is_there_no_longer(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "host.xml"
    host = play_host(file, [domain(1, "cfd-alice-1"), domain(2, "cfd-bob-1", state="5")])
    world.report("libvirt", uuid_of(1))
    world.manage(libvirt, hosts={"hv1": host}, name_pattern=r"(?P<project>[a-z]+)-(?P<user>[a-z]+)-\d+")

    found = world.look()

    ours, off = found["cfd-alice-1"], found["cfd-bob-1"]
    assert (ours.user, ours.project, ours.state, ours.energy_total_uj) == ("alice", "cfd", "running", 60 * J)
    assert ours.started_at == T0
    assert (off.state, off.is_reported) == ("shut off", False)

    file.unlink()
    play_host(file, [domain(2, "cfd-bob-1")])
    later = world.look()

    assert (later["cfd-alice-1"].state, later["cfd-alice-1"].energy_total_uj) == ("vanished", 60 * J)
    assert later["cfd-alice-1"].ended_at is not None
    assert (later["cfd-bob-1"].state, later["cfd-bob-1"].ended_at) == ("running", None)


@pytest.mark.service("virsh")
def test_a_machine_that_went_while_its_host_was_silent_ends_when_it_was_listed_last(
    world: World, tmp_path: Path
) -> None:
    files = {name: tmp_path / f"{name}.xml" for name in ("hv1", "hv2")}
    hosts = {name: play_host(file, [domain(at, f"vm{at}")]) for at, (name, file) in enumerate(files.items(), 1)}
    world.manage(libvirt, hosts=hosts)
    world.look()
    seen_at = world.look()["vm2"].started_at + timedelta(seconds=60)

    files["hv2"].unlink()
    for _ in range(3):
        assert world.look()["vm2"].state == "running"
    play_host(files["hv2"], [])
    found = world.look()

    assert (found["vm2"].state, found["vm2"].ended_at) == ("vanished", seen_at)
    assert found["vm1"].state == "running"


@pytest.mark.service("virsh")
def test_a_host_that_falls_silent_ends_no_machine(world: World, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.xml" for name in ("hv1", "hv2")}
    hosts = {name: play_host(file, [domain(at, f"vm{at}")]) for at, (name, file) in enumerate(files.items(), 1)}
    world.manage(libvirt, hosts=hosts)
    assert set(world.look()) == {"vm1", "vm2"}

    files["hv2"].unlink()

    assert {name: found.state for name, found in world.look().items()} == {"vm1": "running", "vm2": "running"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Proxmox, dict[str, object]]]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with serving(Proxmox()) as site:
        yield site, {"url": site.url, "token_file": str(token)}


def test_a_machine_of_proxmox_has_its_pool_and_owner(world: World, cluster: tuple[Proxmox, dict[str, object]]) -> None:
    site, words = cluster
    site.guests, site.configs["qemu/100"] = [machine(100)], config(meta="")
    world.report("libvirt", UUID)
    world.manage(proxmox, **words)

    found = world.look()["vm100"]

    assert (found.user, found.project, found.energy_total_uj) == ("alice", "cfd", 60 * J)
    assert found.started_at <= T0


def test_a_container_that_is_started_again_is_another_run_and_its_number_another_s(
    world: World, cluster: tuple[Proxmox, dict[str, object]]
) -> None:
    site, words = cluster
    world.report("lxc", "101")
    up_s = (world.site.clock.now_ns - T0_NS) // SECOND_NS + 60
    site.guests = [container(101, uptime=up_s)]
    world.manage(proxmox_lxc, **words)

    first = world.look()["ct101"]
    assert (first.user, first.run, first.energy_total_uj) == ("alice", f"101@{START_S}", 60 * J)

    site.guests = [container(101, uptime=5, name="other", tags="owner-bob", pool="web")]
    found = world.look(600)

    assert (found["ct101"].state, found["ct101"].user, found["ct101"].energy_total_uj) == ("vanished", "alice", 60 * J)
    assert (found["other"].user, found["other"].project, found["other"].is_reported) == ("bob", "web", False)
