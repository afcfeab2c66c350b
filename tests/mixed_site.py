"""A site with a bit of everything, filled by the real write paths: five managers, odd names, what is missing, zeros.

`fill_mixed(engine)` makes it; the same seed makes the same site. `days` of history cost about 0.4 s each.
"""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from sqlalchemy import Engine
from tests.account_site import J, Site, fixed, keep
from tests.journals import SECOND_NS, HandJournal, system, unallocated
from tests.managed_site import turn_of

from kwhere.core.inventory import Inventory, InventoryNode, InventoryRack, Person
from kwhere.core.managed import (
    Account,
    Accounts,
    ManagerAllocation,
    ManagerNode,
    ManagerUnit,
    Membership,
    WaitingUnit,
    run_name,
)
from kwhere.core.terms import Component, EntryKind, Method, Part
from kwhere.core.timespan import Span
from kwhere.core.unit import UnitKey
from kwhere.database.claims import claim_waiting
from kwhere.database.engine import writing
from kwhere.database.factors import keep_factors
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.inventory import write_inventory
from kwhere.database.managed_units import write_accounts, write_nodes, write_units
from kwhere.database.manager_states import note_error, note_good
from kwhere.database.nodes import retire
from kwhere.database.settings import SiteSettings
from kwhere.database.waiting import write_queue
from kwhere.emission_factors.provider import Quality
from kwhere.ledger.gpu_uses import GpuUse
from kwhere.ledger.rows import Entry, Figures

SETTINGS = SiteSettings(time_zone="Europe/Paris", zone="FR", cluster_zones={"cloud": "DE"})
GIB = 2**30
A100 = "NVIDIA A100-SXM4-80GB"
HOUR_NS = 3600 * SECOND_NS
MINUTE_NS = 60 * SECOND_NS
USERS = (
    *("alice", "bob", "jean-luc", "o'neil", "müller", "grace@example.org", "EXAMPLE\\svc-batch", "名前", "0"),
    "a-user-with-a-name-far-longer-than-any-column-would-like-to-show-it",
    "<b>mallory</b>",
)
PROJECTS = ("aero", "vision & sound", "chem/catalysis", "climate-projections-2030-downscaling-ensemble", "x")
NAMES = ("wing-sweep", "train.py --lr 1e-3", "relax", "post", "assimilation_cycle_00Z", "x")


@dataclass(frozen=True, slots=True)
class Host:
    """A node as its agent reports it; `manager` is who places units there."""

    cluster: str
    name: str
    manager: str
    cpus: int
    idle_watts: float
    gpus: int = 0
    is_measured: bool = True
    silent_hours: float = 0.0
    """How long ago its agent stopped."""

    @property
    def short(self) -> str:
        """Return the name its manager uses."""
        return self.name.partition(".")[0]


HOSTS = (
    *(Host("alpine", f"c{at:03}.alpine.example", "slurm", 64, 90) for at in (1, 2, 3)),
    Host("alpine", "c005.alpine.example", "slurm", 64, 90),
    Host("alpine", "g001.alpine.example", "slurm", 32, 180, gpus=4),
    Host("alpine", "g002.alpine.example", "slurm", 32, 180, gpus=4, silent_hours=30),
    *(Host("kube", f"worker-{at}", "kubernetes", 16, 40, is_measured=False) for at in (1, 2)),
    Host("cloud", "cmp-1", "libvirt", 48, 70),
    Host("grid", "graphene-1.nancy.grid.example", "oar", 16, 60, silent_hours=1),
    Host("local", "laptop", "systemd", 8, 6, is_measured=False),
)


@dataclass(slots=True)
class Job:
    """A unit of the site with what it does."""

    host: Host
    manager: str
    unit: str
    run: str
    name: str | None
    user: str | None
    project: str | None
    start_ns: int
    end_ns: int
    """Where it still runs, the site's present."""
    cpus: float
    busy: float
    """Share of its CPUs that work."""
    state: str = "completed"
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    """Other nodes its manager placed it on."""

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.manager, self.unit, self.run)


