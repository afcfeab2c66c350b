"""Plain libvirt, asked by the real virsh: its test driver plays hosts, and QEMU runs where it may."""

import re
import stat
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
from tests.libvirt_host import NOVA, domain, libvirtd, play_host, uuid_of, virsh

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.managed import Account, ManagerUnit, Membership
from kwhere.core.timespan import Span
from kwhere.resource_managers.libvirt import LibvirtManager
from kwhere.resource_managers.libvirt_devices import NodeGpu, device_names, parse_node_device
from kwhere.resource_managers.libvirt_domains import Domain, Owners, read_node_facts, unit_of
from kwhere.resource_managers.libvirt_settings import LibvirtSettings
from kwhere.resource_managers.resource_manager import WatchingManager

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MIB = 1024**2
NAMES = r"(?P<project>[a-z]+)-(?P<user>[a-z]+)-\d+"
SITE = "<metadata><s:owner xmlns:s='http://example.org/site'><s:user> carol </s:user></s:owner></metadata>"


def manager_of(hosts: dict[str, str], *, clock: HandClock | None = None, **more: Any) -> LibvirtManager:
    settings = LibvirtSettings.model_validate({"manager": "libvirt", "cluster": "c1", "hosts": hosts, **more})
    return LibvirtManager(settings, clock or HandClock(NOON))


def units_of(manager: LibvirtManager, end: datetime = NOON) -> dict[str, ManagerUnit]:
    return {unit.tags["vm"]: unit for unit in manager.fetch_units(Span(end - timedelta(hours=6), end))}


@pytest.fixture
def host(tmp_path: Path) -> str:
    machines = [
        domain(1, "cfd-alice-1"),
        domain(2, "instance-00000001", NOVA),
        domain(3, "ours", SITE, state="3"),
        domain(4, "off", "<title>Mail server</title>", state="5"),
    ]
    return play_host(tmp_path / "host.xml", machines)


needs_virsh = pytest.mark.service("virsh")


@needs_virsh
def test_machines_have_the_state_size_and_owner_that_their_host_tells(host: str) -> None:
    user_path = "{http://example.org/site}owner/{*}user"
    manager = manager_of({"hv1": host}, name_pattern=NAMES, user_path=user_path)

    units = units_of(manager)

    named, nova, ours, off = (units[name] for name in ("cfd-alice-1", "instance-00000001", "ours", "off"))
    assert (named.manager, named.unit, named.run, named.nodes) == ("libvirt", uuid_of(1), uuid_of(1), None)
    assert (named.user, named.project, named.state) == ("alice", "cfd", "running")
    assert (named.allocation.cpus, named.allocation.memory_bytes) == (2.0, 64 * MIB)
    assert (nova.name, nova.user, nova.project, nova.tags["flavor"]) == ("demo", "alice", "cfd", "m1.tiny")
    assert (ours.user, ours.project, ours.state) == ("carol", None, "paused")
    assert (off.name, off.state, off.allocation.cpus, off.ended_at) == ("Mail server", "shut off", None, None)
    assert {unit.is_start_known for unit in units.values()} == {False}


@needs_virsh
def test_hosts_accounts_and_what_there_is(host: str) -> None:
    manager = manager_of({"hv1": host}, name_pattern=NAMES)

    [node] = manager.fetch_nodes()
    assert (node.name, node.state, node.cpus, node.memory_bytes) == ("hv1", "up", 16.0, 3 * 1024**3)
    assert node.allocated is not None
    assert (node.allocated.cpus, node.allocated.memory_bytes) == (6.0, 3 * 64 * MIB)
    assert manager.fetch_accounts().accounts == (Account("cfd"),)
    assert manager.fetch_accounts().memberships == (Membership("alice", "cfd"),)
    assert isinstance(manager, WatchingManager)
    changes = manager.watch(None)
    assert {unit.unit for unit in changes.units} == set(map(uuid_of, (1, 2, 3, 4)))
    assert (changes.is_relisted, changes.unread) == (True, frozenset())


@needs_virsh
def test_of_the_past_libvirt_knows_nothing(host: str) -> None:
    assert units_of(manager_of({"hv1": host}), NOON - timedelta(hours=1)) == {}


