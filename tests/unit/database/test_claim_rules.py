"""Which run of a manager a node's run is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.database.claim_rules import (
    CLAIMED,
    PATIENCE_NS,
    TOLERANCE_NS,
    UNVERIFIED,
    Candidate,
    OpenRun,
    Verdict,
    judge,
)

S = 1_000_000_000
RUN = OpenRun(1, "7", "7@1000", ("n1",), 1000 * S, None)
THEIRS = Candidate(10, "7", "7@990", 990 * S, None, ("n1",))


def test_the_nearest_start_of_those_placed_there_is_meant() -> None:
    earlier = replace(THEIRS, unit_id=11, started_ns=500 * S, ended_ns=980 * S)
    elsewhere = replace(THEIRS, unit_id=12, started_ns=1000 * S, nodes=("n2",))

    assert judge(RUN, [earlier, THEIRS, elsewhere], 0) == Verdict(10, CLAIMED)
    assert judge(RUN, [elsewhere], 0) == Verdict(None, UNVERIFIED)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same"),
    [
        ("n1", "n1", True),
        ("N1", "n1", True),
        ("n1.cluster.example", "n1", True),
        ("n1", "n1.cluster.example", True),
        ("n1", "n10", False),
        ("n1", "n1x.cluster", False),
        ("n1.a", "n1.b", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10", "10.0.0.1", False),
        ("", ".x", False),
    ],
)
def test_hosts_by_short_and_by_full_name(ours: str, theirs: str, is_same: bool) -> None:
    verdict = judge(replace(RUN, node_names=(ours,)), [replace(THEIRS, nodes=(theirs,))], 0)

    assert (verdict.claim == CLAIMED) == is_same


def test_no_node_is_not_any_node() -> None:
    assert judge(RUN, [replace(THEIRS, nodes=())], 0).claim == UNVERIFIED
    assert judge(RUN, [replace(THEIRS, nodes=None)], 0).claim == CLAIMED


def test_an_id_that_is_unique_for_ever_needs_no_time() -> None:
    pod = replace(RUN, unit="uid", run="uid", created_ns=10**15 * S)

    assert judge(pod, [replace(THEIRS, unit="uid", run="uid", ended_ns=1000 * S)], 0).claim == CLAIMED


def test_an_id_that_is_unique_for_ever_may_have_been_seen_late() -> None:
    late = replace(THEIRS, unit="uuid", run="uuid", started_ns=5000 * S, ended_ns=6000 * S)
    start = replace(RUN, unit="uuid", run="uuid@1000")

    assert judge(start, [late], 0).claim == CLAIMED
    assert judge(replace(start, created_ns=9000 * S), [late], 0).claim is None


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.booleans())
def test_only_within_the_widened_span(start_s: int, length_s: int, lives: bool) -> None:
    ended_ns = None if lives else (start_s + length_s) * S
    verdict = judge(RUN, [replace(THEIRS, started_ns=start_s * S, ended_ns=ended_ns)], 0)

    is_within = start_s * S - TOLERANCE_NS <= RUN.created_ns and (
        ended_ns is None or RUN.created_ns <= ended_ns + TOLERANCE_NS
    )
    assert (verdict.unit_id is not None) == is_within


@given(st.integers(0, 2 * PATIENCE_NS))
def test_patience_ends_after_seven_days(waited_ns: int) -> None:
    verdict = judge(replace(RUN, unclaimed_since_ns=5), [], 5 + waited_ns)

    assert verdict == (Verdict(claim=UNVERIFIED) if waited_ns >= PATIENCE_NS else Verdict())
