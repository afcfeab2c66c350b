"""Names of units, and SLURM's way of tracking jobs."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.doctor_place import found, recorded

from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_managers import CHECKS, check_slurm

CONTAINER = TrackedUnit(
    UnitKey("docker", "ab12", "ab12"), "/docker/ab12", 1, None, None, UnitInfo(), Allocation(), False, 0
)


def test_names_of_containers(tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    place = recorded("xeon-2s-dram", units=lambda: [CONTAINER], settings=UnitsSettings(docker_dirs=(tmp_path,)))

    check = found(CHECKS, place)["names_docker"]

    assert check.state is CheckState.OK
    assert check.found == f"read from {tmp_path}/containers"


def test_names_that_the_engine_tells(tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    sockets = (tmp_path / "podman.sock", tmp_path / "docker.sock")
    settings = UnitsSettings(docker_dirs=(tmp_path / "none",), container_sockets=sockets)

    check = found(CHECKS, recorded("xeon-2s-dram", units=lambda: [CONTAINER], settings=settings))["names_docker"]

    assert (check.state, check.found) == (CheckState.OK, f"asked at {tmp_path}/docker.sock")


@pytest.mark.parametrize(("is_root", "remedies"), [(False, 1), (True, 0)])
def test_names_that_nobody_tells(tmp_path: Path, is_root: bool, remedies: int) -> None:
    settings = UnitsSettings(docker_dirs=(tmp_path / "none",), container_sockets=())
    place = recorded("xeon-2s-dram", units=lambda: [CONTAINER], settings=settings, is_root=is_root)

    check = found(CHECKS, place)["names_docker"]

    assert check.state is CheckState.MISSING
    assert len(check.remedies) == remedies
    assert all("CAP_DAC_READ_SEARCH" in remedy.command and remedy.risk for remedy in check.remedies)


def test_a_manager_without_units_is_not_asked() -> None:
    assert "names_libvirt" not in found(CHECKS, recorded("xeon-2s-dram"))


@pytest.mark.parametrize(
    ("text", "kind", "state"),
    [
        ("ClusterName=x\nProctrackType=proctrack/cgroup\n", "proctrack/cgroup", CheckState.OK),
        ("ClusterName=x\n", "proctrack/cgroup", CheckState.OK),
        ("#ProctrackType=proctrack/linuxproc\n", "proctrack/cgroup", CheckState.OK),
        ("proctracktype = proctrack/linuxproc\n", "proctrack/linuxproc", CheckState.WARNING),
    ],
)
def test_slurm_tracks_jobs_by_cgroup_or_not(tmp_path: Path, text: str, kind: str, state: CheckState) -> None:
    file = tmp_path / "slurm.conf"
    file.write_text(text)

    (check,) = check_slurm(replace(recorded("vm-no-meter"), units=tuple), [tmp_path / "none", file])

    assert (check.found, check.state) == (kind, state)
    assert all(remedy.undo and remedy.risk for remedy in check.remedies)


def test_jobs_that_are_seen_prove_it(tmp_path: Path) -> None:
    file = tmp_path / "slurm.conf"
    file.write_text("ProctrackType=proctrack/pgid\n")

    (check,) = check_slurm(recorded("xeon-2s-dram"), [file])

    assert check.state is CheckState.OK


def test_a_node_without_slurm_has_no_such_check(tmp_path: Path) -> None:
    assert check_slurm(recorded("xeon-2s-dram"), [tmp_path / "none"]) == []
