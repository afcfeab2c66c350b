"""A node made of numbers: clock, /proc/stat, unit sources and meters that a test moves by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kwhere.core.errors import JournalError, NoData, Unavailable
from kwhere.core.terms import Component, DomainKind, IdlePolicy, Method
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import CpuReading, ParentReading, StepReading, TrackedUnit, UnitDetail
from kwhere.energy.baseline import IdleBaseline
from kwhere.energy.placement import Topology
from kwhere.kernel.stat import CpuStat, CpuTimes
from kwhere.ledger.rows import Slot
from kwhere.meters.meter import Domain, Reading
from kwhere.sampling.energy_book import EnergyBook
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.guest_book import GuestBook
from kwhere.sampling.meter_bank import MeterBank
from kwhere.sampling.node_cpu import NodeCpu
from kwhere.sampling.platform_book import PlatformBook
from kwhere.sampling.step import NodeParts, Sampler, SlotTiming
from kwhere.sampling.totals import TotalsBoard
from kwhere.sampling.weighing import Weigher

SECOND = 1_000_000_000
WATT = 1_000_000
START_UTC_NS = 1_795_000_000 * SECOND
GIB = 2**30


@dataclass
class HandClock:
    """Three clocks that go where they are put."""

    monotonic: int = 1000 * SECOND
    boottime: int = 1000 * SECOND
    utc: int = START_UTC_NS

    def monotonic_ns(self) -> int:
        return self.monotonic

    def boottime_ns(self) -> int:
        return self.boottime

    def utc_ns(self) -> int:
        return self.utc

    def advance(self, duration_ns: int) -> None:
        self.monotonic += duration_ns
        self.boottime += duration_ns
        self.utc += duration_ns


def unit_key(name: str, manager: str = "slurm") -> UnitKey:
    return UnitKey(manager, name, f"{name}@1")


@dataclass
class HandUnits:
    """A unit source whose cgroups are entries of a dict. Parents keep what their removed children used."""

    clock: HandClock
    units: dict[UnitKey, TrackedUnit] = field(default_factory=dict)
    cpu: dict[UnitKey, CpuReading] = field(default_factory=dict)
    owners: dict[int, UnitKey] = field(default_factory=dict)
    details: dict[UnitKey, UnitDetail] = field(default_factory=dict)
    parents: dict[str, int] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)
    started: list[TrackedUnit] = field(default_factory=list)
    ended: list[TrackedUnit] = field(default_factory=list)
    told: list[TrackedUnit] = field(default_factory=list)
    next_inode: int = 100
    restored: Mapping[str, int] | None = None
    fail: bool = False

    def start(
        self,
        name: str,
        *,
        milli_cpus: int | None = None,
        memory_bytes: int | None = None,
        cpuset: frozenset[int] | None = None,
        outer: UnitKey | None = None,
        cgroup: str | None = None,
        from_creation: bool = True,
        already_ns: int = 0,
        manager: str = "slurm",
    ) -> UnitKey:
        key = unit_key(name, manager)
        path = cgroup or f"/jobs/job_{name}"
        parent = path.rsplit("/", 1)[0] or "/"
        self.next_inode += 1
        self.units[key] = TrackedUnit(
            key=key,
            cgroup=path,
            inode=self.next_inode,
            outer=outer,
            parent_cgroup=parent,
            info=UnitInfo(name=name),
            allocation=Allocation(milli_cpus, memory_bytes, cpuset),
            from_creation=from_creation,
            first_seen_ns=self.clock.boottime,
            counts_from_ns=self.clock.boottime if from_creation else None,
        )
        self.cpu[key] = CpuReading(already_ns)
        self.started.append(self.units[key])
        return key

    def use(self, key: UnitKey, cpu_ns: int) -> None:
        """Let a unit, everything it lies in and every directory above use CPU."""
        path = self.units[key].cgroup or ""
        for other, unit in self.units.items():
            if path == unit.cgroup or path.startswith(f"{unit.cgroup}/"):
                self.cpu[other] = replace(self.cpu[other], total_ns=self.cpu[other].total_ns + cpu_ns)
        for parent in self.parents:
            if path.startswith("/" if parent == "/" else f"{parent}/"):
                self.parents[parent] += cpu_ns

    def end(self, key: UnitKey) -> None:
        unit = self.units.pop(key)
        self.cpu.pop(key)
        self.details.pop(key, None)
        self.ended.append(replace(unit, ended_ns=self.clock.boottime))

    def step(self, now_ns: int) -> StepReading:
        if self.fail:
            raise Unavailable("permission", "/sys/fs/cgroup: closed")
        found = {path: key for key, unit in self.units.items() for path in [unit.cgroup]}
        reading = StepReading(
            cpu=dict(self.cpu),
            parents=tuple(
                ParentReading(path, CpuReading(total), found.get(path), path in self.mixed)
                for path, total in self.parents.items()
            ),
            started=tuple(self.started),
            ended=tuple(self.ended),
            told=tuple(self.told),
        )
        self.started, self.ended, self.told = [], [], []
        return reading

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        return dict(self.units)

    def owner_of(self, pid: int) -> UnitKey | None:
        return self.owners.get(pid)

    def detail(self, key: UnitKey) -> UnitDetail:
        if key not in self.units:
            raise NoData("gone")
        return self.details.get(key, UnitDetail())

    def saved(self) -> Mapping[str, int]:
        return {unit.cgroup: unit.inode for unit in self.units.values() if unit.cgroup and unit.inode is not None}

    def restore(self, saved_inodes: Mapping[str, int], runs: Mapping[int, str]) -> None:
        self.restored = saved_inodes
        known = set(saved_inodes.values())
        for key, unit in self.units.items():
            self.units[key] = replace(
                unit, from_creation=unit.inode not in known, counts_from_ns=None, first_seen_ns=self.clock.boottime
            )

    def close(self) -> None:
        pass


@dataclass
class HandMeter:
    """A meter whose zones are set by the test: microjoules, or microwatts where `powers` has the zone."""

    source: str = "powercap"
    method: Method = Method.COUNTER
    counters: dict[Domain, int] = field(default_factory=dict)
    powers: dict[Domain, int] = field(default_factory=dict)
    range_uj: int | None = 262_143_328_850
    covers: frozenset[Component] = frozenset()
    refresh_seconds: float = 0.0
    needs_proof: bool = False
    p_max_watts: int = 4000
    broken: str = ""
    pending: bool = False

    @property
    def domains(self) -> tuple[Domain, ...]:
        return (*self.counters, *self.powers)

    @domains.setter
    def domains(self, _: tuple[Domain, ...]) -> None:
        raise AttributeError

    def add(self, domain: Domain, energy_uj: int) -> None:
        """Let a counter rise, and wrap where the hardware's would."""
        value = self.counters[domain] + energy_uj
        self.counters[domain] = value if self.range_uj is None else value % (self.range_uj + 61)

    def read(self, now_ns: int) -> Sequence[Reading]:
        if self.broken:
            raise Unavailable(self.broken, f"{self.source}: {self.broken}")
        if self.pending:
            raise NoData(f"{self.source}: not answered yet")
        found = [
            Reading(domain, str(domain), now_ns, counter_uj=value, range_uj=self.range_uj)
            for domain, value in self.counters.items()
        ]
        return found + [Reading(domain, str(domain), now_ns, power_uw=value) for domain, value in self.powers.items()]

    def p_max_uw(self, domain: Domain) -> int:
        return self.p_max_watts * WATT

    def close(self) -> None:
        pass


