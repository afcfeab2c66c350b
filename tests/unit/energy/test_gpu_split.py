"""A8: whole, shared and divided GPUs; the sum is always the device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.gpu_split import (
    PARTS,
    GpuHolder,
    MigInstance,
    SharedInstance,
    active_use,
    device_holding,
    device_use,
    divided_holding,
    divided_use,
    mig_holding,
    mig_use,
)
from kwhere.energy.split import split_domain

SECOND = 1_000_000_000
WATT = 1_000_000


def shared(share: int, **more: bool | int | None) -> GpuHolder:
    return GpuHolder(share, exclusive=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("holders", "strangers", "units", "system"),
    [
        pytest.param([], 0, [], 1, id="nobody holds it"),
        pytest.param([GpuHolder()], 900, [1], 0, id="the holder has it all, whatever runs there"),
        pytest.param([GpuHolder(live=False), GpuHolder()], 0, [0, 1], 0, id="two claims: the live pod"),
        pytest.param([GpuHolder(), GpuHolder()], 0, [1, 1], 0, id="two live claims: equal"),
        pytest.param([GpuHolder(live=False)] * 2, 0, [1, 1], 0, id="two dead claims: equal"),
        pytest.param(
            [shared(500, sm_utilisation=600), shared(500, sm_utilisation=200)], 0, [600, 200], 0, id="by utilisation"
        ),
        pytest.param([shared(500, sm_utilisation=600), shared(500)], 100, [600, 0], 100, id="strangers to system"),
        pytest.param([shared(250), shared(500, has_process=True)], 0, [0, 500], 0, id="shares with a process"),
        pytest.param([shared(250), shared(500)], 0, [250, 500], 0, id="shares held"),
    ],
)
def test_dynamic_weights_of_a_device(
    holders: list[GpuHolder], strangers: int, units: list[int], system: int
) -> None:  # case_energy_a8
    use = device_use(holders, strangers)

    assert (list(use.weights), use.system) == (units, system)


def test_idle_of_a_shared_device_goes_by_shares_held_case_energy_a8() -> None:
    holders = [shared(250), shared(500)]

    split = split_domain(0, 80 * WATT, device_use(holders), device_holding(holders, SECOND))

    assert split.idle == [20 * WATT, 40 * WATT]
    assert split.unallocated == 20 * WATT


def test_idle_of_a_device_with_three_exclusive_claims_leaves_nothing_over() -> None:
    holders = [GpuHolder()] * 3

    split = split_domain(0, 90 * WATT, device_use(holders), device_holding(holders, SECOND))

    assert (split.idle, split.unallocated, split.overcommitted) == ([30 * WATT] * 3, 0, False)


@pytest.mark.parametrize(
    ("instances", "units", "system"),
    [
        pytest.param([MigInstance(3, 0, 500), MigInstance(2, 1, 1000)], [1500, 2000], 0, id="slices x activity"),
        pytest.param([MigInstance(3, 0, None, True), MigInstance(2, 1)], [3000, 0], 0, id="a process is activity"),
        pytest.param([MigInstance(3, 0, 0), MigInstance(2, 1, 0)], [3, 2], 0, id="all idle: slices"),
        pytest.param([MigInstance(3, 0, 4000)], [3000, 0], 0, id="at most full activity"),
        pytest.param([MigInstance(3, None, 1000), MigInstance(2, 0, 1000)], [2000, 0], 3000, id="nobody's instance"),
        pytest.param([MigInstance(1, 0, 1000), MigInstance(1, 0, 500)], [1500, 0], 0, id="two instances of one unit"),
    ],
)
def test_dynamic_weights_of_mig_case_energy_a8(instances: list[MigInstance], units: list[int], system: int) -> None:
    use = mig_use(instances, 2)

    assert (list(use.weights), use.system) == (units, system)


def test_idle_of_mig_goes_by_slices_of_seven_case_energy_a8() -> None:
    instances = [MigInstance(3, 0, 0), MigInstance(2, 1, 0)]

    split = split_domain(0, 70 * WATT, mig_use(instances, 2), mig_holding(instances, 2, 7, SECOND))

    assert (split.idle, split.unallocated) == ([30 * WATT, 20 * WATT], 20 * WATT)


holders_of = st.lists(
    st.builds(
        GpuHolder,
        st.integers(0, 1000),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, 1000)),
    ),
    max_size=6,
)


@given(st.integers(0, 10**10), st.integers(0, 10**10), holders_of, st.integers(0, 1000))
def test_shares_of_a_device_sum_to_the_device(
    dynamic_uj: int, idle_uj: int, holders: list[GpuHolder], strangers: int
) -> None:
    split = split_domain(dynamic_uj, idle_uj, device_use(holders, strangers), device_holding(holders, SECOND))

    assert sum(split.dynamic) + split.system_dynamic == dynamic_uj
    assert sum(split.idle) + split.system_idle + split.unallocated == idle_uj


instances_of = st.lists(
    st.builds(
        MigInstance,
        st.integers(1, 7),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(0, 1000)),
        st.booleans(),
    ),
    max_size=7,
)


@given(st.integers(0, 10**10), st.integers(0, 10**10), instances_of)
def test_shares_of_mig_sum_to_the_device(dynamic_uj: int, idle_uj: int, instances: list[MigInstance]) -> None:
    split = split_domain(dynamic_uj, idle_uj, mig_use(instances, 3), mig_holding(instances, 3, 7, SECOND))

    assert sum(split.dynamic) + split.system_dynamic == dynamic_uj
    assert sum(split.idle) + split.system_idle + split.unallocated == idle_uj


@pytest.mark.parametrize(
    ("holders", "strangers", "units", "system"),
    [
        pytest.param([], 0, [], PARTS, id="nobody: all of it is the system's"),
        pytest.param([GpuHolder()], 900, [PARTS], 0, id="one holder: all"),
        pytest.param([GpuHolder(), GpuHolder()], 0, [PARTS // 2, PARTS // 2], 0, id="two: a half each"),
        pytest.param(
            [shared(500, sm_utilisation=600), shared(500)],
            100,
            [PARTS * 6 // 10, 0],
            PARTS // 10,
            id="as much as it ran",
        ),
    ],
)
def test_weights_of_every_kind_of_sharing_are_parts_of_one_device(
    holders: list[GpuHolder], strangers: int, units: list[int], system: int
) -> None:
    use = active_use(holders, strangers)

    assert (list(use.weights), use.system) == (units, system)


def test_a_shared_instance_is_a_device_of_its_own_case_energy_a8() -> None:
    instances = [
        SharedInstance(3, [shared(500), shared(250)], [0, 1], activity=1000),
        SharedInstance(2, [GpuHolder()], [1], activity=500),
        SharedInstance(1, has_process=True),
    ]

    use = divided_use(instances, 2, 7)
    held = divided_holding(instances, 2, 7, SECOND)
    split = split_domain(0, 700 * WATT, use, held)

    assert list(use.weights) == [PARTS * 2 // 7, PARTS // 7 + PARTS // 7]
    assert use.system == PARTS // 7
    assert split.idle == [150 * WATT, 275 * WATT]
    assert split.unallocated == 275 * WATT


HOLDERS = st.lists(
    st.builds(
        GpuHolder,
        st.integers(0, 1000),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, 1000)),
    ),
    max_size=4,
)


@given(
    st.lists(
        st.tuples(st.integers(1, 4), HOLDERS, st.one_of(st.none(), st.integers(0, 1500)), st.booleans()), max_size=5
    )
)
def test_whoever_shares_instances_no_weight_is_negative_and_none_exceeds_the_device(
    drawn: list[tuple[int, list[GpuHolder], int | None, bool]],
) -> None:
    total = max(7, sum(slices for slices, *_ in drawn))
    instances = [
        SharedInstance(slices, holders, range(len(holders)), activity, has_process)
        for slices, holders, activity, has_process in drawn
    ]

    use = divided_use(instances, 4, total)
    held = divided_holding(instances, 4, total, SECOND)

    assert min([*use.weights, use.system]) >= 0
    assert sum(use.weights) + use.system <= PARTS
    assert 0 <= sum(held.amounts) <= held.capacity
