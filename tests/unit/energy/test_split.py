"""Who gets what: the design's worked case, handed cases of attribution, and the properties every version keeps."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.terms import IdlePolicy
from kwhere.energy.split import DomainSplit, Held, Use, idle_energy, share_dynamic, split_domain

SECOND = 1_000_000_000
WATT = 1_000_000
POLICIES = list(IdlePolicy)


@dataclass(frozen=True)
class Domain:
    """An arbitrary domain and its units over one span."""

    dynamic_uj: int
    idle_uj: int
    weights: list[int]
    system: int
    amounts: list[int]
    capacity: int
    lived: list[int]

    def split(self, policy: IdlePolicy) -> DomainSplit:
        use = Use(self.weights, self.system)
        return split_domain(self.dynamic_uj, self.idle_uj, use, Held(self.amounts, self.capacity, self.lived), policy)


@st.composite
def domains(draw: st.DrawFn, min_units: int = 0) -> Domain:
    units = draw(st.integers(min_units, 12))

    def numbers(largest: int) -> list[int]:
        return draw(st.lists(st.integers(0, largest), min_size=units, max_size=units))

    return Domain(
        dynamic_uj=draw(st.integers(0, 10**12)),
        idle_uj=draw(st.integers(0, 10**12)),
        weights=numbers(10**11),
        system=draw(st.integers(0, 10**11)),
        amounts=numbers(64_000 * SECOND),
        capacity=draw(st.integers(0, 256_000 * SECOND)),
        lived=numbers(SECOND),
    )


def total(split: DomainSplit) -> int:
    return sum(split.dynamic) + sum(split.idle) + split.system_dynamic + split.system_idle + split.unallocated


def test_worked_case_of_the_design() -> None:
    """10 CPUs, 100 W idle, 180 W now; A: 8 CPUs allocated and busy; B: 2 allocated, idle."""
    idle_uj = idle_energy(180 * WATT, 100 * WATT, SECOND)
    use = Use([8 * SECOND, 0], system=0)
    held = Held([8_000 * SECOND, 2_000 * SECOND], 10_000 * SECOND, [SECOND, SECOND])

    split = split_domain(180 * WATT - idle_uj, idle_uj, use, held)

    assert split == DomainSplit(
        dynamic=[80 * WATT, 0],
        idle=[80 * WATT, 20 * WATT],
        system_dynamic=0,
        system_idle=0,
        unallocated=0,
        overcommitted=False,
    )


@pytest.mark.parametrize(
    ("energy_w", "idle_w", "span_s", "expected_w"),
    [(180, 100, 1, 100), (80, 100, 1, 80), (0, 100, 1, 0), (2_000, 100, 10, 1_000)],
)
def test_idle_energy_is_never_more_than_there_is(energy_w: int, idle_w: int, span_s: int, expected_w: int) -> None:
    assert idle_energy(energy_w * WATT, idle_w * WATT, span_s * SECOND) == expected_w * WATT


def test_a_busy_unit_never_gets_more_than_the_node_rose_case_energy_a1() -> None:
    """The package rose from 18.0 to 29.2 W, 18.0 of it idle; the only busy VM gets the 11.2 W, no more."""
    idle_uj = idle_energy(29_200_000, 18_000_000, SECOND)
    vm, bystander = 3 * SECOND, 0

    split = split_domain(
        29_200_000 - idle_uj, idle_uj, Use([vm, bystander], 0), Held([0, 0], 4_000 * SECOND, [SECOND] * 2)
    )

    assert split.dynamic == [11_200_000, 0]
    assert split.idle == [0, 0]
    assert split.unallocated == 18_000_000


def test_four_ranks_of_one_job_share_their_node_once_case_energy_a10() -> None:
    ranks = [SECOND, SECOND, SECOND, SECOND]
    held = Held([4_000 * SECOND], 4_000 * SECOND, [SECOND])

    job = split_domain(60 * WATT, 20 * WATT, Use([sum(ranks)], 0), held)
    apart = split_domain(60 * WATT, 20 * WATT, Use(ranks, 0), Held([1_000 * SECOND] * 4, 4_000 * SECOND, ranks))

    assert job.dynamic[0] + job.idle[0] == 80 * WATT
    assert sum(apart.dynamic) + sum(apart.idle) == 80 * WATT


def test_an_idle_socket_has_no_dynamic_energy_because_the_other_is_busy_case_energy_a4() -> None:
    held = Held([0], 32_000 * SECOND, [SECOND])
    socket_0 = split_domain(0, idle_energy(40 * WATT, 40 * WATT, SECOND), Use([0], 0), held)
    socket_1 = split_domain(110 * WATT, 40 * WATT, Use([16 * SECOND], 0), held)

    assert (socket_0.dynamic, socket_0.unallocated) == ([0], 40 * WATT)
    assert socket_1.dynamic == [110 * WATT]


def test_a_watt_over_300_idle_processes_stays_one_watt_case_energy_a5() -> None:
    split = split_domain(0, WATT, Use([0] * 300, 0), Held([0] * 300, 1, [SECOND] * 300), IdlePolicy.EQUAL)

    assert sum(split.idle) == WATT
    assert set(split.idle) == {3333, 3334}


def test_a_unit_without_memory_keeps_its_other_terms_case_energy_a18() -> None:
    use = Use([SECOND, SECOND], 0)
    cpu = split_domain(20 * WATT, 0, use, Held([1, 1], 2, [SECOND] * 2))
    dram = split_domain(4 * WATT, 6 * WATT, use, Held([0, 1 << 30], 2 << 30, [SECOND] * 2))

    assert cpu.dynamic == [10 * WATT, 10 * WATT]
    assert dram.dynamic == [2 * WATT, 2 * WATT]
    assert dram.idle == [0, 3 * WATT]


def test_overcommitted_holdings_are_scaled_alike_and_flagged() -> None:
    split = split_domain(0, 90 * WATT, Use([0, 0], 0), Held([2_000, 1_000], 1_500, [SECOND] * 2))

    assert split.idle == [60 * WATT, 30 * WATT]
    assert (split.unallocated, split.overcommitted) == (0, True)


def test_a_full_node_is_not_overcommitted() -> None:
    split = split_domain(0, 90 * WATT, Use([0, 0], 0), Held([1_000, 500], 1_500, [SECOND] * 2))

    assert (split.unallocated, split.overcommitted) == (0, False)


@pytest.mark.parametrize(
    ("policy", "idle", "system", "unallocated"),
    [
        (IdlePolicy.ALLOCATION, [30, 0], 0, 70),
        (IdlePolicy.USAGE, [20, 60], 20, 0),
        (IdlePolicy.EQUAL, [50, 50], 0, 0),
        (IdlePolicy.NONE, [0, 0], 0, 100),
    ],
)
def test_idle_policies(policy: IdlePolicy, idle: list[int], system: int, unallocated: int) -> None:
    split = split_domain(0, 100, Use([1, 3], 1), Held([3, 0], 10, [SECOND, SECOND]), policy)

    assert (split.idle, split.system_idle, split.unallocated) == (idle, system, unallocated)


@pytest.mark.parametrize(
    ("policy", "system", "unallocated"),
    [
        (IdlePolicy.ALLOCATION, 0, 100),
        (IdlePolicy.USAGE, 100, 0),
        (IdlePolicy.EQUAL, 0, 100),
        (IdlePolicy.NONE, 0, 100),
    ],
)
def test_a_node_without_units_is_closed_too(policy: IdlePolicy, system: int, unallocated: int) -> None:
    split = split_domain(7, 100, Use([], 0), Held([], 0, []), policy)

    assert (split.system_dynamic, split.system_idle, split.unallocated) == (7, system, unallocated)


def test_policy_equal_counts_the_time_lived() -> None:
    split = split_domain(0, 100, Use([0, 0], 0), Held([0, 0], 1, [SECOND, SECOND // 4]), IdlePolicy.EQUAL)

    assert split.idle == [80, 20]


@given(domains(), st.sampled_from(POLICIES))
def test_shares_sum_to_the_domain_and_none_is_negative_case_energy_a2(domain: Domain, policy: IdlePolicy) -> None:
    split = domain.split(policy)

    assert total(split) == domain.dynamic_uj + domain.idle_uj
    assert sum(split.dynamic) + split.system_dynamic == domain.dynamic_uj
    assert min([*split.dynamic, *split.idle, split.system_dynamic, split.system_idle, split.unallocated]) >= 0


@given(domains(min_units=1))
def test_a_unit_without_work_or_allocation_gets_nothing(domain: Domain) -> None:
    domain.weights[0] = 0
    domain.amounts[0] = 0

    split = domain.split(IdlePolicy.ALLOCATION)

    assert (split.dynamic[0], split.idle[0]) == (0, 0)


@given(domains(min_units=1), st.sampled_from(POLICIES), st.data())
def test_renaming_and_reordering_change_at_most_a_tie(domain: Domain, policy: IdlePolicy, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(domain.weights))))
    turned = Domain(
        domain.dynamic_uj,
        domain.idle_uj,
        [domain.weights[i] for i in order],
        domain.system,
        [domain.amounts[i] for i in order],
        domain.capacity,
        [domain.lived[i] for i in order],
    )

    plain, after = domain.split(policy), turned.split(policy)

    for place, index in enumerate(order):
        assert abs(after.dynamic[place] - plain.dynamic[index]) <= 1
        assert abs(after.idle[place] - plain.idle[index]) <= 1


@given(domains(min_units=1), st.data())
def test_a_unit_split_in_two_keeps_its_energy_to_a_microjoule_per_piece(domain: Domain, data: st.DataObject) -> None:
    work = data.draw(st.integers(0, domain.weights[0]))
    held = data.draw(st.integers(0, domain.amounts[0]))
    halves = Domain(
        domain.dynamic_uj,
        domain.idle_uj,
        [work, domain.weights[0] - work, *domain.weights[1:]],
        domain.system,
        [held, domain.amounts[0] - held, *domain.amounts[1:]],
        domain.capacity,
        [domain.lived[0], *domain.lived],
    )

    whole, split = domain.split(IdlePolicy.ALLOCATION), halves.split(IdlePolicy.ALLOCATION)

    assert abs(sum(split.dynamic[:2]) - whole.dynamic[0]) <= 2
    assert abs(sum(split.idle[:2]) - whole.idle[0]) <= 2


@given(st.integers(1, 10**12), st.lists(st.integers(1, 10**9), min_size=1, max_size=10))
def test_equal_units_get_equal_energy(dynamic_uj: int, others: list[int]) -> None:
    units, _ = share_dynamic(dynamic_uj, Use([others[0], *others], 0))

    assert abs(units[0] - units[1]) <= 1