@dataclass
class HandSink:
    """A journal in memory that can be told to refuse."""

    slots: list[Slot] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    seq: int = 0
    refuse: str = ""

    @property
    def next_seq(self) -> int:
        return self.seq + 1

    def append(self, slot: Slot, saved_state_json: str) -> None:
        if self.refuse:
            raise JournalError(self.refuse, f"journal: {self.refuse}")
        self.slots.append(slot)
        self.states.append(saved_state_json)
        self.seq = slot.seq

    def last_state(self) -> str | None:
        return self.states[-1] if self.states else None


@dataclass
class World:
    """A node with its sampler. `ticks` are user ticks by CPU."""

    clock: HandClock
    units: HandUnits
    meters: list[HandMeter]
    sink: HandSink
    sockets: tuple[int, ...]
    idle_uw: dict[Domain, int]
    policy: IdlePolicy
    timing: SlotTiming
    memory_bytes: int
    ticks: dict[int, int]
    fed: bool = False
    """Whether units of libvirt are told their energy."""
    gpus: GpuBook | None = None
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = self.new_sampler()

    @property
    def topology(self) -> Topology:
        return Topology(dict(enumerate(str(socket) for socket in self.sockets)))

    def stat(self) -> CpuStat:
        cpus = {cpu: CpuTimes(ticks, 0, 0, 0) for cpu, ticks in self.ticks.items()}
        return CpuStat(CpuTimes(sum(self.ticks.values()), 0, 0, 0), cpus, 0)

    def new_sampler(self) -> Sampler:
        """Return a sampler that knows nothing yet: the process starts again."""
        self.sink.seq = 0
        alone = "hypervisor" if any(meter.source == "hypervisor" for meter in self.meters) else None
        bank = MeterBank(self.meters, {}, SECOND, alone)
        platforms = [
            PlatformBook(meter, bank, SECOND)
            for meter in self.meters
            if any(domain.kind is DomainKind.PLATFORM for domain in meter.domains)
        ]
        methods = {meter.source: meter.method for meter in self.meters}

        def baseline(source: str, domain: Domain) -> IdleBaseline:
            known = self.idle_uw.get(domain)
            return IdleBaseline(known or WATT, known, learns=methods[source] is not Method.MODELLED)

        parts = NodeParts(
            clock=self.clock,
            boot_id="boot-1",
            read_stat=self.stat,
            cpu=NodeCpu(self.topology),
            units=[self.units],
            bank=bank,
            energy=EnergyBook(bank, baseline, self.policy, platforms, self.gpus),
            weigher=Weigher(self.memory_bytes),
            sink=self.sink,
            board=TotalsBoard(),
            gpus=self.gpus,
            guests=GuestBook(lambda unit: unit.key.manager == "libvirt") if self.fed else None,
        )
        return Sampler(parts, self.timing)

    def busy(self, cpu: int, duration_ns: int) -> None:
        """Let a CPU be busy, in whole ticks of 10 ms."""
        self.ticks[cpu] += duration_ns // 10_000_000

    def step(self, duration_ns: int = SECOND) -> None:
        self.clock.advance(duration_ns)
        self.sampler.step()


