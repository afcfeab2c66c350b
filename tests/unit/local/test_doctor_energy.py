"""Energy sources: what is read, what is closed, what a virtual machine cannot have."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.doctor_place import found, made, place_of, recorded, with_sources

from kwhere.local.doctor import CheckState
from kwhere.local.doctor_energy import CHECKS
from kwhere.local.doctor_hints import hints
from kwhere.local.doctor_machine import container_of, hypervisor_of
from kwhere.meters.registry import SourceStatus

CLOSED = SourceStatus("powercap", up=False, reason="permission", detail="/sys/x: Permission denied")
INTEL = "processor : 0\nvendor_id : GenuineIntel\nmodel name : Xeon\nflags : fpu\n"


@pytest.mark.parametrize(
    ("host", "energy", "speaks"),
    [
        ("xeon-2s-dram", CheckState.OK, "cpu and dram counted by powercap, the whole node not measured"),
        ("laptop-psys-mmio", CheckState.OK, "cpu and dram counted by powercap, the whole node counted by psys"),
        ("vm-no-meter", CheckState.MISSING, "cpu and dram estimated by the model, the whole node not measured"),
    ],
)
def test_who_speaks_for_the_node(host: str, energy: CheckState, speaks: str) -> None:
    checks = found(CHECKS, recorded(host))

    assert checks["energy"].state is energy
    assert checks["energy"].found == speaks
    assert checks["machine"].state is CheckState.OK


def test_a_virtual_machine_is_told_so_and_no_command() -> None:
    checks = found(CHECKS, recorded("vm-no-meter"))

    assert "virtual machine" in checks["energy"].why
    assert "virtual machine (hypervisor unknown)" in checks["machine"].found
    assert checks["meter_powercap"].state is CheckState.MISSING
    assert not any(check.remedies for check in checks.values())


def test_closed_counters_come_with_command_undo_and_risk() -> None:
    place = recorded("xeon-2s-dram", meters=with_sources(CLOSED))

    check = found(CHECKS, place)["meter_powercap"]

    directory = place.fs.path("sys/class/powercap")
    assert check.state is CheckState.FAILED
    assert check.remedies[0].command == f"sudo chown alice {directory}/*/energy_uj"
    assert check.remedies[0].undo == f"sudo chown root {directory}/*/energy_uj"
    assert [remedy.title for remedy in check.remedies] == ["until the next boot", "for good", "for kwhere alone"]
    assert all("CVE-2020-8694" in (remedy.risk or "") for remedy in check.remedies[:2])
    assert all(remedy.undo and remedy.risk for remedy in check.remedies)


def test_psys_is_opened_by_the_same_command() -> None:
    psys = SourceStatus("psys", up=False, reason="permission", detail="closed")

    check = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(CLOSED, psys)))["meter_psys"]

    assert check.state is CheckState.FAILED
    assert check.remedies == ()
    assert "powercap" in check.why


def test_root_is_not_told_to_become_root() -> None:
    check = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(CLOSED), is_root=True))["meter_powercap"]

    assert check.state is CheckState.FAILED
    assert check.remedies == ()


@pytest.mark.parametrize(
    ("reason", "state"),
    [("unsupported", CheckState.MISSING), ("stuck", CheckState.FAILED), ("nonsense", CheckState.FAILED)],
)
def test_other_reasons(reason: str, state: CheckState) -> None:
    status = SourceStatus("powercap", up=False, reason=reason, detail="energy_uj: no")

    check = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(status)))["meter_powercap"]

    assert check.state is state
    assert "energy_uj: no" in check.why


def test_a_driver_that_is_not_loaded_is_loaded_on_metal_alone(tmp_path: Path) -> None:
    absent = with_sources(SourceStatus("powercap", up=False, reason="absent", detail="none"))
    fs = made(tmp_path, {"proc/cpuinfo": INTEL, "proc/stat": "cpu0 1 2 3 4 5 6 7 8 9 10\n"})

    on_metal = found(CHECKS, place_of(fs, meters=absent))["meter_powercap"]
    in_container = found(CHECKS, place_of(fs, meters=absent, container="docker"))["meter_powercap"]

    assert on_metal.state is CheckState.WARNING
    assert on_metal.remedies[0].command == "sudo modprobe intel_rapl_msr"
    assert in_container.state is CheckState.MISSING


def test_an_acpi_meter_without_its_driver(tmp_path: Path) -> None:
    absent = with_sources(SourceStatus("hwmon_power", up=False, reason="absent", detail="none"))
    fs = made(tmp_path, {"proc/cpuinfo": INTEL, "sys/bus/acpi/devices/ACPI000D:00/path": "x"})

    check = found(CHECKS, place_of(fs, meters=absent))["meter_hwmon_power"]

    assert check.remedies[0].command == "sudo modprobe acpi_power_meter"


def test_what_a_person_can_mend_becomes_a_hint() -> None:
    checks = found(CHECKS, recorded("xeon-2s-dram", meters=with_sources(CLOSED)))

    (hint,) = hints(checks.values())

    assert hint.title == "CPU energy is estimated: RAPL is readable by root only"
    assert hint.command is not None
    assert hint.command.startswith("sudo chown alice")
    assert hint.undo is not None
    assert "CVE-2020-8694" in hint.text


def test_a_healthy_host_has_no_hints() -> None:
    assert hints(found(CHECKS, recorded("laptop-psys-mmio")).values()) == []


@pytest.mark.service("root")
def test_the_command_opens_the_counters_and_the_undo_closes_them(tmp_path: Path) -> None:
    fs = made(tmp_path, {f"sys/class/powercap/intel-rapl:{n}/energy_uj": "1\n" for n in (0, 1)})
    place = place_of(fs, meters=with_sources(CLOSED), user="nobody")
    remedy = found(CHECKS, place)["meter_powercap"].remedies[0]
    assert remedy.undo is not None
    counters = sorted(tmp_path.rglob("energy_uj"))

    subprocess.run(["sh", "-c", remedy.command.replace("sudo ", "")], check=True)
    opened = {file.owner() for file in counters}
    subprocess.run(["sh", "-c", remedy.undo.replace("sudo ", "")], check=True)

    assert opened == {"nobody"}
    assert {file.stat().st_uid for file in counters} == {os.getuid()}


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "guest"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "hypervisor", "QEMU"),
        ("Microsoft Corporation", "Virtual Machine", "hypervisor", "Hyper-V"),
        ("Microsoft Corporation", "Surface Laptop", "", None),
        ("VMware, Inc.", "VMware7,1", "hypervisor", "VMware"),
        ("Amazon EC2", "m5.large", "hypervisor", "Amazon EC2"),
        ("Amazon EC2", "m5.metal", "", None),
        ("Dell Inc.", "PowerEdge R640", "", None),
        ("", "", "hypervisor", "hypervisor unknown"),
    ],
)
def test_guests_are_told_from_metal(tmp_path: Path, vendor: str, product: str, flags: str, guest: str | None) -> None:
    files = {"proc/cpuinfo": f"processor : 0\nflags : fpu {flags} sse\n"}
    files |= {"sys/class/dmi/id/sys_vendor": vendor, "sys/class/dmi/id/product_name": product}

    assert hypervisor_of(made(tmp_path, files)) == guest


def test_containers_are_told_by_their_marks(tmp_path: Path) -> None:
    assert container_of(tmp_path, {}) is None
    assert container_of(tmp_path, {"container": "lxc"}) == "lxc"
    assert container_of(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"
    (tmp_path / ".dockerenv").touch()
    assert container_of(tmp_path, {}) == "docker"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    assert container_of(tmp_path, {}) == "podman"
