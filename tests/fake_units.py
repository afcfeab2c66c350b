"""The units of a made-up site: a dozen of every manager, figures plain arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kwhere.core.terms import Component, Flag, Method
from kwhere.database.power_records import PartEnergy
from kwhere.database.records import ComponentMethod, NodeRun, UnitEmissions, UnitRecord

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)
FACTOR_G_PER_KWH = 56.0
METHODS = (
    ComponentMethod(Component.CPU, Method.COUNTER, "powercap"),
    ComponentMethod(Component.DRAM, Method.COUNTER, "powercap"),
    ComponentMethod(Component.OTHER, Method.MODELLED, "model"),
)


def energy_of(watts: float, hours: float) -> dict[Component, PartEnergy]:
    """Return 60 % cpu dynamic, 20 % cpu idle, 8 % dram dynamic, 2 % dram idle, 10 % other dynamic."""
    total = int(watts * hours * 3600 * 1_000_000)
    return {
        Component.CPU: PartEnergy(total * 60 // 100, total * 20 // 100),
        Component.DRAM: PartEnergy(total * 8 // 100, total * 2 // 100),
        Component.OTHER: PartEnergy(total * 10 // 100, None),
    }


def sum_of(energy: Mapping[Component, PartEnergy]) -> int:
    """Return the microjoules of all parts."""
    return sum((parts.dynamic_uj or 0) + (parts.idle_uj or 0) for parts in energy.values())


@dataclass(frozen=True, slots=True)
class _Plan:
    manager: str
    unit: str
    name: str | None
    user: str | None
    project: str | None
    nodes: tuple[str, ...]
    started_hours_ago: float
    ended_hours_ago: float | None
    watts: float
    cpus: float | None
    quality: frozenset[Flag] = frozenset()


PLANS = (
    _Plan("slurm", "4242", "cfd-wing-polar", "alice", "aero", ("node-a", "node-b"), 6.2, None, 161.0, 32),
    _Plan("slurm", "4243", "cfd-wing-polar", "alice", "aero", ("node-a",), 2.5, None, 38.4, 8),
    _Plan(
        "kubernetes", "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa", "nb-7", "bob", "vision", ("node-b",), 22.0, None, 20.1, 4
    ),
    _Plan("docker", "0c1f7e2ab34d", "postgres", None, None, ("node-a",), 160.0, None, 7.25, None),
    _Plan("session", "3", "carol's desktop", "carol", None, ("node-a",), 3.0, None, 4.9, None),
    _Plan("systemd", "services", "services", None, None, ("node-a", "node-b"), 400.0, None, 3.1, None),
    _Plan(
        "process",
        "dave:stress-ng",
        "stress-ng",
        "dave",
        None,
        ("node-b",),
        0.4,
        None,
        61.3,
        None,
        frozenset({Flag.IDLE_TABLE}),
    ),
    _Plan("process", "erin:a%2Fb c%25", 'a/b c% "<x>"', "erin", None, ("node-b",), 0.1, None, 0.21, None),
    _Plan(
        "slurm",
        "4199",
        "train-resnet50-imagenet-with-a-very-long-name-indeed",
        "bob",
        "vision",
        ("node-a",),
        30.0,
        9.5,
        210.0,
        16,
    ),
    _Plan("slurm", "4180", "md-equilibrate", "frank", "bio", ("node-b",), 14.0, 13.2, 96.0, 24, frozenset({Flag.GAP})),
    _Plan(
        "libvirt",
        "5f1d2c3b-0000-4a5b-8c6d-7e8f90a1b2c3",
        "web-frontend",
        "ops",
        "infra",
        ("node-a",),
        700.0,
        None,
        11.9,
        4,
    ),
    _Plan("run", "4711-1795975931", "stress-ng --cpu 1 -t 10", "root", None, ("node-a",), 0.02, 0.017, 12.5, None),
)


def _record(plan: _Plan) -> UnitRecord:
    start = NOW - timedelta(hours=plan.started_hours_ago)
    end = None if plan.ended_hours_ago is None else NOW - timedelta(hours=plan.ended_hours_ago)
    hours = ((end or NOW) - start) / timedelta(hours=1)
    mean_watts = plan.watts * 0.83
    energy = energy_of(mean_watts, hours)
    total = sum_of(energy)
    run = f"{plan.unit}@{int(start.timestamp())}"
    grams = total / 3.6e12 * FACTOR_G_PER_KWH
    share = energy_of(mean_watts / len(plan.nodes), hours)
    power = None if end else int(plan.watts * 1e6)
    cores = (plan.cpus or 2.0) * 0.71
    return UnitRecord(
        cluster="local",
        manager=plan.manager,
        unit=plan.unit,
        run=run,
        name=plan.name,
        user=plan.user,
        project=plan.project,
        state="ended" if end else "running",
        nodes=plan.nodes,
        submitted_at=start - timedelta(minutes=4) if plan.manager == "slurm" else None,
        started_at=start,
        ended_at=end,
        cpus_allocated=plan.cpus,
        memory_allocated_bytes=None if plan.cpus is None else int(plan.cpus) * 4 * 2**30,
        gpus_allocated={},
        power_uw=power,
        cpu_user_ns=int(cores * hours * 3600 * 0.94e9),
        cpu_system_ns=int(cores * hours * 3600 * 0.06e9),
        cpu_efficiency_ratio=None if plan.cpus is None else 0.71,
        memory_peak_bytes=int((plan.cpus or 1) * 2.6 * 2**30),
        gpu_busy_ns=None,
        io_read_bytes=int(hours * 4.1e9),
        io_write_bytes=int(hours * 1.3e9),
        network_receive_bytes=None,
        network_transmit_bytes=None,
        throttled_ns=int(hours * 12e9) if plan.manager == "kubernetes" else 0,
        energy_uj=energy,
        energy_total_uj=total,
        emissions_grams=grams,
        emissions=(UnitEmissions("static", "FR", "average", "lifecycle", "production", "static", grams, True),),
        method=Method.COUNTER,
        quality=plan.quality,
        labels={"kube_namespace": "ml"} if plan.manager == "kubernetes" else {},
        node_runs=tuple(
            NodeRun(node, run, start, end, share, sum_of(share), None if power is None else power // len(plan.nodes))
            for node in plan.nodes
        ),
        methods=METHODS,
        is_managed=plan.manager == "slurm",
    )


UNITS: tuple[UnitRecord, ...] = tuple(_record(plan) for plan in PLANS)


def many_units(count: int) -> tuple[UnitRecord, ...]:
    """Return `count` ended units of three users, each a little smaller than the one before."""
    users = ("alice", "bob", "frank")
    plans = (
        _Plan("slurm", str(10_000 + i), f"job-{i}", users[i % 3], "aero", ("node-a",), 20.0, 19.0 - i / count, 90.0, 8)
        for i in range(count)
    )
    return tuple(_record(plan) for plan in plans)
