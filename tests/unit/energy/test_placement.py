import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.placement import CpuUse, Holding, Placed, Topology, place_allocation, place_cpu_time

TWO_SOCKETS = Topology({cpu: str(cpu // 4) for cpu in range(8)})
SOCKET_0, SOCKET_1 = frozenset(range(4)), frozenset(range(4, 8))


def test_topology_knows_labels_not_indices_case_energy_r9() -> None:
    topology = Topology({0: "15"})

    assert topology.sockets == ("15",)
    assert topology.index("15") == 0
    assert Topology({0: "10", 1: "9", 2: "9"}).sockets == ("9", "10")
    assert Topology({0: "10", 1: "9", 2: "9"}).cpus_by_socket == (2, 1)


def test_one_socket_takes_all() -> None:
    one = Topology({0: "0", 1: "0"})

    assert place_cpu_time(one, [CpuUse(30), CpuUse(50)], [100], [0]) == Placed([[30, 50]], [20], [0])


def test_a_pinned_unit_uses_its_socket_and_nothing_of_the_other() -> None:
    placed = place_cpu_time(TWO_SOCKETS, [CpuUse(80, SOCKET_1)], [10, 100], [0, 0])

    assert placed == Placed([[0], [80]], [10, 20], [0, 0])


def test_unpinned_units_go_where_the_pinned_ones_left_room() -> None:
    units = [CpuUse(60, SOCKET_1), CpuUse(40)]

    placed = place_cpu_time(TWO_SOCKETS, units, [90, 90], [0, 0])

    # 90 and 30 are left: 40 is split 30 to 10
    assert placed == Placed([[0, 30], [60, 10]], [60, 20], [0, 0])


def test_usage_by_cpu_is_believed_over_the_cpuset_of_both_sockets() -> None:
    use = CpuUse(100, SOCKET_0 | SOCKET_1, per_cpu_ns=(0, 0, 0, 0, 30, 20, 0, 0))

    placed = place_cpu_time(TWO_SOCKETS, [use], [100, 100], [0, 0])

    assert placed.units == [[0], [100]]


def test_usage_by_cpu_that_is_all_zero_says_nothing() -> None:
    placed = place_cpu_time(TWO_SOCKETS, [CpuUse(40, None, (0,) * 8)], [30, 10], [0, 0])

    assert placed.units == [[30], [10]]


def test_where_nothing_is_left_cpus_decide() -> None:
    placed = place_cpu_time(TWO_SOCKETS, [CpuUse(30, frozenset({0, 4, 5}))], [0, 0], [0, 0])

    assert placed.units == [[10], [20]]
    assert placed.carry == [-10, -20]


def test_a_cpuset_without_an_online_cpu_is_no_cpuset() -> None:
    assert place_cpu_time(TWO_SOCKETS, [CpuUse(8, frozenset({99}))], [4, 4], [0, 0]).units == [[4], [4]]


def test_a_negative_rest_is_owed_by_the_next_step_of_that_socket() -> None:
    first = place_cpu_time(TWO_SOCKETS, [CpuUse(103, SOCKET_0)], [100, 50], [0, 0])
    second = place_cpu_time(TWO_SOCKETS, [CpuUse(90, SOCKET_0)], [100, 50], first.carry)

    assert (first.system, first.carry) == ([0, 50], [-3, 0])
    assert (second.system, second.carry) == ([7, 50], [0, 0])


def test_no_units_leave_all_to_the_system() -> None:
    assert place_cpu_time(TWO_SOCKETS, [], [5, 6], [0, 0]) == Placed([[], []], [5, 6], [0, 0])
    assert place_allocation(TWO_SOCKETS, [], [5, 6]) == [[], []]


def test_allocations_are_placed_like_busy_time() -> None:
    holdings = [Holding(2_000, SOCKET_0), Holding(3_000), Holding(0)]

    placed = place_allocation(TWO_SOCKETS, holdings, [4_000, 4_000])

    # 2000 and 4000 are left: 3000 is split 1000 to 2000
    assert placed == [[2_000, 1_000, 0], [0, 2_000, 0]]


def test_the_cache_of_cpusets_stays_bounded() -> None:
    topology = Topology({cpu: str(cpu % 2) for cpu in range(64)})

    for number in range(5_000):
        cpuset = frozenset(cpu for cpu in range(64) if number >> (cpu % 13) & 1)
        assert topology.reach(cpuset)


@pytest.mark.parametrize("system_cpu", [CpuUse(0), CpuUse(0, SOCKET_0)])
def test_a_unit_that_did_nothing_is_nowhere(system_cpu: CpuUse) -> None:
    assert place_cpu_time(TWO_SOCKETS, [system_cpu], [4, 4], [0, 0]).units == [[0], [0]]


cpusets = st.one_of(st.none(), st.frozensets(st.integers(0, 9), max_size=8))
uses = st.builds(
    CpuUse,
    st.integers(0, 10**10),
    cpusets,
    st.one_of(st.none(), st.tuples(*[st.integers(0, 10**9)] * 8)),
)


@given(
    st.lists(uses, max_size=12), st.tuples(*[st.integers(0, 10**10)] * 2), st.tuples(*[st.integers(-(10**6), 0)] * 2)
)
def test_placing_loses_no_cpu_time(units: list[CpuUse], busy: tuple[int, int], carry: tuple[int, int]) -> None:
    placed = place_cpu_time(TWO_SOCKETS, units, busy, carry)

    for position, use in enumerate(units):
        pieces = [row[position] for row in placed.units]
        assert sum(pieces) == use.total_ns
        assert min(pieces) >= 0
    given_out = sum(map(sum, placed.units)) + sum(placed.system) + sum(placed.carry)
    assert given_out == sum(busy) + sum(carry)


@given(st.lists(st.builds(Holding, st.integers(0, 10**15), cpusets), max_size=12), st.integers(0, 10**15))
def test_placing_keeps_every_holding_whole(holdings: list[Holding], capacity: int) -> None:
    placed = place_allocation(TWO_SOCKETS, holdings, [capacity, capacity])

    assert [sum(row[i] for row in placed) for i in range(len(holdings))] == [held.amount for held in holdings]
