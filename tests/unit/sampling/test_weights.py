"""Weights of spans that follow one another, with units that come and go."""

from kwhere.core.unit import UnitKey
from kwhere.sampling.weights import SpanWeights, Weights, merge

A, B, C = (UnitKey("slurm", name, f"{name}@1") for name in "abc")


def weights(keys: tuple[UnitKey, ...], used: list[int], span_ns: int = 10) -> Weights:
    return Weights(
        keys=keys,
        span_ns=span_ns,
        used_ns=[used, [0] * len(keys)],
        system_ns=[1, 2],
        cpus_held=[[2 * u for u in used], [3] * len(keys)],
        cpu_capacity=[100, 200],
        memory_held=[[5] * len(keys), [6] * len(keys)],
        memory_capacity=[1000, 1000],
        lived_ns=[span_ns] * len(keys),
    )


def test_spans_of_the_same_units_add_up() -> None:
    found = merge(weights((A, B), [1, 2]), weights((A, B), [10, 20], 5))

    assert (found.keys, found.span_ns, found.lived_ns) == ((A, B), 15, [15, 15])
    assert found.used_ns == [[11, 22], [0, 0]]
    assert (found.system_ns, found.cpu_capacity, found.memory_capacity) == ([2, 4], [200, 400], [2000, 2000])


def test_a_unit_missing_in_one_span_counts_there_as_nothing() -> None:
    found = merge(weights((A, B), [1, 2]), weights((B, C), [10, 20]))

    assert found.keys == (A, B, C)
    assert found.used_ns[0] == [1, 12, 20]
    assert found.cpus_held[1] == [3, 6, 3]
    assert found.lived_ns == [10, 20, 10]


def test_one_step_is_shared_and_not_copied() -> None:
    span = SpanWeights()
    step = weights((A,), [1])

    span.add(step)

    assert span.take() is step
    assert span.take() is None


def test_a_whole_node_is_the_sum_of_its_sockets() -> None:
    found = weights((A, B), [1, 2]).over_all_sockets()

    assert found.used_ns == [[1, 2]]
    assert found.cpus_held == [[5, 7]]
    assert (found.system_ns, found.cpu_capacity) == ([3], [300])
    assert found.over_all_sockets() is found