def fill_mixed(engine: Engine, now: datetime | None = None, days: int = 3, seed: int = 5) -> Site:
    """Fill an empty database and return the site, whose clock stands at `now`, by default T0."""
    site = Site(engine, SETTINGS)
    now_ns = site.clock.now_ns if now is None else to_ns(now) // MINUTE_NS * MINUTE_NS
    whole = Span(from_ns(now_ns) - timedelta(days=days), from_ns(now_ns))
    keep(site, fixed(34.6, provider="rte", quality=Quality.MEASURED, source="RTE éCO2mix"))
    with writing(engine).begin() as connection:
        yearly = fixed(412.5, zone="DE", provider="static", source="yearly mean 2024")
        keep_factors(connection, "DE", [yearly], now_ns, reporting=True)
    dice = random.Random(seed)
    jobs = [job for host in HOSTS for job in _jobs_of(host, whole, dice)]
    for host in HOSTS:
        site.take(_journal(host, [job for job in jobs if job.host is host], whole, dice), host.cluster)
    site.clock.now_ns = now_ns
    _tell(site, jobs)
    _tell_places(site)
    _wait(site)
    site.roll()
    return site


def _jobs_of(host: Host, span: Span, dice: random.Random) -> Iterator[Job]:
    """Yield jobs one behind the other in two lanes of a node; the last of a lane still runs."""
    end_ns = to_ns(span.end) - int(host.silent_hours * HOUR_NS)
    numbers = count(dice.randrange(10_000, 900_000))
    for lane in range(1 if host.manager == "systemd" else 2):
        at_ns = to_ns(span.start) + lane * HOUR_NS // 3
        while at_ns < end_ns:
            job = _job(host, next(numbers), at_ns, end_ns, dice)
            yield job
            at_ns = job.end_ns + dice.choice((0, 7, 55)) * MINUTE_NS


