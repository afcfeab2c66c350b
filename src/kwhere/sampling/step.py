"""One step, end to end: read, weigh, split, sum; and the slot that a step may close."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.clock import Clock
from kwhere.core.errors import JournalError, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, Flag
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import StepReading, TrackedUnit, UnitSource
from kwhere.energy.baseline import IdleOrigin
from kwhere.kernel.stat import CpuStat
from kwhere.ledger.closure import residuals
from kwhere.ledger.rows import Slot
from kwhere.sampling.accounts import Accounts
from kwhere.sampling.control import ControlSums
from kwhere.sampling.cpu_book import CpuBook, UnitTimes
from kwhere.sampling.detail_book import DetailBook
from kwhere.sampling.energy_book import Booking, EnergyBook
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.gpu_shown import LONGEST_UNSEEN_NS
from kwhere.sampling.gpu_uses import book_places
from kwhere.sampling.guest_book import GuestBook
from kwhere.sampling.meter_bank import MeterBank
from kwhere.sampling.node_cpu import BusyStep, NodeCpu
from kwhere.sampling.saved import SavedState
from kwhere.sampling.slot_sink import SlotSink
from kwhere.sampling.slots import OpenSlot, close, settle
from kwhere.sampling.totals import TotalsBoard
from kwhere.sampling.weighing import Holdings, Weigher
from kwhere.sampling.weights import Weights

RUN_MANAGER = "run"
"""Manager of the commands under `kwhere run`, which asks for a last close look."""
SUSPEND_NS = 100_000_000
"""Boot time that runs ahead of monotonic time by more than this within a step: the machine slept."""


@dataclass(frozen=True, slots=True)
class SlotTiming:
    """How long slots, details and the memory of ended units last, in nanoseconds."""

    slot_ns: int = 60 * NANOSECONDS_PER_SECOND
    first_slot_ns: int | None = None
    """Length of the first slot of a process; None: as the others."""
    detail_ns: int = 15 * NANOSECONDS_PER_SECOND
    ended_ns: int = 300 * NANOSECONDS_PER_SECOND
    retry_ns: int = 10 * NANOSECONDS_PER_SECOND
    """After the journal refused a slot."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What the sampler reads and writes; each part is built elsewhere."""

    clock: Clock
    boot_id: str
    read_stat: Callable[[], CpuStat]
    cpu: NodeCpu
    units: Sequence[UnitSource]
    bank: MeterBank
    energy: EnergyBook
    weigher: Weigher
    sink: SlotSink
    board: TotalsBoard
    gpus: GpuBook | None = None
    """None where no vendor's GPUs are seen."""
    guests: GuestBook | None = None
    """Where virtual machines on this host are told their own energy."""
    is_turning: Callable[[], bool] | None = None
    """Whether the open slot has to end with this step: another host feeds this guest from now on."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did that its caller may want to tell."""

    slot: Slot | None = None
    """The slot that was closed and is durable."""
    journal_error: JournalError | None = None
    unbalanced_uj: Mapping[Component, int] = field(default_factory=dict)
    """Where a slot did not close: control less entries. Never set right."""
    read_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Moment:
    monotonic_ns: int
    boottime_ns: int
    utc_ns: int


