"""How busy GPUs were of what was held: only rounding is taken off, what contradicts itself stays."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reports.test_gpus import GPU

from kwhere.core.unit import UnitKey
from kwhere.database.gpu_records import GpuTotals
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.sampling.gpu_holding import UnitHold
from kwhere.sampling.gpu_plan import HeldPlace
from kwhere.sampling.gpu_slot import GpuSlot

STEP_NS = st.integers(min_value=1_000_000, max_value=60_000_000_000)
"""No step is shorter than a millisecond."""
SHARES = st.sampled_from([1.0, 1 / 2, 1 / 3, 1 / 7, 3 / 7, 2 / 7 / 3, 0.01])
BUSY = st.floats(min_value=0.0, max_value=1.0)


def held(share: float, steps: Sequence[tuple[int, float]]) -> GpuTotals:
    """Return what the ledger has of a place of that share after steps of (ns, busy share of the device)."""
    place = HeldPlace(UnitKey("slurm", "1", "1@1"), "GPU-0", "", 0, ClaimSource.PROLOG, share)
    slot = GpuSlot(UnitHold(place, None, None, None))
    for lived_ns, busy in steps:
        slot.add(UnitHold(place, busy, None, False), lived_ns, None)
    return GpuTotals(slot.allocated_ns, slot.unknown_ns, slot.busy_ns)


@given(share=SHARES, steps=st.lists(st.tuples(STEP_NS, BUSY), min_size=1, max_size=60))
def test_who_stays_within_what_it_holds_is_never_busier_than_that_case_users_5(
    share: float, steps: Sequence[tuple[int, float]]
) -> None:
    ratio = held(share, [(lived_ns, share * busy) for lived_ns, busy in steps]).utilisation_ratio

    assert ratio is not None
    exact = sum(lived_ns * busy for lived_ns, busy in steps) / sum(lived_ns for lived_ns, _ in steps)
    assert 0.0 <= ratio <= 1.0
    assert ratio == pytest.approx(exact, abs=1e-4)


@given(share=SHARES, steps=st.lists(st.tuples(STEP_NS, BUSY), min_size=1, max_size=60))
def test_who_uses_more_of_a_shared_gpu_than_its_share_is_told_so_case_users_5(
    share: float, steps: Sequence[tuple[int, float]]
) -> None:
    """A half of an MPS device may run on all of it while the other half rests."""
    ratio = held(share, steps).utilisation_ratio

    assert ratio is not None
    exact = sum(lived_ns * busy for lived_ns, busy in steps) / sum(lived_ns for lived_ns, _ in steps) / share
    assert ratio == pytest.approx(exact, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("busy_ns", "shown"), [(10**9, 1.0), (10**9 + 1, 1.0), (10**9 + 999, 1.0), (1_100_000_000, 1.1), (3 * 10**9, 3.0)]
)
def test_only_rounding_is_taken_off_case_users_5(busy_ns: int, shown: float) -> None:
    assert GpuTotals(10**9, 0, busy_ns).utilisation_ratio == shown
    assert GpuTotals(2 * 10**9, 10**9, busy_ns).utilisation_ratio == shown


def test_nothing_known_is_no_ratio() -> None:
    assert GpuTotals(10**9, 10**9, 0).utilisation_ratio is None
    assert GpuTotals(10**9, 0, None).utilisation_ratio is None
    assert GPU.utilisation_ratio == 0.25