def _job(host: Host, number: int, start_ns: int, end_ns: int, dice: random.Random) -> Job:
    hours = dice.choice((0.05, 0.4, 2, 6, 30, 90))
    job_end_ns = min(end_ns, start_ns + int(hours * 60) * MINUTE_NS)
    name, labels = dice.choice(NAMES), dict[str, str]()
    unit, run = str(number), run_name(str(number), from_ns(start_ns))
    if host.manager == "kubernetes":
        unit = run = str(uuid.UUID(int=dice.getrandbits(128)))
        name = f"{dice.choice(('notebook-grace-0', 'trainer-worker-3', 'etl-nightly-28471920'))}-{unit[:5]}"
    elif host.manager == "libvirt":
        unit = run = str(uuid.UUID(int=dice.getrandbits(128)))
        name = f"vm-{number % 90}"
    elif host.manager == "systemd":
        unit, name = dice.choice(("user@1000.service", "docker.service", "sshd.service")), ""
        run = f"{unit}@{start_ns // SECOND_NS}"
    elif number % 5 == 0:
        labels = {"job": f"{number - number % 7}_{number % 7}", "array_job": str(number - number % 7)}
    elif number % 7 == 0:
        labels = {"job": f"{number}+0", "het_job": str(number)}
    is_live = job_end_ns >= end_ns
    return Job(
        *(host, host.manager, unit, run, name or None),
        user=None if host.manager == "systemd" else dice.choice(USERS),
        project=None if host.manager in ("systemd", "libvirt") else dice.choice(PROJECTS),
        start_ns=start_ns,
        end_ns=job_end_ns,
        cpus=float(dice.choice((1, 4, host.cpus // 4, host.cpus // 2))),
        busy=dice.choice((0.0, 0.12, 0.6, 0.97, 1.0)),
        state="running" if is_live else dice.choice(("completed",) * 6 + ("failed", "timeout", "out_of_memory")),
        gpus=min(host.gpus, dice.choice((0, 1, 2))),
        labels=labels,
        elsewhere=("c006",) if host.manager == "slurm" and number % 6 == 0 else (),
    )


def _journal(host: Host, jobs: Sequence[Job], span: Span, dice: random.Random) -> HandJournal:
    """Return what its agent booked: hours, then minutes for the last two hours; half a day is missing."""
    start_ns, now_ns = to_ns(span.start), to_ns(span.end) - int(host.silent_hours * HOUR_NS)
    journal = HandJournal(
        *(host.name, (host.name, host.short), f"machine-{host.name}", f"boot-{host.name}"),
        cpus=host.cpus,
        end_ns=start_ns,
        p_max_mw={str(component): 10**9 for component in Component},
    )
    method = Method.COUNTER if host.is_measured else Method.MODELLED
    gap = (now_ns - 40 * HOUR_NS, now_ns - 28 * HOUR_NS) if host.short == "c002" else (0, 0)
    while journal.end_ns < now_ns:
        length_ns = MINUTE_NS if now_ns - journal.end_ns <= 2 * HOUR_NS else HOUR_NS
        if gap[0] <= journal.end_ns < gap[1]:
            journal.end_ns += length_ns
            continue
        begin_ns, end_ns = journal.end_ns, min(now_ns, journal.end_ns + length_ns)
        entries = _entries(host, jobs, begin_ns, end_ns, 0.9 + 0.2 * dice.random())
        journal.append(entries, seconds=(end_ns - begin_ns) // SECOND_NS, method=method)
    return journal


def _entries(host: Host, jobs: Sequence[Job], begin_ns: int, end_ns: int, swing: float) -> list[Entry]:
    length_s = (end_ns - begin_ns) / SECOND_NS
    found, held = list[Entry](), 0.0
    for job in jobs:
        lived_s = (min(end_ns, job.end_ns) - max(begin_ns, job.start_ns)) / SECOND_NS
        if lived_s > 0:
            found.append(_entry(job, lived_s, swing, begin_ns))
            held += job.cpus * lived_s / length_s
    rest = max(0.0, 1 - held / host.cpus)
    base_uj = int(host.idle_watts * length_s * J)
    found.append(system(_energy(host, int(0.05 * base_uj), int(0.02 * base_uj), 0)))
    found.append(unallocated(_energy(host, 0, int(rest * base_uj), 0)))
    return found


def _entry(job: Job, lived_s: float, swing: float, begin_ns: int) -> Entry:
    used_s = job.cpus * job.busy * lived_s
    dynamic_uj = int(used_s * 2.4 * swing * J)
    idle_uj = int(job.host.idle_watts * job.cpus / job.host.cpus * lived_s * J)
    gpus = tuple(_gpu(job, at, int(lived_s * SECOND_NS), begin_ns) for at in range(job.gpus))
    more: dict[str, int | None] = {
        "cpu_allocated_ns": int(job.cpus * lived_s * SECOND_NS) if job.manager != "systemd" else None,
        "memory_peak_bytes": int((0.2 + job.busy) * 8 * GIB),
        "memory_byte_seconds": int(4 * GIB * lived_s),
        "io_read_bytes": int(2e6 * lived_s),
        "io_write_bytes": 0,
    }
    if gpus:
        more |= {
            "gpu_allocated_ns": sum(gpu.allocated_ns for gpu in gpus),
            "gpu_busy_ns": sum(gpu.busy_ns or 0 for gpu in gpus),
            "gpu_held_idle_ns": sum(gpu.held_idle_ns or 0 for gpu in gpus),
            "gpu_held_idle_uj": sum(gpu.held_idle_uj or 0 for gpu in gpus),
        }
    numbers = _energy(job.host, dynamic_uj, idle_uj, sum(gpu.energy_uj or 0 for gpu in gpus))
    busy_ns = int(used_s * SECOND_NS)
    return Entry(
        EntryKind.UNIT,
        job.key,
        Figures(numbers.energy_uj, cpu_user_ns=busy_ns * 9 // 10, cpu_system_ns=busy_ns // 10, **more),
        name=job.name,
        user=job.user,
        project=job.project,
        gpus=gpus,
    )


def _energy(host: Host, dynamic_uj: int, idle_uj: int, gpu_uj: int) -> Figures:
    energy = {
        (Component.CPU, Part.DYNAMIC): dynamic_uj * 4 // 5,
        (Component.CPU, Part.IDLE): idle_uj * 7 // 10,
        (Component.DRAM, Part.DYNAMIC): dynamic_uj - dynamic_uj * 4 // 5,
        (Component.DRAM, Part.IDLE): idle_uj - idle_uj * 7 // 10,
    }
    if host.gpus:
        energy |= {(Component.GPU, Part.DYNAMIC): gpu_uj * 3 // 4, (Component.GPU, Part.IDLE): gpu_uj - gpu_uj * 3 // 4}
    return Figures(energy, cpu_user_ns=0, cpu_system_ns=0)


def _gpu(job: Job, at: int, lived_ns: int, begin_ns: int) -> GpuUse:
    """Return the use of a GPU: the second of a job does nothing."""
    busy_ns = int(lived_ns * job.busy) if at == 0 else 0
    energy_uj = int((60 * lived_ns + 240 * busy_ns) / SECOND_NS * J)
    return GpuUse(
        f"GPU-{job.host.short}-{at}",
        index=at,
        model=A100,
        source="prolog",
        held_ns=lived_ns,
        allocated_ns=lived_ns,
        place_ns=lived_ns,
        busy_ns=busy_ns,
        held_idle_ns=0 if busy_ns else lived_ns,
        energy_uj=energy_uj,
        held_idle_uj=0 if busy_ns else energy_uj,
        memory_peak_bytes=int(80 * GIB * job.busy),
        memory_total_bytes=80 * GIB,
        idle_since_ns=None if busy_ns else begin_ns,
    )


def _tell(site: Site, jobs: Sequence[Job]) -> None:
    """Say what managers know of the jobs, and of such that no agent reported."""
    now_ns = site.clock.now_ns
    for cluster, manager in {(job.host.cluster, job.manager): None for job in jobs if job.manager != "systemd"}:
        theirs = [job for job in jobs if (job.host.cluster, job.manager) == (cluster, manager)]
        turn = turn_of(site.engine, now_ns, manager, cluster)
        write_units(site.engine, turn, [_said(job) for job in theirs])
        if manager == "slurm":
            write_units(site.engine, turn, _unreported(now_ns))
        claim_waiting(site.engine, turn, lambda: True)
        note_good(site.engine, turn, now_ns - 20 * SECOND_NS)
        names = sorted({job.project for job in theirs if job.project})
        members = {Membership(job.user, job.project) for job in theirs if job.user and job.project}
        accounts = tuple(Account(name, f"what {name} is for", "root") for name in names)
        write_accounts(site.engine, turn, Accounts(accounts, (*sorted(members), Membership("new-hire", "aero"))))
    note_error(site.engine, turn_of(site.engine, now_ns, "oar", "grid"), "oar-api.grid.example: connection refused")


def _said(job: Job) -> ManagerUnit:
    return ManagerUnit(
        *(job.host.cluster, job.manager, job.unit, job.run, job.state),
        started_at=from_ns(job.start_ns),
        ended_at=None if job.state == "running" else from_ns(job.end_ns),
        submitted_at=from_ns(job.start_ns - 11 * MINUTE_NS),
        name=job.name,
        user=job.user,
        project=job.project,
        group="staff",
        nodes=(job.host.short, *job.elsewhere),
        allocation=ManagerAllocation(
            job.cpus, int(job.cpus * 4 * GIB), {A100: job.gpus} if job.gpus else {}, 1 + len(job.elsewhere)
        ),
        queue={"slurm": "gpu" if job.gpus else "main", "kubernetes": "team-vision"}.get(job.manager, "default"),
        tags=job.labels,
    )


def _unreported(now_ns: int) -> list[ManagerUnit]:
    """Return jobs on a node without an agent: one runs, one was cancelled before it did a thing, one vanished."""
    words = (("990001", "running", 180, None), ("990002", "cancelled", 400, 400), ("990003", "vanished", 3000, 1300))
    return [
        ManagerUnit(
            *("alpine", "slurm", unit, run_name(unit, from_ns(now_ns - began * MINUTE_NS)), state),
            started_at=from_ns(now_ns - began * MINUTE_NS),
            ended_at=None if ended is None else from_ns(now_ns - ended * MINUTE_NS),
            name="on-a-node-without-an-agent",
            user="alice",
            project="aero",
            nodes=("c006",),
            allocation=ManagerAllocation(32, 128 * GIB, {}, 1),
            queue="main",
        )
        for unit, state, began, ended in words
    ]


def _tell_places(site: Site) -> None:
    now_ns = site.clock.now_ns
    why = "memory errors on bank 3, ticket 4711; do not put back before the vendor has been here"
    nodes = [
        _slurm_node("c001", "mixed", 48),
        _slurm_node("c002", "allocated", 64),
        _slurm_node("c003", "idle", 0),
        _slurm_node("c005", "mixed+drain", 16, why),
        _slurm_node("c006", "mixed", 32),
        _slurm_node("g001", "mixed", 16, gpus=2),
        _slurm_node("g002", "down*", 0, "Not responding", gpus=0),
    ]
    write_nodes(site.engine, turn_of(site.engine, now_ns, "slurm", "alpine"), nodes)
    pods = [ManagerNode(f"worker-{at}", "ready", True, None, None, 16, 64 * GIB) for at in (1, 2, 3)]
    write_nodes(site.engine, turn_of(site.engine, now_ns, "kubernetes", "kube"), pods)
    racks = (InventoryRack("r1", "alpine", 2000.0), InventoryRack("r2", "alpine", 120.0))
    placed = [
        InventoryNode(host.short, host.cluster, "r1" if host.short < "c003" else "r2", "epyc")
        for host in HOSTS
        if host.cluster == "alpine"
    ]
    people = (Person("alice", "alpine", "Alice Ångström", "alice@example.org", "sv"),)
    write_inventory(site.engine, "csv", 0, Inventory(tuple(placed), racks, people), now_ns)
    retire(site.engine, "grid", "graphene-1.nancy.grid.example", now_ns, by="root")


def _slurm_node(
    name: str, state: str, cpus: float, why_closed: str | None = None, gpus: float | None = None
) -> ManagerNode:
    """Return a node of which so much is allocated; `gpus` where it has four."""
    has_gpus = gpus is not None
    return ManagerNode(
        *(name, state, why_closed is None, why_closed, "epyc, a100" if has_gpus else "epyc"),
        cpus=32 if has_gpus else 64,
        memory_bytes=256 * GIB,
        gpus={A100: 4} if has_gpus else {},
        allocated=ManagerAllocation(cpus, int(cpus * 3.5 * GIB), {A100: gpus} if gpus is not None else {}),
        queues=("gpu",) if has_gpus else ("main", "long"),
    )


def _wait(site: Site) -> None:
    now = from_ns(site.clock.now_ns)
    reasons = (
        "Resources",
        "Priority",
        "QOSMaxCpuPerUserLimit",
        "ReqNodeNotAvail, UnavailableNodes:c00[5-6]",
        None,
    )
    waiting = [
        WaitingUnit(
            *("alpine", "slurm", str(995_000 + at), "pending", NAMES[at % len(NAMES)], USERS[at % len(USERS)]),
            project=PROJECTS[at % len(PROJECTS)],
            queue="gpu" if at % 3 == 0 else "main",
            reason=reasons[at % len(reasons)],
            submitted_at=now - timedelta(minutes=7 * at**2),
            expected_start_at=now + timedelta(hours=at) if at % 2 else None,
            priority=float(10_000 - 13 * at),
            asked=ManagerAllocation(64.0 * (1 + at % 3), 256 * GIB, {A100: 4} if at % 3 == 0 else {}, 1 + at % 3),
            tasks=500 if at == 7 else 1,
            tags={"job": f"{995_000 + at}_[0-499]"} if at == 7 else {},
        )
        for at in range(30)
    ]
    write_queue(site.engine, turn_of(site.engine, site.clock.now_ns, "slurm", "alpine"), waiting)