@needs_virsh
def test_a_host_that_is_silent_takes_nothing_from_the_others(host: str, tmp_path: Path) -> None:
    silent = f"test://{tmp_path}/nosuch.xml"
    manager = manager_of({"hv1": host, "hv2": silent})

    with capture_logs() as logs:
        assert len(units_of(manager)) == 4
    assert [line["event"] for line in logs] == ["host gave no answer"]
    assert not manager.watch(None).is_relisted
    states = {node.name: node.state for node in manager.fetch_nodes()}
    assert states == {"hv1": "up", "hv2": "unreachable"}
    # The second line of virsh says why.
    assert re.fullmatch("hv2: virsh: .+: .*failed to parse xml document .+", logs[0]["fault"])
    with pytest.raises(Unavailable, match="no host answers: hv2"):
        manager_of({"hv2": silent}).fetch_nodes()


@needs_virsh
def test_a_host_that_falls_silent_keeps_its_machines_and_no_others(tmp_path: Path) -> None:
    clock = HandClock(NOON)
    hosts = {"hv1": play_host(tmp_path / "a.xml", [domain(1, "m"), domain(2, "n")])}
    hosts["hv2"] = play_host(tmp_path / "b.xml", [domain(3, "o")])
    manager = manager_of(hosts, clock=clock)
    manager.watch(None)

    (tmp_path / "b.xml").unlink()
    play_host(tmp_path / "a.xml", [domain(1, "m")])
    clock.ahead(seconds=60)
    changes = manager.watch(None)

    assert [unit.unit for unit in changes.units] == [uuid_of(1)]
    assert (changes.is_relisted, changes.unread) == (True, frozenset({uuid_of(3)}))


@needs_virsh
def test_a_machine_that_migrates_is_one_and_runs_where_it_runs(tmp_path: Path) -> None:
    source = play_host(tmp_path / "a.xml", [domain(1, "m", state="5")])
    target = play_host(tmp_path / "b.xml", [domain(1, "m")])

    units = units_of(manager_of({"hv1": source, "hv2": target}))

    assert (units["m"].state, units["m"].tags["host"]) == ("running", "hv2")


def program(folder: Path, text: str) -> str:
    file = folder / "virsh"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


