"""When a run began, as far as its name tells it."""

import pytest

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import EntryKind
from kwhere.database.identities import started_ns
from kwhere.database.sums import RunKey

FIRST_SLOT_NS = 1_795_980_000 * NANOSECONDS_PER_SECOND
JOB_NS = 1_795_970_000 * NANOSECONDS_PER_SECOND


@pytest.mark.parametrize(
    ("manager", "unit", "run", "expected_ns"),
    [
        ("slurm", "4242", "4242@1795970000", JOB_NS),
        ("slurm", "4242", "4242@1795970000.node1", JOB_NS),
        ("kubernetes", "6f1c-uid", "6f1c-uid", FIRST_SLOT_NS),
        ("systemd", "a.service", "a.service@x", FIRST_SLOT_NS),
        ("process", "root:make", "root:make@1795970000", FIRST_SLOT_NS),  # the machine's boot, not the group's start
    ],
)
def test_the_start_of_a_run(manager: str, unit: str, run: str, expected_ns: int) -> None:
    assert started_ns(RunKey(EntryKind.UNIT, manager, unit, run), FIRST_SLOT_NS) == expected_ns
