"""GPUs in words: names of lines, what idled, what slowed them down, a node's health and layout."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import NOW
from tests.unit.series.test_charts import SeriesList

from kwhere.core.timespan import Span
from kwhere.database.gpu_records import GpuHold, UnitGpu, by_kind
from kwhere.reports.gpu_words import cause_words, down_words, holder_words, recovery_words
from kwhere.reports.node_gpus import NodeGpu, count_gpus, node_gpus, slices_of
from kwhere.reports.sources import Sources
from kwhere.reports.unit_gpus import gpu_label, held_idle, named_gpus, slowed_by, worded_causes
from kwhere.series.charts import Chart, ChartColumn, NodeRef

GIB = 2**30
HOUR_NS = 3600 * 10**9
H100 = "NVIDIA H100 80GB HBM3"
GPU = UnitGpu(
    node="n1",
    device="GPU-0",
    instance="",
    index=0,
    model=H100,
    profile="",
    source="prolog",
    first_at=NOW - timedelta(hours=4),
    last_at=NOW,
    is_held=True,
    idle_since=None,
    held_ns=4 * HOUR_NS,
    allocated_ns=4 * HOUR_NS,
    place_ns=4 * HOUR_NS,
    unknown_ns=0,
    busy_ns=HOUR_NS,
    held_idle_ns=0,
    energy_uj=10**9,
    held_idle_uj=0,
    memory_peak_bytes=GIB,
    memory_total_bytes=80 * GIB,
)
MIG = replace(GPU, instance="MIG-1", profile="1g.10gb", allocated_ns=4 * HOUR_NS // 7)


def chart(name: str, *columns: tuple[str, dict[str, str], Sequence[float | None]]) -> Chart:
    made = tuple(ChartColumn(label, labels, tuple(values)) for label, labels, values in columns)
    return Chart(name, name, "ratio", 10.0, (0.0, 10.0), made)


@pytest.mark.parametrize(
    ("gpu", "others", "label"),
    [
        (GPU, [], "GPU 0"),
        (MIG, [], "GPU 0 1g.10gb"),
        (GPU, [replace(GPU, node="n2")], "n1 GPU 0"),
        (MIG, [replace(MIG, instance="MIG-2")], "GPU 0 1g.10gb #1"),
    ],
)
def test_a_gpu_has_a_name_that_tells_it_apart(gpu: UnitGpu, others: list[UnitGpu], label: str) -> None:
    assert gpu_label(gpu, [gpu, *others]) == label


def test_gpus_are_counted_by_what_a_person_asked_for() -> None:
    half = replace(GPU, device="GPU-1", place_ns=GPU.held_ns // 2)

    assert by_kind([GPU, replace(GPU, device="GPU-2"), half, MIG]) == {H100: 2.5, f"{H100} 1g.10gb": 1.0}


def test_busy_lines_are_shares_of_what_was_held_and_named_in_the_pages_order() -> None:
    labels = {"node": "n1", "gpu": "0"}
    drawn = chart("gpu", ("n1 0 MIG-1", {**labels, "mig": "MIG-1"}, [1 / 14, None]), ("n1 0", labels, [0.5, 0.5]))

    named = named_gpus(drawn, [GPU, MIG])

    assert [column.label for column in named.columns] == ["GPU 0", "GPU 0 1g.10gb"]
    busy, gap = named.columns[1].values
    assert busy == pytest.approx(0.5, abs=1e-6)
    assert gap is None


def test_a_line_above_what_was_held_is_not_cut_case_users_5() -> None:
    """Half of a device that ran on all of it; and one that is whole but for rounding."""
    half = replace(GPU, allocated_ns=GPU.held_ns // 2, place_ns=GPU.held_ns // 2)
    drawn = chart("gpu", ("n1 0", {"node": "n1", "gpu": "0"}, [1.0, 0.5 + 1e-9]))

    (line,) = named_gpus(drawn, [half]).columns

    assert line.values == (2.0, 1.0)


def test_the_longest_idle_comes_first_and_seconds_are_no_news_case_gpu_61() -> None:
    idle = replace(
        GPU, device="GPU-1", index=1, held_idle_ns=3 * HOUR_NS, held_idle_uj=3_240_000 * 10**6, idle_since=NOW
    )
    brief = replace(GPU, device="GPU-2", index=2, held_idle_ns=30 * 10**9)
    some = replace(GPU, device="GPU-3", index=3, held_idle_ns=HOUR_NS, held_idle_uj=None)

    found = held_idle([GPU, brief, some, idle])

    assert [(one.label, one.idle_seconds, one.wasted_joules, one.since) for one in found] == [
        ("GPU 1", 10_800.0, 3_240_000.0, NOW),
        ("GPU 3", 3600.0, None, None),
    ]


def test_throttling_is_told_in_words_and_shares() -> None:
    labels = {"node": "n1", "uuid": "GPU-0", "mig": ""}
    drawn = worded_causes(
        chart(
            "gpu_throttling",
            ("GPU 0 power", {**labels, "cause": "power"}, [0.2, 0.3]),
            ("GPU 0 hw_thermal", {**labels, "cause": "hw_thermal"}, [0.6, None]),
            ("GPU 1 power", {**labels, "cause": "power"}, [0.0, 0.0]),
        )
    )

    assert slowed_by(drawn) == [
        ("GPU 0", "heat (the chip's own protection)", 0.6),
        ("GPU 0", "its power cap", 0.25),
    ]
    assert slowed_by(None) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (cause_words("some_new_cause"), "some new cause"),
        (recovery_words(0.0), ""),
        (recovery_words(2.0), "needs a reboot of its node"),
        (recovery_words(9.0), "needs recovery action 9"),
        (down_words("lost"), "fell off the bus"),
        (down_words("odd_reason"), "odd reason"),
        (down_words(""), "no reason told"),
        (holder_words("pod_resources"), "the kubelet's pod-resources"),
        (holder_words("newer"), "newer"),
        (holder_words(""), "not said"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert text == words


@pytest.mark.parametrize(
    ("profile", "slices"), [("3g.40gb", 3), ("1c.3g.40gb", 1), ("1g.10gb+me", 1), ("7g.80gb", 7), ("cpx", 1), ("", 1)]
)
def test_slices_of_a_profile(profile: str, slices: int) -> None:
    assert slices_of(profile) == slices


class NodeSeries(SeriesList):
    """The newest samples of one node's GPUs."""

    def gpu(self, index: int, model: str = H100, up: float = 1, reason: str = "") -> None:
        self.say(index, "info", 1, model=model, vendor="nvidia", driver="550.54.15", pci="0000:07:00.0")
        labels = {"reason": reason} if reason else {}
        self.say(index, "up", up, ago=20, **labels)

    def say(self, index: int, name: str, value: float, *, ago: float = 20, **labels: str) -> None:
        whose = {"cluster": "local", "node": "n1", "gpu": str(index), "uuid": f"GPU-{index}"}
        self.add(f"kwhere_gpu_{name}", [(NOW.timestamp() - ago, value)], **{**whose, **labels})