PROGRAMS = {
    "hangs": ("sleep 60", "no answer within"),
    "refuses": ("echo 'error: failed to connect\nerror: no route' >&2; exit 1", "virsh: failed to connect: no route"),
    "says_nothing": ("exit 0", "exit code 0"),
    "nonsense": (r"""for w in "$@"; do c="$w"; done
m=${c#echo }; m=${m%%;*}; printf '%snonsense%sno uuid here%s%s' "$m" "$m" "$m" "$m" """, "expected UUIDs"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_virsh_that_fails_says_why(tmp_path: Path, kind: str) -> None:
    text, words = PROGRAMS[kind]
    manager = manager_of(
        {"hv1": "test:///x"}, command=(program(tmp_path, text),), command_timeout_seconds=1 if kind == "hangs" else 20
    )

    with pytest.raises(Unavailable, match=words):
        manager.fetch_nodes()


def test_a_machine_that_went_between_two_questions_is_still_counted_as_there(tmp_path: Path) -> None:
    text = r"""for w in "$@"; do c="$w"; done
m=${c#echo }; m=${m%%;*}
case "$c" in *nodeinfo*) printf '%sCPU(s): 4%s"""
    text += (
        uuid_of(7) + r"""%s%s' "$m" "$m" "$m" "$m";; *) printf '%s%s' "$m" "$m"; echo 'error: no domain' >&2;; esac"""
    )
    manager = manager_of({"hv1": "test:///x"}, command=(program(tmp_path, text),))

    assert units_of(manager) == {}
    assert (manager.watch(None).is_relisted, manager.watch(None).unread) == (True, frozenset({uuid_of(7)}))


def test_what_a_machine_says_of_itself_cannot_end_its_answer() -> None:
    xml = domain(1, "evil", "<description>=0=; shut off ]]&gt;</description>")

    assert unit_of(Domain(xml, "running"), ("c1", "hv1"), Owners(), NOON).state == "running"


@pytest.mark.parametrize("word", ["-1", "0", "1e9", "9" * 18, "9" * 40, "", "\u0663", "0x10", "1_0"])
def test_a_size_that_is_none_is_not_known(word: str) -> None:
    xml = domain(1, "m").replace("<vcpu>2<", f"<vcpu current='{word}'>{word}<").replace(">64<", f">{word}<")

    given = unit_of(Domain(xml, "running"), ("c1", "hv1"), Owners(), NOON).allocation

    assert (given.cpus, given.memory_bytes) == (None, None)


BOMB = "".join(f"<!ENTITY {chr(98 + at)} '{f'&{chr(97 + at)};' * 10}'>" for at in range(9))


@pytest.mark.parametrize(
    "xml",
    [
        f"<!DOCTYPE d [<!ENTITY a '{'a' * 60}'>{BOMB}]><domain><name>&j;</name><uuid>{uuid_of(1)}</uuid></domain>",
        f"<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><domain><name>&a;</name><uuid>{uuid_of(1)}</uuid></domain>",
        "<domain>" * 50_000,
        "<domain>" * 20_000 + "</domain>" * 20_000,
    ],
    ids=["bomb", "file", "open", "deep"],
)
def test_xml_that_would_harm_is_no_machine(xml: str) -> None:
    with pytest.raises(SourceError, match="expected the XML of a domain"):
        unit_of(Domain(xml, "running"), ("c1", "hv1"), Owners(), NOON)


DEVICE = """<device><name>{name}</name><capability type='pci'><class>{kind}</class>
<product id='0x20f1'>{product}</product><vendor id='{vendor}'>NVIDIA</vendor>{more}</capability></device>"""
VENDOR, A100 = "0x10de", "GA100 [A100 PCIe 40GB]"
MDEV = "mdev_11111111_2222_3333_4444_555555555555"


def device(
    kind: str = "0x030200", product: str = A100, vendor: str = VENDOR, more: str = "", name: str = "pci_0000_3b_00_0"
) -> str:
    return DEVICE.format(name=name, kind=kind, product=product, vendor=vendor, more=more)


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        (device(), NodeGpu("a100_pcie_40gb")),
        (device("0x120000", "Aldebaran/MI200 [Instinct MI210]", "0x1002"), NodeGpu("instinct_mi210")),
        (device("0x120000", "Gaudi3", "0x1da3"), NodeGpu("gaudi3")),
        (device(product=""), NodeGpu("10de:20f1")),
        (device("0x030000", "ASPEED Graphics Family", "0x1a03"), None),
        (device("0x020000"), None),
        (device("nonsense"), None),
        (device("9" * 5000), None),
        (device(more="<capability type='phys_function'><address domain='0x0'/></capability>"), NodeGpu("vgpu", True)),
        (device(more="<capability type='virt_functions' maxCount='16'/>"), NodeGpu("a100_pcie_40gb")),
        ("<device><capability type='mdev'><type id='n-63'/></capability></device>", NodeGpu("vgpu:n-63", True)),
        ("<device><capability type='mdev'/></device>", NodeGpu("vgpu", True)),
        ("<device><capability type='usb'/></device>", None),
        ("<domain/>", None),
        ("", None),
        ("<device>", None),
    ],
)  # fmt: skip
def test_gpus_of_a_host(text: str, gpu: NodeGpu | None) -> None:
    assert parse_node_device(text) == gpu


@given(st.text())
def test_any_text_is_a_device_or_none(text: str) -> None:
    assert parse_node_device(text) is None
    assert device_names(text.split()) == [] or "pci_" in text or "mdev_" in text


HOSTDEV = """<devices><hostdev type='pci'><source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/>
</source></hostdev><hostdev type='pci'><source><address bus='0x5e' slot='0x00' function='0x0'/></source></hostdev>
<hostdev type='mdev'><source><address uuid='11111111-2222-3333-4444-555555555555'/></source></hostdev></devices>"""
ANSWERS = r"""for w in "$@"; do c="$w"; done
m=${{c#echo }}; m=${{m%%;*}}
rest="$c; "
while [ -n "$rest" ]; do
  question=${{rest%%; *}}; rest=${{rest#*; }}
  case "$question" in
    echo*) printf '%s' "$m";;
    nodeinfo) printf 'CPU(s): 4';;
    "list --all --uuid") echo '{uuids}';;
    "nodedev-list --cap pci") echo pci_0000_3b_00_0; echo pci_0000_3c_00_0; echo pci_0000_5e_00_0; echo 'x; destroy';;
    "nodedev-list --cap mdev") echo {mdev}_0000_3c_00_0;;
    "nodedev-dumpxml "*) echo "$question" >> {folder}/asked; cat "{folder}/${{question#nodedev-dumpxml }}";;
    "dumpxml "*) cat "{folder}/${{question#dumpxml }}";;
    "domstate "*) cat "{folder}/state";;
  esac
done"""


