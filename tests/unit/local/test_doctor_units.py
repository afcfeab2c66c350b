"""Cgroups, managers, process groups and the limits on the way to them."""

from pathlib import Path

import pytest
from tests.doctor_place import found, made, place_of, recorded

from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_units import CHECKS

V2 = {"cgroup/cgroup.controllers": "cpu io memory pids\n", "cgroup/cpu.stat": "usage_usec 1\n"}
MOUNT = "proc /proc proc rw,nosuid{} 0 0\n"


def unit(cgroup: str, manager: str = "systemd", name: str = "a.service") -> TrackedUnit:
    """Return a unit of which only the place matters."""
    key = UnitKey(manager, name, name)
    return TrackedUnit(key, cgroup, 1, None, None, UnitInfo(), Allocation(), from_creation=False, first_seen_ns=0)


@pytest.mark.parametrize(
    ("host", "layout", "managers"),
    [
        ("xeon-2s-dram", "v2, CPU time from cpu.stat", {"slurm"}),
        ("vm-no-meter", "v1, CPU time from cpuacct", {"slurm", "docker"}),
        ("hybrid-slurm", "hybrid, CPU time from cpuacct", {"slurm"}),
        ("k8s-v2-systemd", "v2, CPU time from cpu.stat", {"kubernetes"}),
        ("libvirt-v2", "v2, CPU time from cpu.stat", {"libvirt"}),
        ("oar-v1", "v1, CPU time from cpuacct", {"oar"}),
        ("laptop-psys-mmio", "v2, CPU time from cpu.stat", {"systemd", "session"}),
    ],
)
def test_layout_and_managers_of_recorded_hosts(host: str, layout: str, managers: set[str]) -> None:
    checks = found(CHECKS, recorded(host))

    assert checks["cgroups"].found == layout
    named = {word.split()[0] for word in checks["units"].found.partition(": ")[2].split(", ")}
    assert managers <= named
    assert not managers & {word.strip(" .") for word in checks["units"].why.partition("Not seen:")[2].split(",")}


def test_a_daemon_without_a_unit_is_named(tmp_path: Path) -> None:
    stat = "700 (slurmd) S 1 1 1 0 0 0 0 0 0 0 5 5 0 0 20 0 1 0 100\n"

    check = found(CHECKS, place_of(made(tmp_path, {**V2, "proc/700/stat": stat}), units=tuple))["units"]

    assert "Running without a unit now: slurm." in check.why


def test_without_cgroups_process_groups_serve(tmp_path: Path) -> None:
    checks = found(CHECKS, place_of(made(tmp_path, {"proc/1/stat": "x"})))

    assert checks["cgroups"].state is CheckState.MISSING
    assert checks["cgroup_memory"].state is CheckState.MISSING
    assert checks["process_groups"].found.startswith("in use")


def test_memory_switched_off_at_boot_is_a_kernel_argument(tmp_path: Path) -> None:
    fs = made(tmp_path, {"cgroup/cgroup.controllers": "cpu pids\n"})

    with_grubby = found(CHECKS, place_of(fs, units=tuple, finds_program=lambda _: True))["cgroup_memory"]
    without = found(CHECKS, place_of(fs, units=tuple))["cgroup_memory"]

    assert with_grubby.state is CheckState.WARNING
    assert with_grubby.remedies[0].command == "sudo grubby --update-kernel=ALL --args=cgroup_enable=memory"
    assert with_grubby.remedies[0].undo == "sudo grubby --update-kernel=ALL --remove-args=cgroup_enable=memory"
    assert "cgroup_enable=memory" in without.remedies[0].command
    assert "update-grub" in without.remedies[0].command


def test_a_controller_that_is_not_handed_down_names_the_units(tmp_path: Path) -> None:
    fs = made(tmp_path, {**V2, "cgroup/system.slice/a.service/io.stat": "", "cgroup/system.slice/b.service/x": ""})
    units = [unit("/system.slice/a.service"), unit("/system.slice/b.service", name="b.service")]

    check = found(CHECKS, place_of(fs, units=lambda: units, finds_program=lambda _: True))["cgroup_io"]

    assert check.found == "accounted for 1 of 2 units"
    assert "systemd/b.service" in check.why
    assert "DefaultIOAccounting=yes" in check.remedies[0].command


def test_systemd_is_not_asked_for_what_it_did_not_start(tmp_path: Path) -> None:
    fs = made(tmp_path, {**V2, "cgroup/job_1/x": ""})

    check = found(CHECKS, place_of(fs, units=lambda: [unit("/job_1", "slurm", "1")], finds_program=lambda _: True))[
        "cgroup_io"
    ]

    assert check.state is CheckState.MISSING
    assert check.remedies == ()


@pytest.mark.parametrize(
    ("options", "is_root", "state"),
    [
        ("", False, CheckState.OK),
        (",hidepid=0", False, CheckState.OK),
        (",hidepid=off", False, CheckState.OK),
        (",hidepid=2", False, CheckState.FAILED),
        (",hidepid=invisible", False, CheckState.FAILED),
        (",hidepid=2", True, CheckState.OK),
    ],
)
def test_hidden_processes(tmp_path: Path, options: str, is_root: bool, state: CheckState) -> None:
    fs = made(tmp_path, {"proc/mounts": MOUNT.format(options)})

    check = found(CHECKS, place_of(fs, is_root=is_root))["proc"]

    assert check.state is state
    assert bool(check.remedies) == (state is CheckState.FAILED)
    assert all(remedy.risk and remedy.undo for remedy in check.remedies)


def test_too_few_watches_are_raised_and_put_back(tmp_path: Path) -> None:
    fs = made(tmp_path, {**V2, "proc/sys/fs/inotify/max_user_watches": "8\n"})

    check = found(CHECKS, place_of(fs))["inotify"]

    assert check.state is CheckState.WARNING
    assert check.remedies[0].command == "sudo sysctl -w fs.inotify.max_user_watches=65536"
    assert check.remedies[0].undo == "sudo sysctl -w fs.inotify.max_user_watches=8"


def test_enough_watches(tmp_path: Path) -> None:
    fs = made(tmp_path, {**V2, "proc/sys/fs/inotify/max_user_watches": "8192\n"})

    assert found(CHECKS, place_of(fs))["inotify"].state is CheckState.OK
