"""GPUs on the command line: a bar per device in 80 columns, idle ones in words, columns only where there are GPUs."""

import io
from contextlib import redirect_stdout
from typing import Any

import pytest
from tests.unit.cli.test_accounting import UNIT, USAGE_ROW

from kwhere.cli.unit_nodes import node_lines
from kwhere.cli.unit_output import Output, write_units
from kwhere.cli.unit_page import report
from kwhere.cli.unit_table import count
from kwhere.reports.usage_text import usage_lines

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"
GPU: dict[str, Any] = {
    "node": "n1",
    "gpu": 0,
    "uuid": "GPU-0",
    "mig": None,
    "model": H100,
    "profile": None,
    "source": "prolog",
    "held": True,
    "first_at": "2026-11-29T17:00:00Z",
    "last_at": "2026-11-29T21:00:00Z",
    "held_seconds": 14_400.0,
    "allocated_seconds": 14_400.0,
    "unknown_seconds": 0.0,
    "busy_seconds": 10_800.0,
    "utilization_ratio": 0.75,
    "held_idle_seconds": 0.0,
    "held_idle_joules": 0.0,
    "idle_since": None,
    "energy_joules": 5_040_000.0,
    "memory_peak_bytes": 60 * GIB,
    "memory_total_bytes": 80 * GIB,
}
IDLE = {
    **GPU,
    "gpu": 1,
    "uuid": "GPU-1",
    "utilization_ratio": 0.0,
    "busy_seconds": 0.0,
    "memory_peak_bytes": None,
    "held_idle_seconds": 11_400.0,
    "held_idle_joules": 3_240_000.0,
    "idle_since": "2026-11-29T17:50:00Z",
}
JOB = {
    **UNIT,
    "allocation": {"cpus": 8, "memory_bytes": None, "gpus": {H100: 2.0}},
    "gpu_utilization_ratio": 0.375,
    "gpu_allocated_seconds": 28_800.0,
    "gpu_held_idle_seconds": 11_400.0,
    "gpus": [GPU, IDLE],
}


@pytest.fixture
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    return


def test_a_job_report_has_a_bar_per_gpu() -> None:
    lines = report(JOB)

    assert max(map(len, lines)) <= 80
    assert f"          GPUs: 2 × {H100}" in lines
    assert "         GPU 0: [▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇      ]  75.0 %  60.0/80.0 GiB  1.40 kWh" in lines
    assert "         GPU 1: [                        ]   0.0 %  –/80.0 GiB  1.40 kWh" in lines
    assert " GPUs together: 37.5 % busy of the time held" in lines
    assert "       Held by: a file of the scheduler's prolog" in lines


def test_a_gpu_held_idle_is_said_with_what_it_cost_case_gpu_61() -> None:
    finding = {
        "kind": "gpu_idle",
        "text": "held GPU 1 idle for 03:10:00, 900 Wh",
        "action": "give it work or release it",
        "grave": False,
        "since": "2026-11-29T17:50:00Z",
    }

    lines = report({**JOB, "findings": [finding]})

    at = next(n for n, line in enumerate(lines) if "idle for" in line)
    note = f"{lines[at]} {lines[at + 1].strip()}"
    assert note.startswith("       Finding: held GPU 1 idle for 03:10:00, 900 Wh (since 2026-11-29 ")
    assert note.endswith("): give it work or release it")


def test_gpus_of_several_nodes_stand_under_their_nodes() -> None:
    lines = list(node_lines({**JOB, "gpus": [GPU, {**IDLE, "node": "n2"}]}, 80))

    assert (lines[0], lines[2]) == ("  n1", "  n2")
    assert lines[3].startswith("         GPU 1: [")


def test_an_instance_is_called_by_its_profile_and_what_is_unknown_is_a_dash() -> None:
    instance = {**GPU, "profile": "1g.10gb", "mig": "MIG-0", "utilization_ratio": None, "memory_total_bytes": None}

    line = next(node_lines({**JOB, "gpu_utilization_ratio": None, "gpus": [instance]}, 80))

    assert line == " GPU 0 1g.10gb: [                        ]       –  60.0/– GiB  1.40 kWh"


def test_a_unit_without_gpus_has_no_block() -> None:
    assert not [line for line in report(UNIT) if "GPU" in line]


@pytest.mark.usefixtures("eighty")
def test_the_list_has_columns_of_gpus_where_any_unit_has_one() -> None:
    with redirect_stdout(io.StringIO()) as shown:
        write_units([JOB, UNIT], Output())
        write_units([UNIT], Output())

    head, job, plain, head_without, _ = shown.getvalue().splitlines()
    assert head.split()[-3:] == ["GPUS", "GPU", "%"] or "GPUS  GPU %" in head
    assert job.split()[-2:] == ["2", "38"]
    assert plain.split()[-2:] == ["–", "–"]
    assert "GPU" not in head_without


@pytest.mark.parametrize(("amount", "text"), [(None, "–"), (2.0, "2"), (0.333, "0.33"), (16.0, "16"), (1.5, "1.5")])
def test_a_number_of_gpus_is_whole_where_it_is(amount: float | None, text: str) -> None:
    assert count(amount) == text


@pytest.mark.usefixtures("eighty")
def test_a_report_has_gpu_hours_and_idle_ones() -> None:
    row = {**USAGE_ROW, "gpu_allocated_seconds": 36_000.0, "gpu_held_idle_seconds": 9000.0}

    head, first, second = usage_lines("user", [row, USAGE_ROW], 80)

    assert head.endswith("GPU-h  idle GPU-h")
    assert first.split()[-2:] == ["10.0", "2.50"]
    assert second.split()[-2:] == ["–", "–"]
