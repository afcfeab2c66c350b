"""GPUs in the account, over SQLite and PostgreSQL: what a unit held, used, and held idle, worked out by hand."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine
from tests.account_site import T0, J, Site, minutes
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, unallocated, unit

from kwhere.core.terms import Component
from kwhere.database.gpu_records import GpuTotals
from kwhere.database.records import UsageBy
from kwhere.ledger.gpu_uses import GpuUse

MINUTE_NS = 60 * SECOND_NS
GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


def use(device: str = "GPU-0", **facts: object) -> GpuUse:
    given = {
        "index": 0,
        "model": H100,
        "source": "prolog",
        "held_ns": MINUTE_NS,
        "allocated_ns": MINUTE_NS,
        "place_ns": MINUTE_NS,
        "busy_ns": 0,
        "held_idle_ns": 0,
        "energy_uj": 6000 * J,
        "held_idle_uj": 0,
        "memory_peak_bytes": GIB,
        "memory_total_bytes": 80 * GIB,
    }
    return GpuUse(device, **{**given, **facts})  # type: ignore[arg-type]


def slot(journal: HandJournal, *gpus: GpuUse, name: str = "a") -> None:
    numbers = figures(
        5000 * J,
        sum(one.energy_uj or 0 for one in gpus) - 5000 * J,
        component=Component.GPU,
        gpu_allocated_ns=sum(one.allocated_ns for one in gpus),
        gpu_busy_ns=sum(one.busy_ns or 0 for one in gpus),
        gpu_unknown_ns=sum(one.unknown_ns for one in gpus),
        gpu_held_idle_ns=sum(one.held_idle_ns or 0 for one in gpus),
        gpu_held_idle_uj=sum(one.held_idle_uj or 0 for one in gpus),
        gpu_memory_peak_bytes=sum(one.memory_peak_bytes or 0 for one in gpus),
    )
    held = unit(key(name), numbers, user="alice", project="p1", gpus=gpus)
    journal.append([held, unallocated(figures(0, 100, component=Component.GPU))])


def test_a_unit_has_its_gpus_one_by_one(site: Site) -> None:
    journal = HandJournal()
    slot(journal, use(busy_ns=MINUTE_NS // 2), use("GPU-1", index=1, held_idle_ns=MINUTE_NS, held_idle_uj=6000 * J))
    slot(
        journal,
        use(busy_ns=MINUTE_NS, memory_peak_bytes=60 * GIB),
        use("GPU-1", index=1, held_idle_ns=MINUTE_NS, held_idle_uj=6000 * J, idle_since_ns=T0_NS),
    )
    site.take(journal)

    record = site.reader.unit("c1", "slurm", "a")

    first, second = record.gpus
    assert (first.index, first.kind, first.source, first.node, first.is_held) == (0, H100, "prolog", "n1", True)
    assert (first.busy_ns, first.utilisation_ratio) == (90 * SECOND_NS, 0.75)
    assert (first.memory_peak_bytes, first.memory_total_bytes) == (60 * GIB, 80 * GIB)
    assert (first.energy_uj, first.held_idle_uj, first.idle_since) == (12_000 * J, 0, None)
    assert (second.utilisation_ratio, second.held_idle_ns, second.held_idle_uj) == (0.0, 2 * MINUTE_NS, 12_000 * J)
    assert (second.idle_since, second.first_at, second.last_at) == (T0, T0, T0 + timedelta(minutes=2))
    assert record.gpus_allocated == {H100: 2.0}
    assert record.gpu == GpuTotals(4 * MINUTE_NS, 0, 90 * SECOND_NS, 2 * MINUTE_NS, 12_000 * J, 61 * GIB)
    assert record.gpu.utilisation_ratio == 0.375


def test_a_gpu_that_was_given_back_is_not_held(site: Site) -> None:
    journal = HandJournal()
    slot(journal, use(), use("GPU-1", index=1, idle_since_ns=T0_NS))
    slot(journal, use())
    site.take(journal)

    first, second = site.reader.unit("c1", "slurm", "a").gpus

    assert (first.is_held, second.is_held, second.idle_since) == (True, False, None)
    assert (second.held_ns, second.last_at) == (MINUTE_NS, T0 + timedelta(minutes=1))


def test_energy_told_late_does_not_hold_a_gpu(site: Site) -> None:
    journal = HandJournal()
    slot(journal, use(), use("GPU-1", index=1))
    slot(journal, use(), GpuUse("GPU-1", index=1, model=H100, source="prolog", energy_uj=50 * J, held_idle_uj=0))
    site.take(journal)

    gpu = site.reader.unit("c1", "slurm", "a").gpus[1]

    assert (gpu.is_held, gpu.held_ns, gpu.energy_uj) == (False, MINUTE_NS, 6050 * J)
    assert [hold.gpu.index for hold in site.reader.gpu_holds("c1", "n1")] == [0]


def test_instances_and_shares_count_as_what_they_are(site: Site) -> None:
    """A third of a `3g.40gb`, of seven slices, and half a whole device."""
    journal = HandJournal()
    third = use(
        instance="MIG-3", profile="3g.40gb", allocated_ns=MINUTE_NS * 3 // 7 // 3, place_ns=MINUTE_NS // 3, busy_ns=None
    )
    half = use("GPU-1", index=1, allocated_ns=MINUTE_NS // 2, place_ns=MINUTE_NS // 2, busy_ns=MINUTE_NS // 2)
    slot(journal, third, half)
    site.take(journal)

    record = site.reader.unit("c1", "slurm", "a")

    assert record.gpus_allocated == {H100: 0.5, f"{H100} 3g.40gb": 0.333}
    assert [gpu.utilisation_ratio for gpu in record.gpus] == [None, 1.0]


def test_time_of_which_nothing_is_known_is_neither_idle_nor_busy(site: Site) -> None:
    journal = HandJournal()
    slot(journal, use(busy_ns=30 * SECOND_NS))
    slot(journal, use(busy_ns=None, held_idle_ns=None, unknown_ns=MINUTE_NS))
    site.take(journal)

    record = site.reader.unit("c1", "slurm", "a")

    assert (record.gpus[0].utilisation_ratio, record.gpu.utilisation_ratio) == (0.5, 0.5)
    assert (record.gpus[0].held_ns, record.gpus[0].held_idle_ns) == (2 * MINUTE_NS, 0)


@pytest.mark.parametrize("by", [UsageBy.USER, UsageBy.PROJECT, UsageBy.NODE, UsageBy.DAY])
def test_usage_has_gpu_hours_and_idle_ones(site: Site, by: UsageBy) -> None:
    journal = HandJournal()
    for _ in range(60):
        slot(journal, use(busy_ns=15 * SECOND_NS, held_idle_ns=45 * SECOND_NS, held_idle_uj=100 * J))
    site.take(journal)
    site.roll()

    row = next(row for row in site.reader.usage(by, minutes(0, 60)).rows if row.kind == "unit")

    assert row.gpu.allocated_ns == 3600 * SECOND_NS
    assert (row.gpu.busy_ns, row.gpu.held_idle_ns, row.gpu.held_idle_uj) == (
        900 * SECOND_NS,
        2700 * SECOND_NS,
        6000 * J,
    )


def test_a_unit_without_gpus_has_none(site: Site) -> None:
    journal = HandJournal()
    journal.append([unit(key("a"), figures(1, 1))])
    site.take(journal)

    record = site.reader.unit("c1", "slurm", "a")

    assert (record.gpus, record.gpus_allocated, record.gpu) == ((), {}, GpuTotals())


def test_a_node_says_who_holds_its_gpus_now(site: Site) -> None:
    journal = HandJournal()
    first = unit(key("a"), figures(1, 1, gpu_allocated_ns=1), name="train", user="alice", gpus=(use(), use("GPU-1")))
    second = unit(key("b"), figures(1, 1, gpu_allocated_ns=1), gpus=(use("GPU-2", index=2, idle_since_ns=T0_NS),))
    over = unit(key("c"), figures(1, 1, gpu_allocated_ns=1), gpus=(use("GPU-3", index=3),))
    journal.append([first, second, over])
    journal.append([unit(key("a"), figures(1, 1), name="train", user="alice", gpus=(use(),)), second])
    site.take(journal)

    holds = site.reader.gpu_holds("c1", "n1")

    assert [(hold.manager, hold.unit, hold.name, hold.user, hold.gpu.index) for hold in holds] == [
        ("slurm", "a", "train", "alice", 0),
        ("slurm", "b", None, None, 2),
    ]
    assert holds[1].gpu.idle_since == T0
    assert site.reader.gpu_holds("c1", "n2") == site.reader.gpu_holds("c2", "n1") == ()