def look(series: SeriesList | None, *holds: GpuHold) -> list[NodeGpu]:
    sources = Sources(account=FakeAccount(holds=holds), clock=FixedClock(), series=series)
    return node_gpus(sources, NodeRef("local", "n1"), Span(NOW - timedelta(hours=1), NOW))


def hold(job: str, gpu: UnitGpu) -> GpuHold:
    return GpuHold("slurm", job, f"{job}@1", None, "alice", gpu)


def test_a_node_without_gpus_has_none() -> None:
    assert look(NodeSeries()) == look(None) == []


def test_without_series_the_account_still_says_who_holds_what() -> None:
    (gpu,) = look(None, hold("1", GPU))

    assert (gpu.index, gpu.model, gpu.trouble, gpu.power_watts, gpu.is_held) == (
        "0",
        H100,
        "no store of series is set up",
        None,
        True,
    )


def test_a_gpu_as_it_stands() -> None:
    series = NodeSeries()
    series.gpu(0)
    for name, value in (("power_watts", 640), ("utilization_ratio", 0.97), ("temperature_celsius", 71)):
        series.say(0, name, value)
    series.say(0, "power_limit_watts", 700, kind="enforced")
    series.say(0, "power_limit_watts", 650, kind="default")
    series.say(0, "clock_event", 1, reason="power_cap")
    series.say(0, "clock_event", 1, reason="gpu_idle")
    series.say(0, "clock_event", 0, reason="hw_thermal")

    (gpu,) = look(series, hold("1", GPU))

    assert (gpu.power_watts, gpu.limit_watts, gpu.utilisation_ratio, gpu.temperature_celsius) == (640, 700, 0.97, 71)
    assert (gpu.trouble, gpu.slowed_by, gpu.memory_used_bytes) == ("", ["its power cap"], None)


def test_a_gpu_that_was_given_back_and_taken_again_is_up() -> None:
    series = NodeSeries()
    series.say(0, "up", 0, ago=120, reason="released")
    series.gpu(0)
    series.say(0, "power_watts", 640)

    (gpu,) = look(series)

    assert (gpu.is_up, gpu.trouble, gpu.power_watts) == (True, "", 640)


