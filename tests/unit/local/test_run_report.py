"""The report of one command."""

import json
from dataclasses import replace

from kwhere.core.terms import Component, Part
from kwhere.local.run_report import RunReport, to_json, to_text

FULL = RunReport(
    unit="4711-1",
    exit_code=3,
    wall_seconds=10.0,
    user_seconds=9.5,
    system_seconds=0.5,
    memory_peak_bytes=3 << 20,
    io_read_bytes=0,
    io_write_bytes=2048,
    energy_joules={(Component.CPU, Part.DYNAMIC): 120.0, (Component.CPU, Part.IDLE): 0.0},
    emissions_grams=0.00185,
    method="modelled",
    zone="FR",
)


def test_json_has_every_key_and_null_for_unknown() -> None:
    document = json.loads(to_json(RunReport(unit="1", exit_code=0, wall_seconds=0.5)))

    assert document == {
        "unit": "1",
        "exit_code": 0,
        "wall_seconds": 0.5,
        "cpu_seconds": {"user": None, "system": None},
        "memory_peak_bytes": None,
        "io_read_bytes": None,
        "io_write_bytes": None,
        "gpu_busy_seconds": None,
        "energy_joules": {
            "cpu": {"dynamic": None, "idle": None},
            "dram": {"dynamic": None, "idle": None},
            "gpu": {"dynamic": None, "idle": None},
            "other": {"dynamic": None, "idle": None},
            "total": None,
        },
        "emissions_grams": None,
        "method": None,
        "zone": None,
    }


def test_json_carries_the_figures() -> None:
    document = json.loads(to_json(FULL))

    assert document["energy_joules"]["cpu"] == {"dynamic": 120.0, "idle": 0.0}
    assert document["energy_joules"]["total"] == 120.0
    assert document["cpu_seconds"] == {"user": 9.5, "system": 0.5}


def test_text_says_unit_and_method_beside_every_number() -> None:
    text = to_text(FULL)

    assert "10.00 s  (user 9.50 s, system 0.50 s)  1.00 CPUs busy" in text
    assert "3.00 MiB at its peak" in text
    assert "0 B read, 2.00 KiB written" in text
    assert "120 J  mean 12.0 W  (method modelled, estimated; by this command)" in text
    assert "cpu  120 J dynamic, 0 J idle" in text
    assert "1.85 mg  (zone FR)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_text_of_the_unknown_has_no_zero() -> None:
    text = to_text(RunReport(unit="1", exit_code=0, wall_seconds=0.5))

    assert "–  (nothing measures here)" in text
    assert "–  (no zone set)" in text
    assert " 0 " not in text


def test_next_to_nothing_is_no_row_of_zeros() -> None:
    text = to_text(replace(FULL, energy_joules={(Component.CPU, Part.DYNAMIC): 1e-6}, emissions_grams=1.2e-11))

    assert "energy  <0.001 J  mean <0.001 W" in text
    assert "CO2e  <0.001 mg" in text
