"""Windows, rates and energy over time, on clocks of the test's own."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.dcgm.hand_made import SECOND, Values, device, samples, snapshot

from kwhere.dcgm.device_choice import DeviceChoice
from kwhere.dcgm.entities import entities
from kwhere.dcgm.health import Health, judge
from kwhere.dcgm.watching import Watcher, Windows
from kwhere.devices.gpu import DeviceState, LinkReadings, Readings, XidCount
from kwhere.devices.gpu_fields import Absence, GpuField


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1000 * SECOND

    def __call__(self) -> int:
        return self.now_ns


def healths(state: DeviceState, watcher: Watcher) -> list[Health]:
    [entity] = entities(snapshot(state), DeviceChoice(), watcher.rates)
    return list(judge(entity, watcher))


def test_clock_events_are_samples_of_the_window() -> None:
    clock = Clock()
    watcher = Watcher(Windows(clock_events_ns=60 * SECOND, sample_ns=30 * SECOND), clock)
    for mask in (0x4, 0xFF, 0x44, 0x1):  # each 15 s: the second and the fourth fall between two samples
        watcher.observe(snapshot(device(0, {GpuField.CLOCK_EVENT_REASONS: mask})))
        clock.now_ns += 15 * SECOND

    assert watcher.clock_events("GPU-0") == {"power_cap": 2, "hw_thermal": 1}


def test_clock_events_leave_the_window() -> None:
    clock = Clock()
    watcher = Watcher(Windows(clock_events_ns=60 * SECOND, sample_ns=SECOND), clock)
    watcher.observe(snapshot(device(0, {GpuField.CLOCK_EVENT_REASONS: 0x4})))
    clock.now_ns += 61 * SECOND
    found = snapshot(device(0, {GpuField.CLOCK_EVENT_REASONS: 0}))
    watcher.observe(found)

    [line] = samples(found, "DCGM_EXP_CLOCK_EVENTS_COUNT, counter", watcher=watcher)

    assert line.endswith('window_size_in_ms="300000"} 0')


def test_clock_events_that_were_never_read_have_no_series() -> None:
    watcher = Watcher()
    found = snapshot(device(0))
    watcher.observe(found)

    assert samples(found, "DCGM_EXP_CLOCK_EVENTS_COUNT, counter", watcher=watcher) == []


@pytest.mark.parametrize("counters", [(100, 50), (100, None)])
def test_a_link_counter_that_falls_or_goes_has_no_rate(counters: tuple[int, int | None]) -> None:
    watcher = Watcher()
    for second, value in enumerate(counters, 1):
        values: Values = {} if value is None else {GpuField.NVLINK_TX_BYTES: value}
        watcher.observe(snapshot(device(0, values, medium_ns=second * SECOND)))

    assert watcher.rates("GPU-0") == {}


def test_each_link_has_its_rate() -> None:
    watcher = Watcher()
    for second, value in ((1, 0), (3, 4_000)):
        link = LinkReadings(5, True, {GpuField.NVLINK_TX_BYTES: value})
        watcher.observe(snapshot(device(0, links=[link], medium_ns=second * SECOND)))

    assert watcher.rates("GPU-0") == {(GpuField.NVLINK_TX_BYTES, 5): 2000.0}


STEPS = st.lists(
    st.tuples(st.integers(0, 10**9), st.dictionaries(st.sampled_from("abc"), st.integers(1, 9))), max_size=9
)


def shares_of(parts: Mapping[str, int]) -> Mapping[str, float]:
    total = sum(parts.values())
    return {pod: parts.get(pod, 0) / total if total else float(pod == "a") for pod in "abc"}


@given(STEPS)
def test_energy_of_pods_sums_to_the_devices(steps: list[tuple[int, dict[str, int]]]) -> None:
    watcher, total = Watcher(), 0
    watcher.observe(snapshot(device(0, {GpuField.ENERGY_UJ: 0})), lambda _: shares_of({}))
    for grown, parts in steps:
        total += grown
        shares = shares_of(parts)
        watcher.observe(snapshot(device(0, {GpuField.ENERGY_UJ: total})), lambda _, now=shares: now)  # type: ignore[misc]

    found = sum(watcher.pod_energy_mj("GPU-0", pod) or 0 for pod in "abc")

    assert abs(found - total // 1000) <= 3


def test_health_of_a_well_gpu_leaves_out_what_nobody_looked_at() -> None:
    state = device(0, {GpuField.POWER_UW: 1, GpuField.CLOCK_EVENT_REASONS: 0, GpuField.ECC_DBE_VOLATILE: 0})

    assert healths(state, Watcher()) == [Health("MEM"), Health("THERMAL"), Health("POWER"), Health("DRIVER")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({GpuField.ECC_DBE_VOLATILE: 1}, Health("MEM", 20, "DCGM_FR_VOLATILE_DBE_DETECTED")),
        ({GpuField.REMAPPED_FAILURE: 1}, Health("MEM", 20, "DCGM_FR_ROW_REMAP_FAILURE")),
        ({GpuField.REMAPPED_PENDING: 1}, Health("MEM", 10, "DCGM_FR_PENDING_ROW_REMAP")),
        ({GpuField.RETIRED_PENDING: 1}, Health("MEM", 10, "DCGM_FR_PENDING_PAGE_RETIREMENTS")),
        ({GpuField.RETIRED_SBE: 40, GpuField.RETIRED_DBE: 20}, Health("MEM", 20, "DCGM_FR_RETIRED_PAGES_LIMIT")),
        ({GpuField.CLOCK_EVENT_REASONS: 0x40}, Health("THERMAL", 10, "DCGM_FR_CLOCK_THROTTLE_THERMAL")),
        (
            {GpuField.POWER_UW: 1, GpuField.CLOCK_EVENT_REASONS: 0x80},
            Health("POWER", 10, "DCGM_FR_CLOCK_THROTTLE_POWER"),
        ),
    ],
)
def test_health_by_what_was_read(values: Values, expected: Health) -> None:
    assert expected in healths(device(0, values), Watcher())


def test_health_of_power_that_fails_and_of_power_that_is_not_there() -> None:
    failing = device(0).__class__(
        device(0).device, up=True, readings=Readings(1, {}, {GpuField.POWER_UW: Absence.ERROR})
    )

    assert Health("POWER", 10, "DCGM_FR_POWER_UNREADABLE") in healths(failing, Watcher())
    assert [one.watch for one in healths(device(0), Watcher())] == ["DRIVER"]


def test_health_of_a_lost_gpu_is_the_drivers() -> None:
    assert healths(device(0, up=False), Watcher()) == [Health("DRIVER", 20, "DCGM_FR_NVML_API")]


@pytest.mark.parametrize(("seen_up", "value"), [(True, 20), (False, 0)])
def test_a_link_that_never_was_up_is_no_fault(seen_up: bool, value: int) -> None:
    watcher = Watcher()
    watcher.observe(snapshot(device(0, links=[LinkReadings(0, seen_up)])))
    state = device(0, links=[LinkReadings(0, False)])
    watcher.observe(snapshot(state))

    assert next(one.value for one in healths(state, watcher) if one.watch == "NVLINK") == value


def test_replays_of_a_minute() -> None:
    watcher = Watcher()
    for second, replays in ((0, 0), (30, 5), (70, 12)):
        watcher.observe(snapshot(device(0, {GpuField.PCIE_REPLAYS: replays}, medium_ns=second * SECOND + 1)))

    assert watcher.replays("GPU-0") == 7


@pytest.mark.parametrize(("age_seconds", "counted"), [(10, {79: 1}), (301, {})])
def test_xids_before_the_first_look_count_by_when_they_came(age_seconds: int, counted: dict[int, int]) -> None:
    watcher = Watcher(clock_ns=lambda: 10_000 * SECOND, utc_ns=lambda: 5_000 * SECOND)

    watcher.observe(snapshot(device(0, xids=[XidCount(79, 7, (5_000 - age_seconds) * SECOND)])))

    assert watcher.xid_counts("GPU-0", None) == counted