def test_nothing_old_is_shown_of_a_gpu_that_went_down() -> None:
    series = NodeSeries()
    series.say(0, "up", 1, ago=120)
    for name in ("power_watts", "utilization_ratio", "temperature_celsius", "memory_used_bytes"):
        series.say(0, name, 1, ago=120)
    series.say(0, "power_limit_watts", 700, ago=120, kind="enforced")
    series.say(0, "clock_event", 1, ago=120, reason="power_cap")
    series.gpu(0, up=0, reason="lost")

    (gpu,) = look(series)

    assert (gpu.is_up, gpu.trouble, gpu.slowed_by) == (False, "fell off the bus", [])
    assert (gpu.power_watts, gpu.limit_watts, gpu.utilisation_ratio, gpu.temperature_celsius) == (None,) * 4
    assert gpu.memory_used_bytes is None


def test_instances_of_a_layout_before_are_gone() -> None:
    series = NodeSeries()
    series.gpu(0)
    for mig, profile, ago in (("MIG-1", "7g.80gb", 120), ("MIG-2", "3g.40gb", 20)):
        series.say(0, "instance_info", 1, ago=ago, mig=mig, profile=profile, gpu_instance="1", compute_instance="0")

    (gpu,) = look(series)

    assert [one.profile for one in gpu.instances] == ["3g.40gb"]


def test_health_is_told_in_words() -> None:
    series = NodeSeries()
    series.gpu(7, up=0, reason="lost")
    series.say(7, "recovery_action", 1)
    series.say(7, "remapped_rows_failure", 1)
    series.say(7, "ecc_errors_total", 2, kind="uncorrected", period="volatile")
    series.say(7, "ecc_errors_total", 9, kind="corrected", period="volatile")
    series.say(7, "xid_errors_total", 3, xid="79")
    series.say(7, "xid_errors_total", 0, xid="31")
    series.say(7, "xid_last_timestamp_seconds", NOW.timestamp() - 60, xid="79")
    series.add(
        "kwhere_gpu_xid_info",
        [(NOW.timestamp() - 20, 1)],
        cluster="local",
        node="n1",
        xid="79",
        meaning="GPU has fallen off the bus",
    )

    (gpu,) = look(series)

    assert (gpu.is_up, gpu.trouble) == (False, "fell off the bus")
    assert gpu.faults == [
        "needs a GPU reset",
        "a bad memory row could not be replaced: the board is to be changed",
        "2 uncorrected memory errors since the driver was loaded",
    ]
    (xid,) = gpu.xids
    assert (xid.number, xid.meaning, xid.count) == ("79", "GPU has fallen off the bus", 3)
    assert xid.last_at == datetime.fromtimestamp(NOW.timestamp() - 60, UTC)


def _divided() -> tuple[NodeSeries, tuple[GpuHold, ...]]:
    series = NodeSeries()
    series.gpu(4)
    for number, (mig, profile) in enumerate((("MIG-3", "3g.40gb"), ("MIG-2", "2g.20gb"), ("MIG-1", "1g.10gb")), 1):
        more: dict[str, Any] = {"gpu_instance": str(number), "compute_instance": "0"}
        series.say(4, "instance_info", 1, mig=mig, profile=profile, **more)
    on = replace(GPU, device="GPU-4", index=4)
    idle = replace(on, instance="MIG-2", profile="2g.20gb", idle_since=NOW)
    return series, (hold("1", replace(on, instance="MIG-3", profile="3g.40gb")), hold("2", idle))


def test_a_divided_gpu_says_which_slices_are_held_idle_and_free() -> None:
    series, holds = _divided()

    (gpu,) = look(series, *holds)

    assert [(one.profile, one.slices, len(one.holds), one.is_idle) for one in gpu.instances] == [
        ("3g.40gb", 3, 1, False),
        ("2g.20gb", 2, 1, True),
        ("1g.10gb", 1, 0, False),
    ]
    assert (gpu.slices, gpu.free_slices, gpu.is_held, gpu.holds) == (7, 1, True, [])


def test_gpus_are_counted_by_state_and_divided_ones_by_instance() -> None:
    series, holds = _divided()
    for index in (0, 1, 10):
        series.gpu(index)
    series.gpu(2, up=0, reason="timeout")
    idle = replace(GPU, device="GPU-1", index=1, idle_since=NOW)

    gpus = look(series, *holds, hold("3", GPU), hold("4", idle))
    counts = count_gpus(gpus)

    assert [gpu.index for gpu in gpus] == ["0", "1", "2", "4", "10"]
    assert (counts.present, counts.down, counts.held, counts.idle, counts.free) == (5, 1, 2, 1, 1)
    assert counts.instances == {"held": 2, "idle": 1, "free": 1}
