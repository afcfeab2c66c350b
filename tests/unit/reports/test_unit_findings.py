"""What stands out of a unit: only what its figures say."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.fake_units import NOW, UNITS
from tests.unit.reports.test_gpus import GPU, HOUR_NS

from kwhere.database.gpu_records import UnitGpu
from kwhere.database.records import NodeRun, UnitRecord
from kwhere.reports import unit_findings as unit_findings_module
from kwhere.reports.unit_findings import FULL, Finding, unit_findings

GIB = 2**30
START = NOW - timedelta(hours=4)


def node_run(node: str, cpu_hours: float, cpus: int, peak_gib: float | None) -> NodeRun:
    return NodeRun(
        node=node,
        run="7@1",
        started_at=START,
        ended_at=None,
        energy_uj={},
        energy_total_uj=0,
        power_uw=None,
        cpu_ns=int(cpu_hours * HOUR_NS),
        cpu_allocated_ns=4 * cpus * HOUR_NS,
        memory_peak_bytes=None if peak_gib is None else int(peak_gib * GIB),
    )


def job(**changes: object) -> UnitRecord:
    """A job of 8 CPUs and 32 GiB on one node for four hours: busy, its memory well used."""
    record = replace(
        UNITS[0],
        nodes=("n1",),
        started_at=START,
        ended_at=None,
        cpus_allocated=8.0,
        cpu_efficiency_ratio=0.9,
        memory_allocated_bytes=32 * GIB,
        node_runs=(node_run("n1", 28.8, 8, 24),),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def said(record: UnitRecord) -> list[tuple[str, str, str]]:
    return [(found.kind, found.text, found.action) for found in unit_findings(record, NOW)]


def test_a_job_in_order_has_none() -> None:
    assert unit_findings(job(), NOW) == []


@pytest.mark.parametrize(
    ("record", "found"),
    [
        pytest.param(
            job(cpu_efficiency_ratio=15.93),
            ("cpu_suspect", "CPU time is 1593.0 % of what was allocated: suspect"),
            id="case_users_12",
        ),
        pytest.param(
            job(memory_allocated_bytes=2 * GIB, node_runs=(node_run("n1", 28.8, 8, 24.576),)),
            ("memory_suspect", "peak memory is 1228.8 % of what was allocated: suspect"),
            id="case_users_5",
        ),
        pytest.param(
            job(node_runs=(node_run("n1", 28.8, 8, 3),)),
            ("memory_low", "used at most 3.00 GiB of 32.0 GiB so far"),
            id="memory far below the request",
        ),
        pytest.param(job(cpu_efficiency_ratio=0.125), ("serial", "one of its 8 CPUs worked"), id="serial"),
        pytest.param(
            job(cpu_efficiency_ratio=0.31), ("cpu_low", "used 31.0 % of the CPU time of its 8 CPUs"), id="few CPUs busy"
        ),
        pytest.param(
            job(nodes=("n1", "n2"), node_runs=(node_run("n1", 28.8, 4, 12), node_run("n2", 0, 4, 12))),
            ("node_idle", "did no work on n2"),
            id="a node without work",
        ),
        pytest.param(
            job(nodes_unreported=("n2", "n3")),
            ("node_unreported", "no agent told of it on n2, n3: its figures are too low"),
            id="nodes without an agent",
        ),
        pytest.param(job(state="out_of_memory"), ("out_of_memory", "it was killed for want of memory"), id="OOM"),
        pytest.param(job(state="timeout"), ("timeout", "its time limit ended it"), id="time limit"),
    ],
)
def test_what_stands_out_is_said(record: UnitRecord, found: tuple[str, str]) -> None:
    assert [(kind, text) for kind, text, _ in said(record)] == [found]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(job(cpu_efficiency_ratio=None, memory_allocated_bytes=None), id="case_users_4 nothing is known"),
        pytest.param(job(started_at=NOW, cpu_efficiency_ratio=0.0), id="case_users_9 no time has passed"),
        pytest.param(job(cpu_efficiency_ratio=1.04), id="a little above is rounding"),
        pytest.param(job(manager="kubernetes", cpu_efficiency_ratio=3.0), id="a pod may use more than it asked for"),
        pytest.param(job(started_at=NOW - timedelta(minutes=4), cpu_efficiency_ratio=0.1), id="too young to judge"),
        pytest.param(job(node_runs=(node_run("n1", 28.8, 8, None),)), id="no peak is known"),
        pytest.param(
            job(memory_allocated_bytes=GIB, node_runs=(node_run("n1", 28.8, 8, 0.1),)), id="less than a GiB to spare"
        ),
    ],
)
def test_what_is_missing_small_or_young_is_no_finding(record: UnitRecord) -> None:
    assert unit_findings(record, NOW) == []


def test_peaks_of_some_nodes_say_nothing_of_the_memory_asked_for() -> None:
    half = job(memory_allocated_bytes=64 * GIB, node_runs=(node_run("n1", 9, 4, 7.7),), nodes_unreported=("n2",))

    assert half.memory_efficiency_ratio is None
    assert [found.kind for found in unit_findings(half, NOW)] == ["node_unreported"]


def test_a_job_is_judged_by_the_time_that_was_measured() -> None:
    """Its agent came three hours and 56 minutes after it began."""
    young = replace(node_run("n1", 0.1, 8, 1), measured_seconds=240.0)
    older = replace(young, measured_seconds=600.0)

    assert unit_findings(job(cpu_efficiency_ratio=0.1, node_runs=(young,)), NOW) == []
    assert [text for _, text, _ in said(job(cpu_efficiency_ratio=0.31, node_runs=(older,)))] == [
        "used 31.0 % of the CPU time of its 8 CPUs within the 00:10:00 that were measured",
        "used at most 1.00 GiB of 32.0 GiB so far within the 00:10:00 that were measured",
    ]


def test_peaks_of_nodes_are_added_not_multiplied_case_users_2() -> None:
    two = job(memory_allocated_bytes=64 * GIB, node_runs=(node_run("n1", 9, 4, 7.7), node_run("n2", 9, 4, 7.7)))

    assert two.memory_efficiency_ratio == pytest.approx(0.2406, abs=1e-4)


def test_two_runs_on_one_node_have_one_peak() -> None:
    again = job(node_runs=(node_run("n1", 9, 4, 8), node_run("n1", 9, 4, 16)))

    assert again.memory_efficiency_ratio == 0.5


def test_memory_is_asked_for_with_a_fifth_to_spare() -> None:
    ((_, _, action),) = said(job(node_runs=(node_run("n1", 28.8, 8, 3),)))

    assert action == "ask for 4 GiB next time"


def test_a_gpu_held_idle_is_said_with_what_it_cost() -> None:
    idle = replace(GPU, held_idle_ns=HOUR_NS, held_idle_uj=3_240_000_000_000, idle_since=START)
    unused = replace(GPU, index=1, device="GPU-1", busy_ns=0, held_idle_ns=4 * HOUR_NS, held_idle_uj=None)

    assert unit_findings(job(gpus=(idle, unused)), NOW) == [
        Finding("gpu_unused", "held GPU 1 idle for 04:00:00; never used it", "ask for fewer GPUs", grave=True),
        Finding("gpu_idle", "held GPU 0 idle for 01:00:00, 900 Wh", "give it work or release it", since=START),
    ]


def test_a_gpu_of_which_nobody_tells_is_not_idle() -> None:
    unknown = replace(GPU, busy_ns=None, held_idle_ns=None, unknown_ns=4 * HOUR_NS)
    partly = replace(GPU, busy_ns=0, held_idle_ns=HOUR_NS, unknown_ns=HOUR_NS)

    assert [found.kind for found in unit_findings(job(gpus=(unknown, partly)), NOW)] == ["gpu_idle"]


@pytest.mark.parametrize(
    ("gpu", "kind", "action"),
    [
        pytest.param(
            replace(GPU, busy_ns=HOUR_NS // 10, memory_peak_bytes=76 * GIB), "gpu_low", FULL, id="case_users_64_low"
        ),
        pytest.param(
            replace(GPU, busy_ns=0, held_idle_ns=4 * HOUR_NS, memory_peak_bytes=76 * GIB),
            "gpu_idle",
            FULL,
            id="case_users_64_idle",
        ),
        pytest.param(
            replace(GPU, busy_ns=0, held_idle_ns=4 * HOUR_NS, memory_peak_bytes=64 * GIB, memory_total_bytes=80 * GIB),
            "gpu_idle",
            FULL,
            id="case_users_64_just_full",
        ),
        pytest.param(
            replace(
                GPU,
                instance="MIG-1",
                profile="1g.10gb",
                busy_ns=1,
                memory_peak_bytes=9 * GIB,
                memory_total_bytes=10 * GIB,
            ),
            "gpu_low",
            FULL,
            id="case_users_64_instance",
        ),
        pytest.param(
            replace(GPU, busy_ns=HOUR_NS // 10, memory_peak_bytes=63 * GIB, memory_total_bytes=80 * GIB),
            "gpu_low",
            "find what it waits for: data, CPUs, or other GPUs",
            id="case_users_64_not_quite",
        ),
        pytest.param(
            replace(GPU, busy_ns=HOUR_NS // 10, memory_peak_bytes=76 * GIB, memory_total_bytes=None),
            "gpu_low",
            "find what it waits for: data, CPUs, or other GPUs",
            id="case_users_64_size_not_known",
        ),
        pytest.param(
            replace(
                GPU,
                allocated_ns=GPU.held_ns // 2,
                place_ns=GPU.held_ns // 2,
                busy_ns=HOUR_NS // 10,
                memory_peak_bytes=38 * GIB,
                memory_total_bytes=80 * GIB,
            ),
            "gpu_low",
            FULL,
            id="case_users_64_half_of_a_shared_one",
        ),
        pytest.param(
            replace(GPU, busy_ns=HOUR_NS // 10),
            "gpu_low",
            "find what it waits for: data, CPUs, or other GPUs",
            id="low",
        ),
    ],
)
def test_a_gpu_whose_memory_is_full_gets_other_words(gpu: UnitGpu, kind: str, action: str) -> None:
    (found,) = unit_findings(job(gpus=(gpu,)), NOW)

    assert (found.kind, found.action, found.grave) == (kind, action, False)


@pytest.mark.parametrize(
    ("busy_ns", "shared", "kinds"),
    [
        (5 * HOUR_NS, 1, ["gpu_suspect"]),
        (4 * HOUR_NS + 1000, 1, []),
        (4 * HOUR_NS, 2, []),
        (6 * HOUR_NS, 4, []),
    ],
)
def test_only_who_has_a_gpu_for_himself_cannot_use_more_of_it_case_users_5(
    busy_ns: int, shared: int, kinds: list[str]
) -> None:
    gpu = replace(GPU, busy_ns=busy_ns, allocated_ns=GPU.held_ns // shared, place_ns=GPU.held_ns // shared)

    assert [found.kind for found in unit_findings(job(gpus=(gpu,)), NOW)] == kinds


def test_every_kind_of_finding_is_explained_to_users() -> None:
    source = Path(unit_findings_module.__file__).read_text()
    kinds = {*re.findall(r'Finding\(\s*"(\w+)"', source), *re.findall(r'^    "(\w+)": \(', source, re.MULTILINE)}
    kinds |= {"cpu_suspect", "memory_suspect"}
    page = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text()

    assert len(kinds) > 10
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []
