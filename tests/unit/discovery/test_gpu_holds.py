from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, job

from kwhere.discovery.gpu_claims import WHOLE, ClaimSource, GpuClaim
from kwhere.discovery.gpu_holds import Hold, claims_of, equal_part
from kwhere.discovery.gpu_names import Place

ONE, TWO, THREE = (job(number).key for number in (1, 2, 3))
GPU0, GPU1 = Place(UUIDS[0]), Place(UUIDS[1])
PROLOG, CGROUP, ENVIRON, LIBVIRT = ClaimSource.PROLOG, ClaimSource.CGROUP, ClaimSource.ENVIRON, ClaimSource.LIBVIRT


def test_the_first_source_that_speaks_for_a_unit_and_device_wins() -> None:
    holds = [Hold(ONE, GPU0, ENVIRON), Hold(ONE, GPU0, PROLOG), Hold(ONE, GPU1, ENVIRON), Hold(ONE, GPU0, CGROUP)]

    claims = claims_of(holds)

    assert [(claim.device, claim.source) for claim in claims] == [(UUIDS[0], PROLOG), (UUIDS[1], ENVIRON)]


def test_alone_is_exclusive() -> None:
    assert claims_of([Hold(ONE, GPU0, PROLOG)]) == [GpuClaim(ONE, UUIDS[0], source=PROLOG)]


def test_several_share_equally_where_nobody_says_how() -> None:
    claims = claims_of([Hold(unit, GPU0, PROLOG) for unit in (ONE, TWO, THREE)])

    assert [claim.exclusive for claim in claims] == [False, False, False]
    assert sorted(claim.share for claim in claims) == [333, 333, 334]


def test_what_the_first_source_leaves_open_the_next_fills_in() -> None:
    holds = [Hold(ONE, GPU0, PROLOG), Hold(ONE, GPU0, ENVIRON, share=250, exclusive=False)]

    assert claims_of(holds) == [GpuClaim(ONE, UUIDS[0], share=250, exclusive=False, source=PROLOG)]


def test_replicas_of_one_unit_add_up_to_the_whole_at_most() -> None:
    two = [Hold(ONE, GPU0, ClaimSource.POD_RESOURCES, share=250, exclusive=False)] * 2
    many = [Hold(ONE, GPU0, ClaimSource.POD_RESOURCES, share=400, exclusive=False)] * 3

    assert [claim.share for claim in claims_of(two)] == [500]
    assert [claim.share for claim in claims_of(many)] == [WHOLE]


def test_a_user_does_not_take_from_another_what_the_site_gave_that_one() -> None:
    holds = [Hold(ONE, GPU0, PROLOG), Hold(TWO, GPU0, ENVIRON, WHOLE, exclusive=True)]

    assert [claim.unit for claim in claims_of(holds)] == [ONE]


def test_jobs_with_shards_stand_beside_the_one_that_the_prolog_wrote_last() -> None:
    holds = [
        Hold(ONE, GPU0, PROLOG),
        Hold(ONE, GPU0, ENVIRON, share=500, exclusive=False),
        Hold(TWO, GPU0, ENVIRON, share=250, exclusive=False),
    ]

    assert [(claim.unit, claim.share, claim.exclusive) for claim in claims_of(holds)] == [
        (ONE, 500, False),
        (TWO, 250, False),
    ]


def test_a_virtual_machine_has_no_less_right_than_an_environment() -> None:
    holds = [Hold(ONE, GPU0, LIBVIRT, WHOLE, exclusive=True), Hold(TWO, GPU0, ENVIRON, WHOLE, exclusive=True)]

    assert len(claims_of(holds)) == 2


def test_equal_parts_are_the_whole() -> None:
    assert all(sum(equal_part(i, parts) for i in range(parts)) == WHOLE for parts in range(1, 50))


_HOLDS = st.builds(
    Hold,
    st.sampled_from([ONE, TWO, THREE]),
    st.sampled_from([GPU0, GPU1, Place(UUIDS[0], "MIG-1")]),
    st.sampled_from(list(ClaimSource)),
    st.none() | st.integers(0, WHOLE),
    st.none() | st.booleans(),
    st.booleans(),
)


@given(st.lists(_HOLDS, max_size=12))
def test_there_is_one_claim_per_unit_and_place_and_no_share_beyond_the_whole(holds: list[Hold]) -> None:
    claims = claims_of(holds)

    places = [(claim.unit, claim.device, claim.instance) for claim in claims]
    assert len(set(places)) == len(places)
    assert all(0 <= claim.share <= WHOLE for claim in claims)
    assert {claim.unit for claim in claims} <= {hold.unit for hold in holds}


@given(st.lists(_HOLDS, max_size=4, unique_by=lambda hold: (hold.unit, hold.place, hold.source)))
def test_the_order_in_which_sources_answer_does_not_matter(holds: list[Hold]) -> None:
    assert len({tuple(claims_of(order)) for order in permutations(holds)}) == 1