def make_world(
    *,
    sockets: tuple[int, ...] = (0, 0, 0, 0),
    idle_watts: Mapping[Domain, float] | None = None,
    meters: Sequence[HandMeter] | None = None,
    policy: IdlePolicy = IdlePolicy.ALLOCATION,
    slot_seconds: float = 60,
    memory_bytes: int = 8 * GIB,
    fed: bool = False,
) -> World:
    """Return a node with one CPU per entry of `sockets` and, unless told otherwise, one RAPL zone per socket."""
    clock = HandClock()
    cpu_domains = [Domain(DomainKind.CPU, str(socket)) for socket in sorted(set(sockets))]
    found = [HandMeter(counters=dict.fromkeys(cpu_domains, 5_000_000))] if meters is None else list(meters)
    idle = {domain: int(watts * WATT) for domain, watts in (idle_watts or {}).items()}
    return World(
        clock=clock,
        units=HandUnits(clock, parents={"/jobs": 0}),
        meters=found,
        sink=HandSink(),
        sockets=sockets,
        idle_uw=idle,
        policy=policy,
        timing=SlotTiming(slot_ns=int(slot_seconds * SECOND)),
        memory_bytes=memory_bytes,
        ticks=dict.fromkeys(range(len(sockets)), 0),
        fed=fed,
    )
