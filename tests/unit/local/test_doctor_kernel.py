"""Pressure, frequency and temperature; clock and open files of the machine that runs the test."""

from pathlib import Path

import pytest
from tests.doctor_place import found, made, place_of, recorded

from kwhere.local import doctor_process
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_clock import clock_error_us
from kwhere.local.doctor_kernel import CHECKS


def test_a_recorded_host_tells_all_three() -> None:
    checks = found(CHECKS, recorded("xeon-2s-dram"))

    assert checks["pressure"].found == "told for cpu, memory, io"
    assert checks["frequency"].found == "told for 16 CPUs, governor performance on 16"
    assert checks["temperature"].found == "3 sensors: coretemp 3"


def test_pressure_that_is_off_is_a_kernel_argument(tmp_path: Path) -> None:
    check = found(CHECKS, place_of(made(tmp_path, {"proc/stat": "x"})))["pressure"]

    assert check.state is CheckState.MISSING
    assert "psi=1" in check.remedies[0].command
    assert check.remedies[0].undo == "sudo rm /etc/default/grub.d/kwhere-psi.cfg && sudo update-grub"


def test_a_host_that_tells_nothing_has_no_fault(tmp_path: Path) -> None:
    checks = found(CHECKS, place_of(made(tmp_path, {"proc/stat": "x"})))

    assert {check.state for check in checks.values()} == {CheckState.MISSING}


@pytest.mark.parametrize(
    ("error_us", "container", "program", "state"),
    [
        (1500, None, True, CheckState.OK),
        (None, None, True, CheckState.WARNING),
        (None, None, False, CheckState.WARNING),
        (3_000_000, None, True, CheckState.WARNING),
        (None, "docker", True, CheckState.MISSING),
    ],
)
def test_the_clock(
    monkeypatch: pytest.MonkeyPatch, error_us: int | None, container: str | None, program: bool, state: CheckState
) -> None:
    monkeypatch.setattr("kwhere.local.doctor_process.clock_error_us", lambda: error_us)
    place = recorded("xeon-2s-dram", container=container, finds_program=lambda _: program)

    check = found(doctor_process.KERNEL_CHECKS, place)["clock"]

    assert check.state is state
    assert bool(check.remedies) == (state is CheckState.WARNING and program)


def test_the_kernel_answers_the_question_about_its_clock() -> None:
    error_us = clock_error_us()

    assert error_us is None or error_us >= 0


def test_open_files_are_counted_against_the_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 260))

    check = found(doctor_process.KERNEL_CHECKS, recorded("xeon-2s-dram"))["open_files"]

    # three units with 8 files each, beside the 256 reserved
    assert check.found == "260 allowed, 280 wanted"
    assert check.state is CheckState.WARNING
    assert check.remedies[0].undo == "prlimit --pid $$ --nofile=256:260"
