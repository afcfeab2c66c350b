from pathlib import Path

import pytest
from tests.gpu_node import UUIDS, gpu, held, node, unit
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.core.errors import Unavailable
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holds import claims_of
from kwhere.discovery.gpu_machines import HiddenGpu, MachineFinder

VM1, VM2 = "57f2d45e-8ddf-4338-91df-62d0044ff1b5", "b674a0a2-c300-4dc6-8c9c-65df16da6d69"
MDEV1, MDEV2 = "c73f1fa6-489e-4834-9476-d70dabd98c40", "741ac383-27e9-49a9-9955-b513ad2e2e16"
HERE = node([gpu(0), gpu(1)], unit("libvirt", VM1, vm="instance-1"), unit("libvirt", VM2, vm="instance-2"))


class Hypervisor:
    """Domains as libvirt writes them, and the buses of the host."""

    def __init__(self, root: Path) -> None:
        self.host = FakeProc(root).host
        self.sys = root / "sys"
        self.running, self.defined = root / "run", root / "etc"
        for directory in (self.running, self.defined):
            directory.mkdir()
        self.finder = MachineFinder(self.host, (self.running, self.defined))

    def domain(self, uuid: str, *devices: str, directory: Path | None = None, name: str = "instance-1") -> None:
        told = "".join(f"<hostdev {device}</source></hostdev>" for device in devices)
        text = f"<domain><name>{name}</name><uuid>{uuid}</uuid><devices>{told}</devices></domain>"
        ((directory or self.running) / f"{name}-{uuid[:4]}.xml").write_text(text)

    def mediated(self, uuid: str, pci: str, spare: int | None = None) -> None:
        real = self.sys / "devices" / pci / uuid
        (real / "mdev_type").mkdir(parents=True)
        if spare is not None:
            (real / "mdev_type" / "available_instances").write_text(f"{spare}\n")
        bus = self.sys / "bus/mdev/devices"
        bus.mkdir(parents=True, exist_ok=True)
        (bus / uuid).symlink_to(f"../../../devices/{pci}/{uuid}")

    def pci(self, address: str, *, physical: str | None = None, kind: str = "0x030200") -> None:
        place = self.sys / "bus/pci/devices" / address
        place.mkdir(parents=True)
        for name, value in (("class", kind), ("vendor", "0x10de"), ("device", "0x20b0")):
            (place / name).write_text(f"{value}\n")
        if physical:
            (place / "physfn").symlink_to(f"../{physical}")


def pci(bus: int, function: int = 0) -> str:
    return f"type='pci'><source><address domain='0x0000' bus='{bus:#04x}' slot='0x00' function='{function:#x}'/>"


def mdev(uuid: str) -> str:
    return f"type='mdev'><source><address uuid='{uuid}'/>"


@pytest.fixture
def hypervisor(tmp_path: Path) -> Hypervisor:
    return Hypervisor(tmp_path)


def test_a_gpu_passed_through_and_seen_yet_is_its_machines(hypervisor: Hypervisor) -> None:
    hypervisor.domain(VM1, pci(0x11))

    (claim,) = claims_of(hypervisor.finder.find(HERE))

    assert (claim.unit.unit, claim.device, claim.exclusive) == (VM1, UUIDS[1], True)
    assert claim.source is ClaimSource.LIBVIRT


def test_a_gpu_the_host_cannot_see_is_hidden_not_nothing(hypervisor: Hypervisor) -> None:
    hypervisor.domain(VM1, pci(0x15), pci(0x17))
    hypervisor.pci("0000:15:00.0")
    hypervisor.pci("0000:17:00.0", kind="0x020000")  # a network card

    assert hypervisor.finder.find(HERE) == []
    (machine,) = [key for key in HERE.units if key.unit == VM1]
    assert hypervisor.finder.hidden == (HiddenGpu(machine, "0000:15:00.0"),)


def test_vgpus_share_by_how_many_there_can_be(hypervisor: Hypervisor) -> None:
    hypervisor.mediated(MDEV1, "0000:10:00.0", spare=2)
    hypervisor.mediated(MDEV2, "0000:10:00.0", spare=2)
    hypervisor.domain(VM1, mdev(MDEV1.upper()))
    hypervisor.domain(VM2, mdev(MDEV2), name="instance-2")

    claims = claims_of(hypervisor.finder.find(HERE))

    assert held(claims) == {VM1: ["0"], VM2: ["0"]}
    assert [(claim.share, claim.exclusive) for claim in claims] == [(250, False), (250, False)]


def test_vgpus_of_an_unknown_number_share_equally(hypervisor: Hypervisor) -> None:
    hypervisor.mediated(MDEV1, "0000:10:00.0")
    hypervisor.domain(VM1, mdev(MDEV1))

    (claim,) = claims_of(hypervisor.finder.find(HERE))

    assert (claim.share, claim.exclusive) == (1000, False)


def test_virtual_functions_are_their_physical_gpus(hypervisor: Hypervisor) -> None:
    hypervisor.pci("0000:10:00.4", physical="0000:10:00.0")
    hypervisor.pci("0000:10:00.5", physical="0000:10:00.0")
    hypervisor.mediated(MDEV2, "0000:10:00.5")
    hypervisor.domain(VM1, pci(0x10, 4))
    hypervisor.domain(VM2, mdev(MDEV2), name="instance-2")

    claims = claims_of(hypervisor.finder.find(HERE))

    assert held(claims) == {VM1: ["0"], VM2: ["0"]}
    assert [claim.share for claim in claims] == [500, 500]


def test_case_ceems_401_a_transient_domain_has_no_definition(hypervisor: Hypervisor) -> None:
    hypervisor.domain(VM1, pci(0x10), directory=hypervisor.running)

    assert held(hypervisor.finder.find(HERE)) == {VM1: ["0"]}


def test_what_runs_counts_not_what_is_defined(hypervisor: Hypervisor) -> None:
    hypervisor.domain(VM1, pci(0x10), directory=hypervisor.running)
    hypervisor.domain(VM1, pci(0x11), directory=hypervisor.defined)

    assert held(hypervisor.finder.find(HERE)) == {VM1: ["0"]}


def test_a_machine_that_is_off_holds_nothing(hypervisor: Hypervisor) -> None:
    hypervisor.domain(VM1, pci(0x10), directory=hypervisor.defined)

    assert hypervisor.finder.find(node([gpu(0)], unit("libvirt", VM2))) == []


def test_half_a_file_takes_no_other_machine_down(hypervisor: Hypervisor) -> None:
    (hypervisor.running / "a.xml").write_text("<domain><name>x</name><dev")
    hypervisor.domain(VM1, pci(0x10))

    assert held(hypervisor.finder.find(HERE)) == {VM1: ["0"]}


def test_without_libvirt_it_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no directory"):
        MachineFinder(FakeProc(tmp_path).host, (tmp_path / "none",)).find(HERE)


def test_a_directory_that_cannot_be_looked_into_is_said_to_be_closed(tmp_path: Path) -> None:
    closed = tmp_path / ("x" * 300)  # neither there nor absent: the kernel refuses to look

    with pytest.raises(Unavailable) as caught:
        MachineFinder(FakeProc(tmp_path).host, (closed,)).find(HERE)

    assert caught.value.reason == "permission"