class Sampler:
    """Steps through time on one thread. `board` shows its totals to others."""

    def __init__(self, parts: NodeParts, timing: SlotTiming | None = None) -> None:
        self._parts = parts
        self._timing = timing or SlotTiming()
        self.accounts = Accounts()
        self.control = ControlSums()
        self.cpu_book = CpuBook()
        self.details = DetailBook(self.accounts)
        self.slots = 0
        """Closed slots since the process began."""
        self.steps = 0
        """Whole steps since the process began."""
        self.residual_uj = 0
        self.unbalanced_slots = 0
        self.read_errors = 0
        self.created_utc_ns = parts.clock.utc_ns()
        self._last: _Moment | None = None
        self._slot: OpenSlot | None = None
        self._step_ns = 0
        """Length of the last step."""
        self._slot_due_ns = 0
        self._retry_due_ns = 0
        self._detail_due_ns = 0
        self._gap = False

    @property
    def parts(self) -> NodeParts:
        """Return what this sampler works with."""
        return self._parts

    @property
    def last_utc_ns(self) -> int:
        """Return the wall time of the last step."""
        return self._last.utc_ns if self._last is not None else self.created_utc_ns

    def restore(self, state: SavedState) -> bool:
        """Take up a saved state before the first step. Return whether it is of this boot: then nothing is lost.

        Learned idle powers are taken up in any case; counters of another boot mean nothing.
        """
        parts = self._parts
        for place, learned in state.baselines.items():
            if parts.bank.has(*place):
                parts.energy.baseline(*place).restore(learned)
        now = self._now()
        if state.boot_id != parts.boot_id or state.monotonic_ns > now.monotonic_ns:
            return False
        parts.cpu.restore({cpu: _five(ticks) for cpu, ticks in state.cpu_ticks.items()})
        parts.weigher.restore(state.socket_carry_ns)
        self.cpu_book.restore(state.marks, state.directories, state.container_carries)
        self.details.restore(state.details)
        parts.bank.restore(state.domains)
        parts.energy.await_spans(domain for source, domain in state.domains if parts.bank.has(source, domain))
        if parts.guests is not None:
            parts.guests.restore(state.guests)
        if parts.gpus is not None and now.monotonic_ns - state.monotonic_ns <= LONGEST_UNSEEN_NS:
            parts.gpus.shown.restore(state.idle_gpus)
        if state.platform is not None:
            parts.energy.restore_platform(state.platform)
        for source in parts.units:
            source.restore(state.scans.get(type(source).__name__, {}), state.runs)
        self._last = _Moment(state.monotonic_ns, state.boottime_ns, state.utc_ns)
        self._slot = OpenSlot(state.utc_ns, state.monotonic_ns, {Flag.GAP})
        self._gap = True
        return True

    def step(self, *, closely: bool = False) -> StepResult:
        """Do one step. The first takes baselines, or books the interval since the last slot of this boot.

        `closely` reads runs in full: one of them is about to go.
        """
        now = self._now()
        try:
            stat = self._parts.read_stat()
        except (Unavailable, SourceError) as error:
            self.read_errors += 1
            return StepResult(read_errors=(str(error),))
        last = self._last or now
        elapsed_ns = self._step_ns = max(0, now.monotonic_ns - last.monotonic_ns)
        slept_ns = (now.boottime_ns - now.monotonic_ns) - (last.boottime_ns - last.monotonic_ns)
        readings, errors = self._read_units(now.boottime_ns)
        busy = self._parts.cpu.step(stat)
        meters = self._parts.bank.read(
            now.monotonic_ns, suspended=slept_ns > SUSPEND_NS, read_clock_ns=self._parts.clock.monotonic_ns
        )
        # Of two sources that know a unit by the same run, the first counts it.
        live = {key: unit for source in reversed(self._parts.units) for key, unit in source.live().items()}
        times = self.cpu_book.step(
            readings, live, now_ns=now.boottime_ns, elapsed_ns=elapsed_ns, cpus=max(1, len(stat.cpus))
        )
        with self._parts.board.lock:
            if self._slot is None:
                self._open_slot(now)
            self._account(times, busy, elapsed_ns)
            weights, holdings = self._weigh(times, busy, elapsed_ns)
            self._hold(times, holdings)
            self._hold_gpus(times, now.monotonic_ns, elapsed_ns)
            self._book(
                self._parts.energy.step(
                    meters, weights, self._parts.cpu.topology, now_ns=now.monotonic_ns, utc_ns=now.utc_ns
                )
            )
            self._read_details(readings, live, now, closely=closely)
            self._end(readings, now)
            self._last = now
            self.steps += 1
            self._parts.board.moved()
        result = self._close_if_due(now)  # without the lock: no reader waits for the journal's disk
        return StepResult(result.slot, result.journal_error, result.unbalanced_uj, errors)

    def finish(self) -> StepResult:
        """Do a last step and close the slot, short as it may be."""
        self._slot_due_ns = 0
        self._retry_due_ns = 0
        return self.step()

    def saved(self, utc_ns: int) -> SavedState:
        """Return what a restart needs, as it stands after the last step."""
        assert self._last is not None
        parts = self._parts
        return SavedState(
            boot_id=parts.boot_id,
            utc_ns=utc_ns,
            monotonic_ns=self._last.monotonic_ns,
            boottime_ns=self._last.boottime_ns,
            cpu_ticks=parts.cpu.saved(),
            socket_carry_ns=parts.weigher.carry_ns,
            marks=self.cpu_book.marks(),
            directories=self.cpu_book.directories(),
            container_carries=self.cpu_book.carries(),
            details=self.details.saved(),
            scans={type(source).__name__: source.saved() for source in parts.units},
            domains=parts.bank.saved(),
            platform=parts.energy.saved_platform(),
            baselines={place: baseline.saved() for place, baseline in parts.energy.baselines.items()},
            guests=parts.guests.saved(self.accounts) if parts.guests is not None else {},
            idle_gpus=parts.gpus.shown.saved() if parts.gpus is not None else {},
        )

    def _now(self) -> _Moment:
        clock = self._parts.clock
        return _Moment(clock.monotonic_ns(), clock.boottime_ns(), clock.utc_ns())

    def _read_units(self, now_ns: int) -> tuple[list[StepReading], tuple[str, ...]]:
        readings: list[StepReading] = []
        errors = []
        for source in self._parts.units:
            try:
                readings.append(source.step(now_ns).without({key for found in readings for key in found.cpu}))
            except (Unavailable, SourceError) as error:  # its counters go on: the next step catches up
                self.read_errors += 1
                errors.append(str(error))
        return readings, tuple(errors)

    def _account(self, times: UnitTimes, busy: BusyStep, elapsed_ns: int) -> None:
        """Add the step's CPU time to the units' sums and to the open slot."""
        assert self._slot is not None
        if elapsed_ns:
            self._slot.node_user_ns += busy.user_ns
            self._slot.node_busy_ns += busy.busy_ns
        for unit, own_ns, reading in zip(times.roster.units, times.own_ns, times.readings, strict=True):
            account = self.accounts.of(unit)
            if account.ended_ns is not None and unit.ended_ns is None:
                account.come_back()
            account.unit = unit
            account.sums.cpu_ns += own_ns
            if reading is not None:
                account.cpu = reading
        for i in times.ended:
            self.accounts.of(times.roster.units[i]).flags.add(Flag.ENDED)

    def _weigh(self, times: UnitTimes, busy: BusyStep, elapsed_ns: int) -> tuple[Weights, Holdings]:
        topology = self._parts.cpu.topology
        weigher = self._parts.weigher
        if weigher.moved_to(topology):
            self._parts.energy.forget_spans()
        holdings = weigher.holdings(times.roster, topology, self.details.resident_bytes, self.details.version)
        weights = weigher.weigh(times, busy, topology, holdings, elapsed_ns)
        self.accounts.system.sums.cpu_ns += sum(weights.system_ns)
        return weights, holdings

    def _hold(self, times: UnitTimes, holdings: Holdings) -> None:
        """Add allocated time to the sums of units whose allocation is known."""
        for unit, lived_ns, milli, memory in zip(
            times.roster.units, times.lived_ns, holdings.milli_cpus_total, holdings.memory_allocated, strict=True
        ):
            if unit.allocation.milli_cpus is None and memory is None:
                continue
            sums = self.accounts.of(unit).sums
            if unit.allocation.milli_cpus is not None:
                sums.cpu_allocated_ns = (sums.cpu_allocated_ns or 0) + milli * lived_ns // 1000
            if memory is not None:
                sums.memory_allocated_byte_ns = (sums.memory_allocated_byte_ns or 0) + memory * lived_ns

    def _hold_gpus(self, times: UnitTimes, now_ns: int, elapsed_ns: int) -> None:
        """Take in who holds which GPU in this step, before its energy is split."""
        if self._parts.gpus is not None:
            lived_ns = {unit.key: lived for unit, lived in zip(times.roster.units, times.lived_ns, strict=True)}
            self._parts.gpus.step(lived_ns, self.accounts, now_ns, elapsed_ns)

    def _book(self, bookings: Sequence[Booking]) -> None:
        assert self._slot is not None
        for booking in bookings:
            self.control.add(
                booking.component,
                booking.domain,
                booking.energy_uj,
                booking.span_ns,
                method=booking.method,
                source=booking.source,
            )
        for booking in bookings:
            over = booking.split.overcommitted
            holders = [i for i, held in enumerate(booking.held) if held] if over else ()
            self.accounts.book(booking.component, booking.keys, booking.split, overcommitted=holders)
            if booking.gpu is not None:
                gpu = booking.gpu
                book_places(self.accounts, gpu.keys, gpu.places, booking.split, by_slices=gpu.by_slices)
            if over:
                self._slot.flags.add(Flag.OVERCOMMITTED)
            if booking.idle_origin is IdleOrigin.TABLE:
                self._slot.flags.add(Flag.IDLE_TABLE)

    def _read_details(
        self,
        readings: Sequence[StepReading],
        live: Mapping[UnitKey, TrackedUnit],
        now: _Moment,
        *,
        closely: bool,
    ) -> None:
        """Read everything of all units when it is due or the slot closes, else of those that came or went."""
        if now.boottime_ns >= self._detail_due_ns or self._is_due(now):
            self._detail_due_ns = now.boottime_ns + self._timing.detail_ns
            wanted = dict(live)
        else:
            wanted = {unit.key: unit for reading in readings for unit in reading.started}
            wanted |= {key: unit for key, unit in live.items() if closely and key.manager == RUN_MANAGER}
        wanted |= {unit.key: unit for reading in readings for unit in reading.ended}
        for source in self._parts.units:
            mine = {unit.key for reading in readings for unit in reading.ended} | source.live().keys()
            chosen = [unit for key, unit in wanted.items() if key in mine]
            if chosen:
                self.details.read(chosen, source.detail, now.boottime_ns)

    def _end(self, readings: Sequence[StepReading], now: _Moment) -> None:
        for reading in readings:
            for unit in reading.ended:
                self.details.forget(unit)
                self.accounts.of(unit).ended_ns = now.boottime_ns
            for unit in reading.told:
                self.accounts.tell(unit)

    def _open_slot(self, now: _Moment) -> None:
        self._slot = OpenSlot(now.utc_ns, now.monotonic_ns)
        self._schedule(now)

    def _schedule(self, now: _Moment) -> None:
        first_ns = self._timing.first_slot_ns if self.slots == 0 else None
        self._slot_due_ns = now.monotonic_ns + (first_ns or self._timing.slot_ns)

    def _is_due(self, now: _Moment) -> bool:
        slot = self._slot
        return (
            slot is not None
            and slot.length_ns(now.monotonic_ns) > 0
            and now.monotonic_ns >= self._retry_due_ns
            and (
                self._gap
                or self._is_time(now)
                or slot.clock_stepped(now.utc_ns, now.monotonic_ns)
                or (self._parts.is_turning is not None and self._parts.is_turning())
            )
        )

    def _is_time(self, now: _Moment) -> bool:
        """Return whether this step is the nearest to the slot's end: steps are never on the nanosecond."""
        return now.monotonic_ns >= self._slot_due_ns - self._step_ns // 2

    def _close_if_due(self, now: _Moment) -> StepResult:
        assert self._slot is not None
        if not self._is_due(now):
            return StepResult()
        sink = self._parts.sink
        slot = close(
            self._slot,
            sink.next_seq,
            self.accounts,
            self.control,
            utc_ns=now.utc_ns,
            monotonic_ns=now.monotonic_ns,
        )
        unbalanced = residuals(slot)
        next_start_ns = now.utc_ns if Flag.CLOCK in slot.flags else slot.end_ns
        try:
            sink.append(slot, self.saved(next_start_ns).to_json())
        except JournalError as error:
            self._retry_due_ns = now.monotonic_ns + self._timing.retry_ns
            return StepResult(journal_error=error, unbalanced_uj=unbalanced)
        with self._parts.board.lock:
            self.residual_uj += sum(abs(rest) for rest in unbalanced.values())
            self.unbalanced_slots += bool(unbalanced)
            self._start_next(slot, next_start_ns, now)
            self._parts.board.moved()
        return StepResult(slot=slot, unbalanced_uj=unbalanced)

    def _start_next(self, slot: Slot, start_utc_ns: int, now: _Moment) -> None:
        settle(self.accounts, self.control, slot.monotonic_ns)
        if self._gap:  # totals begin with the process; what was caught up is in the ledger alone
            self._gap = False
            if self._parts.guests is not None:
                self._parts.guests.rebase(self.accounts)
            self.accounts.rebase()
            self.control.rebase()
            self._parts.bank.rebase()
        else:
            self.slots += 1
        self.accounts.retire(now.boottime_ns - self._timing.ended_ns)
        self._parts.energy.start_slot()
        self._slot = OpenSlot(start_utc_ns, now.monotonic_ns)
        self._schedule(now)


def _five(ticks: Sequence[int]) -> tuple[int, int, int, int, int]:
    user, nice, system, irq, softirq = ticks
    return user, nice, system, irq, softirq
