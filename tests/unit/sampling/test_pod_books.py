"""A pod split over its containers: nothing is lost, nothing falls, nothing is charged twice."""

from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.terms import Component, Part
from kwhere.sampling.pod_books import SPLIT, ContainerReading, PodBook

CPU, DRAM = SPLIT
IDLE = (Component.CPU, Part.IDLE)
GPU = (Component.GPU, Part.DYNAMIC)
SECOND = 1_000_000_000


def reading(**seconds: float) -> dict[str, ContainerReading]:
    """Return containers by id; `a_1` is one of the name a, `x` has none."""
    return {
        identifier: ContainerReading(identifier.split("_")[0] if "_" in identifier else None, int(used * SECOND))
        for identifier, used in seconds.items()
    }


def test_energy_follows_cpu_time_and_the_rest_is_what_is_left() -> None:
    book = PodBook()
    book.take({CPU: 1000, IDLE: 500, GPU: 70}, 10 * SECOND, reading(a_1=4, b_1=2, x=1))

    # 10 s more for the pod: 6 of a, 2 of b, 1 of one without a name, 1 of nobody.
    book.take({CPU: 2000, IDLE: 900, GPU: 90, DRAM: 100}, 20 * SECOND, reading(a_1=10, b_1=4, x=2))

    assert book.energy_uj == {"a": {CPU: 600, DRAM: 60}, "b": {CPU: 200, DRAM: 20}}
    assert book.rest_uj() == {CPU: 1200, IDLE: 900, GPU: 90, DRAM: 20}
    assert book.cpu_ns == {"a": 10 * SECOND, "b": 4 * SECOND}
    assert book.rest_cpu_ns == 6 * SECOND


def test_a_container_that_is_started_again_goes_on_under_its_name() -> None:
    book = PodBook()
    book.take({CPU: 0}, 0, reading(a_1=0))
    book.take({CPU: 100}, 4 * SECOND, reading(a_1=4))
    book.take({CPU: 200}, 8 * SECOND, reading(a_2=3))  # the first used one more second before it ended

    assert book.cpu_ns == {"a": 7 * SECOND}
    assert book.rest_cpu_ns == SECOND
    assert book.energy_uj == {"a": {CPU: 175}}


def test_what_was_drawn_until_a_look_that_failed_is_the_rests() -> None:
    book = PodBook()
    book.take({CPU: 0}, 0, reading(a_1=0))
    book.take({CPU: 50}, None, {})
    book.take({CPU: 100}, SECOND, reading(a_1=1))

    assert book.energy_uj == {"a": {CPU: 50}}
    assert (book.cpu_ns, book.rest_cpu_ns) == ({"a": SECOND}, 0)


def test_a_pod_that_ended_keeps_what_it_was() -> None:
    book = PodBook()
    book.take({CPU: 0}, 0, reading(a_1=0))
    book.take({CPU: 100}, SECOND, reading(a_1=1))
    book.take({CPU: 130}, None, {})

    assert book.energy_uj == {"a": {CPU: 100}}
    assert book.rest_uj() == {CPU: 30}


LOOKS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([*SPLIT, IDLE, GPU]), st.integers(0, 10**9), max_size=4),
        st.dictionaries(st.sampled_from(["a_1", "a_2", "b_1", "x", "y"]), st.integers(0, 10**10), max_size=5),
        st.integers(0, 10**10),
        st.booleans(),
    ),
    max_size=8,
)


@given(LOOKS)
def test_containers_and_rest_are_the_pod_at_every_look_and_never_fall(
    looks: list[tuple[dict[tuple[Component, Part], int], dict[str, int], int, bool]],
) -> None:
    book, row, used, own, gone = PodBook(), dict.fromkeys([*SPLIT, IDLE, GPU], 0), dict[str, int](), 0, 0
    shown: dict[object, int] = {}
    for drawn, grown, overhead, is_read in looks:
        row = {key: row[key] + drawn.get(key, 0) for key in row}
        gone += sum(used[identifier] for identifier in used if identifier not in grown)
        used = {identifier: used.get(identifier, 0) + more for identifier, more in grown.items()}
        own += overhead
        pod_ns = own + gone + sum(used.values())
        containers = {
            identifier: ContainerReading(identifier.split("_")[0] if "_" in identifier else None, ns)
            for identifier, ns in used.items()
        }
        book.take(row, pod_ns if is_read else None, containers)

        rest = book.rest_uj()
        for key, whole in row.items():
            assert sum(shares.get(key, 0) for shares in book.energy_uj.values()) + rest[key] == whole
        if is_read:
            assert sum(book.cpu_ns.values()) + book.rest_cpu_ns == pod_ns
        now: dict[object, int] = {("rest", key): value for key, value in rest.items()}
        now |= {(name, key): value for name, shares in book.energy_uj.items() for key, value in shares.items()}
        now |= {("cpu", name): value for name, value in book.cpu_ns.items()} | {"rest": book.rest_cpu_ns}
        assert all(value >= shown.get(what, 0) >= 0 for what, value in now.items())
        shown = now
