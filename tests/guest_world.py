"""A host made of numbers that tells its virtual machines their energy, and guests made of numbers that take it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.sampling_world import SECOND, HandMeter, World, make_world

from kwhere.agent.guest_shown import GuestMoment, ShownGuests, parse_shown
from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.core.unit import UnitKey
from kwhere.ledger.closure import residuals
from kwhere.ledger.rows import ENERGY_COLUMNS, Entry, Slot
from kwhere.meters.guest_entry import encode_entry
from kwhere.meters.hypervisor import DOMAIN_OF, SOURCE, FeedSource
from kwhere.meters.meter import PLATFORM, Domain, Reading
from kwhere.sampling.saved import SavedState

CPU0, DRAM0 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.DRAM, "0")
Row = tuple[int, ...]
"""Microjoules in the order of the energy columns."""


@dataclass
class Feed:
    """What lies on the share of one guest; None: nothing."""

    data: bytes | None = None
    place: str = "share"

    def fetch(self) -> bytes:
        if self.data is None:
            raise Unavailable("absent", "share: nothing there")
        return self.data

    def close(self) -> None:
        pass


@dataclass
class FeedMeter(HandMeter):
    """The meter of a guest, asked in the step itself."""

    source: str = SOURCE
    method: Method = Method.HYPERVISOR
    counters: dict[Domain, int] = field(default_factory=lambda: dict.fromkeys(DOMAIN_OF.values(), 0))
    ask: Callable[[], Sequence[Reading]] = list

    def read(self, now_ns: int) -> Sequence[Reading]:
        return self.ask()


@dataclass
class Host:
    """A hypervisor with one socket, its memory and a meter of the whole node."""

    name: str
    world: World
    shown: ShownGuests = field(init=False)
    text: str = ""
    """The file of last words."""

    def __post_init__(self) -> None:
        self.shown = ShownGuests(self.name)

    def start_vm(self, name: str, milli_cpus: int = 2000) -> UnitKey:
        return self.world.units.start(name, manager="libvirt", milli_cpus=milli_cpus, memory_bytes=2**30)

    def run(self, used_ms: dict[UnitKey, int], cpu_uj: int, dram_uj: int, more_uj: int) -> None:
        """One second: units use CPU, the meters rise."""
        for key, milliseconds in used_ms.items():
            self.world.units.use(key, milliseconds * 1_000_000)
            self.world.busy(0, milliseconds * 1_000_000)
        cpu, platform = self.world.meters
        cpu.add(CPU0, cpu_uj)
        cpu.add(DRAM0, dram_uj)
        platform.add(PLATFORM, cpu_uj + dram_uj + more_uj)
        self.world.step()

    def publish(self) -> dict[UnitKey, bytes]:
        """Return what each guest is told, as it travels."""
        sampler, book = self.world.sampler, self.world.sampler.parts.guests
        assert book is not None
        node_uj = dict(sampler.control.totals_uj())
        clock = self.world.clock
        moment = GuestMoment(book.now(sampler.accounts), node_uj, clock.monotonic_ns(), clock.utc_ns())
        entries = self.shown.advance(moment, book.renew)
        self.text = self.shown.to_json()
        return {key: encode_entry(entry) for key, entry in entries.items()}

    def restart(self) -> None:
        """Kill the agent and start it again in the same boot: what was not in a slot or a file is forgotten."""
        text = self.world.sink.last_state()
        self.world.sampler = self.world.new_sampler()
        if text is not None:
            self.world.sampler.restore(SavedState.from_json(text))
        self.world.step()
        self.shown = ShownGuests(self.name, parse_shown(self.text) if self.text else None)

    def entry_of(self, key: UnitKey) -> Row:
        """Return what the ledger of this host says of one VM, all slots together."""
        return total(entry for slot in self.world.sink.slots for entry in slot.entries if entry.key == key)


class Guest:
    """A virtual machine's own agent."""

    def __init__(self, slot_seconds: float = 30) -> None:
        self.feed = Feed()
        self.meter = FeedMeter()
        others = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)  # garbage, never believed
        self.world = make_world(sockets=(0, 0), meters=[self.meter, others], slot_seconds=slot_seconds)
        self._ask_anew()

    def _ask_anew(self) -> None:
        self.source = FeedSource(self.feed, 60, self.world.clock.monotonic_ns)
        self.meter.ask = self.source.ask

    def run(self, used_ms: dict[UnitKey, int]) -> None:
        """One second: units use CPU, the model says what nobody should believe."""
        for key, milliseconds in used_ms.items():
            self.world.units.use(key, milliseconds * 1_000_000)
            self.world.busy(0, milliseconds * 1_000_000)
        self.world.meters[1].add(CPU0, 10**9)
        self.world.step()

    def restart(self) -> None:
        """Kill the agent and start it again in the same boot."""
        text = self.world.sink.last_state()
        self.world.sampler = self.world.new_sampler()
        self._ask_anew()
        if text is not None:
            self.world.sampler.restore(SavedState.from_json(text))

    def account(self) -> Row:
        """Return what this guest's ledger says in all, every slot closed."""
        assert all(residuals(slot) == {} for slot in self.world.sink.slots)
        return total(entry for slot in self.world.sink.slots for entry in slot.entries)

    def gaps(self) -> dict[str, int]:
        return dict(self.world.sampler.parts.bank.gaps[SOURCE].by_cause)


def make_host(name: str = "hv1", slot_seconds: float = 40) -> Host:
    """Return a host whose VMs are fed, before its first step."""
    inside = frozenset({Component.CPU, Component.DRAM})
    meters = [
        HandMeter(counters={CPU0: 5_000_000, DRAM0: 7_000_000}),
        HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=inside, range_uj=None),
    ]
    idle = {CPU0: 10.0, DRAM0: 1.0, PLATFORM: 20.0}
    world = make_world(meters=meters, idle_watts=idle, slot_seconds=slot_seconds, sockets=(0, 0, 0, 0), fed=True)
    return Host(name, world)


def total(entries: Iterable[Entry]) -> Row:
    """Return the sum of entries, column by column."""
    sums = [0] * len(ENERGY_COLUMNS)
    for entry in entries:
        for i, column in enumerate(ENERGY_COLUMNS):
            sums[i] += entry.figures.energy_uj.get(column, 0)
    return tuple(sums)


def finish(world: World) -> Slot:
    """Close the open slot."""
    world.clock.advance(SECOND)
    slot = world.sampler.finish().slot
    assert slot is not None
    return slot