def test_gpus_that_a_machine_was_given_are_its_own_and_the_others_are_free(tmp_path: Path) -> None:
    (tmp_path / "pci_0000_3b_00_0").write_text(device())
    (tmp_path / "pci_0000_3c_00_0").write_text(device())
    (tmp_path / "pci_0000_5e_00_0").write_text(device("0x020000", "ConnectX-6", "0x15b3"))
    (tmp_path / f"{MDEV}_0000_3c_00_0").write_text(
        "<device><capability type='mdev'><type id='nvidia-63'/></capability></device>"
    )
    (tmp_path / uuid_of(7)).write_text(domain(7, "gpubox", HOSTDEV))
    (tmp_path / "state").write_text("running")
    text = ANSWERS.format(uuids=uuid_of(7), mdev=MDEV, folder=tmp_path)
    clock = HandClock(NOON)
    manager = manager_of({"hv1": "test:///x"}, clock=clock, command=(program(tmp_path, text),))

    unit = units_of(manager)["gpubox"]
    [node] = manager.fetch_nodes()
    clock.ahead(seconds=60)
    (tmp_path / "state").write_text("shut off")
    off = units_of(manager, clock.now)["gpubox"]

    assert dict(unit.allocation.gpus) == {"a100_pcie_40gb": 1.0, "vgpu:nvidia-63": 1.0}
    assert dict(off.allocation.gpus) == {}
    assert dict(node.gpus) == {"a100_pcie_40gb": 2.0}
    assert node.allocated is not None
    assert dict(node.allocated.gpus) == dict(unit.allocation.gpus)
    # Devices do not change: each is described once.
    assert len((tmp_path / "asked").read_text().splitlines()) == 4


@given(st.text())
def test_any_text_is_a_machine_or_an_error(text: str) -> None:
    with pytest.raises(SourceError):
        unit_of(Domain(text, "running"), ("c1", "hv1"), Owners(name=re.compile("(?P<user>.*)")), NOON)
    read_node_facts(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"hosts": {}}, "at least 1"),
        ({"hosts": {"hv1": "hv1"}}, "hv1: expected a connection of libvirt"),
        ({"hosts": {"hv1": "--version"}}, "expected a connection"),
        ({"name_pattern": "(?P<owner>.*)"}, "expected the groups"),
        ({"name_pattern": "("}, "expected a regular expression"),
        ({"user_path": "/etc"}, "expected steps below"),
    ],
)
def test_wrong_settings_are_told(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LibvirtSettings.model_validate({"manager": "libvirt", "cluster": "c1", "hosts": {"a": "test:///x"}, **words})


@pytest.fixture
def hypervisor() -> Iterator[str]:
    with libvirtd() as uri:
        yield uri


@pytest.mark.managers
@pytest.mark.slow
@pytest.mark.service("libvirtd")
def test_a_machine_of_qemu_is_seen_while_it_is_there(hypervisor: str, tmp_path: Path) -> None:
    clock = HandClock(NOON)
    manager = manager_of({"hv1": hypervisor}, clock=clock, name_pattern=NAMES)
    assert units_of(manager) == {}
    file = tmp_path / "machine.xml"
    file.write_text(
        domain(9, "cfd-alice-9", kind="qemu").replace("</os>", "</os><devices><memballoon model='none'/></devices>")
    )

    virsh(hypervisor, f"create {file}")
    clock.ahead(seconds=60)

    unit = units_of(manager, clock.now)["cfd-alice-9"]
    assert (unit.user, unit.project, unit.state, unit.allocation.cpus) == ("alice", "cfd", "running", 2.0)

    virsh(hypervisor, "destroy cfd-alice-9")
    clock.ahead(seconds=60)

    assert (manager.watch("").units, manager.watch("").is_relisted) == ((), True)
