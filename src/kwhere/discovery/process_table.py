"""Every process followed from step to step, so that each tick of CPU time is booked once.

A process's CPU time shows in its own counters while it lives, and once more in its parent's counters of waited-for
children after it is reaped. So what a parent's counters gain is booked to the parent less what was booked to those
children while they lived. A child whose end nobody sees (too short, or reaped by the kernel) cannot be told otherwise.

Parents are read before their children: then a parent's counters never hold a child that still shows as alive.
Processes are kept in the order of their start, and a parent, adoptive ones too, starts before its children.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS, KeptFile
from kwhere.kernel.processes import TICK_NS, ProcessStat, list_pids, parse_process_stat

_FEW = 300
"""So many processes are all read at each step."""
_IDLE_READS = 8
"""After so many unchanged readings a process is read every fourth step only."""
_IDLE_STRIDE = 4


@dataclass(slots=True)
class Process:
    """One process as followed. `debit` and `slack` are ticks its children's counters will repeat, or may repeat."""

    pid: int
    stat: ProcessStat
    file: KeptFile | None
    raw: bytes
    unchanged: int = 0
    read_step: int = 0
    read_ns: int = 0
    gained_user: int = 0
    gained_system: int = 0
    """Gain of the counters of waited-for children, not yet booked."""
    debit: int = 0
    old_debit: int = 0
    slack: int = 0
    old_slack: int = 0
    is_foreign: bool = False
    """Its CPU time is accounted elsewhere, by its cgroup."""

    @property
    def known_ticks(self) -> int:
        """Return all ticks of it and its waited-for children that are booked or will be."""
        return self.stat.own_ticks + self.stat.children_ticks

    @property
    def unexplained_ticks(self) -> int:
        """Return how much of its gain no child's own book explains yet."""
        return self.gained_user + self.gained_system - self.debit - self.old_debit


@dataclass(frozen=True, slots=True)
class Booking:
    """Ticks to book to whom the process belongs to."""

    process: Process
    user_ticks: int
    system_ticks: int


class ProcessTable:
    """Walks `/proc` and tells who used how much since the last walk."""

    def __init__(self, fs: HostFS, cpus: int, few: int = _FEW) -> None:
        self._fs = fs
        self._cpus = cpus
        self._few = few
        self._processes: dict[int, Process] = {}
        self._step = 0
        self._walked_ns: int | None = None
        self._lost: list[tuple[int, int, int, int]] = []
        self._restored: dict[tuple[int, int], tuple[int, int]] = {}
        self.started: list[Process] = []
        self.ended: list[Process] = []
        self.failures = 0
        """Readings that were nonsense, so far."""

    def __iter__(self) -> Iterator[Process]:
        return iter(self._processes.values())

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def walked_ns(self) -> int | None:
        """Return the boot time of the last walk."""
        return self._walked_ns

    def restore(self, walked_ns: int, known: dict[tuple[int, int], tuple[int, int]]) -> None:
        """Take up from an earlier walk of this boot: (pid, start) → (parent, ticks); call before the first walk."""
        self._walked_ns = walked_ns
        self._restored = dict(known)

    def saved(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return (pid, start) → (parent, ticks booked) of every process."""
        return {
            (p.pid, p.stat.start_ticks): (p.stat.parent, p.known_ticks - p.gained_user - p.gained_system)
            for p in self._processes.values()
        }

    def walk(self, now_ns: int) -> list[Booking]:
        """Return what was used since the last walk; the first walk only takes the readings down."""
        self.started, self.ended, self._lost = [], [], []
        self._step += 1
        listed = set(list_pids(self._fs))
        bookings: list[Booking] = []
        for pid in [pid for pid in self._processes if pid not in listed]:
            self._end(self._processes[pid], now_ns)
        skipped = self._read_known(listed, bookings, now_ns)
        self._read_new(listed, bookings, now_ns)
        self._end_children_of_gainers(skipped, now_ns)
        self._settle_restored()
        self._hand_out_debits()
        bookings.extend(self._settle())
        self._walked_ns = now_ns
        return bookings

    def close(self) -> None:
        """Give back the descriptors."""
        for process in self._processes.values():
            if process.file is not None:
                process.file.close()

    def _read_known(self, listed: Collection[int], bookings: list[Booking], now_ns: int) -> list[Process]:
        skipped = []
        spare = len(listed) > self._few
        for process in list(self._processes.values()):
            if spare and self._may_wait(process):
                skipped.append(process)
            else:
                self._read(process, bookings, now_ns)
        return skipped

    def _may_wait(self, process: Process) -> bool:
        """Return whether a process that has long been idle is left for one of the next steps."""
        idle = process.unchanged >= _IDLE_READS and not process.debit and not process.old_debit
        return idle and (process.pid + self._step) % _IDLE_STRIDE != 0

    def _read_new(self, listed: Collection[int], bookings: list[Booking], now_ns: int) -> None:
        found = []
        for pid in sorted(pid for pid in listed if pid not in self._processes):
            process = self._first_reading(pid, now_ns)
            if process is not None:
                found.append(process)
        found.sort(key=lambda process: process.stat.start_ticks)  # stable: within a tick by pid
        for process in found:
            self._processes[process.pid] = process
            self.started.append(process)
            self._book_first(process, bookings)

    def _end_children_of_gainers(self, skipped: list[Process], now_ns: int) -> None:
        """Find out which children left out in this walk are gone, where their parent's gain may hold them.

        Only that: a full reading now would come after its own children's, and break the order.
        """
        gainers = {p.pid for p in self._processes.values() if p.gained_user or p.gained_system}
        for process in skipped:
            if process.stat.parent in gainers and not self._fs.exists(f"proc/{process.pid}/stat"):
                self._end(process, now_ns)

    def _read(self, process: Process, bookings: list[Booking], now_ns: int) -> None:
        try:
            data = process.file.read() if process.file is not None else self._fs.read(f"proc/{process.pid}/stat")
            process.read_step, process.read_ns = self._step, now_ns
            if data == process.raw:
                process.unchanged += 1
                return
            stat = parse_process_stat(data, f"proc/{process.pid}/stat")
        except Unavailable:
            self._end(process, now_ns)
            return
        except SourceError:
            self.failures += 1
            return
        if stat.start_ticks != process.stat.start_ticks:  # the number was given to another process
            self._end(process, now_ns)
            return
        before = process.stat
        moved = stat.own_ticks != before.own_ticks or stat.children_ticks != before.children_ticks
        process.stat, process.raw = stat, data
        process.unchanged = 0 if moved else process.unchanged + 1
        user = max(0, stat.user_ticks - before.user_ticks)
        system = max(0, stat.system_ticks - before.system_ticks)
        process.gained_user += max(0, stat.children_user_ticks - before.children_user_ticks)
        process.gained_system += max(0, stat.children_system_ticks - before.children_system_ticks)
        if user or system:
            bookings.append(Booking(process, user, system))

    def _first_reading(self, pid: int, now_ns: int) -> Process | None:
        area_path = f"proc/{pid}/stat"
        try:
            file = self._fs.keep(area_path)
        except (Unavailable, SourceError):
            return None
        try:
            data = file.read()
            stat = parse_process_stat(data, area_path)
        except Unavailable:
            file.close()
            return None
        except SourceError:
            self.failures += 1
            file.close()
            return None
        return Process(pid, stat, file, data, read_step=self._step, read_ns=now_ns)

    def _book_first(self, process: Process, bookings: list[Booking]) -> None:
        """Book a process seen for the first time: all it used if it began after the last walk, else nothing."""
        stat = process.stat
        saved = self._restored.pop((process.pid, stat.start_ticks), None)
        if saved is not None:
            process.gained_user = max(0, process.known_ticks - saved[1])
            return
        if self._walked_ns is None or (stat.start_ticks + 1) * TICK_NS <= self._walked_ns:
            return  # it was here all along, or could not be read: what it used was somebody's then
        process.gained_user = stat.children_user_ticks
        process.gained_system = stat.children_system_ticks
        if stat.own_ticks:
            bookings.append(Booking(process, stat.user_ticks, stat.system_ticks))

    def _end(self, process: Process, now_ns: int) -> None:
        if self._processes.get(process.pid) is not process:
            return
        del self._processes[process.pid]
        self.ended.append(process)
        if process.file is not None:
            process.file.close()
        # What is in its books comes to whoever waits for it, less what it gained and nobody was given yet.
        booked = process.known_ticks - process.gained_user - process.gained_system
        unread = (now_ns - process.read_ns) // TICK_NS * self._cpus if process.is_foreign else 0
        self._lost.append((process.pid, process.stat.parent, booked + process.debit + process.old_debit, unread))

    def _settle_restored(self) -> None:
        """Processes of an earlier agent's books that are gone: their parents' counters repeat them."""
        for (pid, _), (parent, ticks) in self._restored.items():
            self._lost.append((pid, parent, ticks, 0))
        self._restored = {}

    def _hand_out_debits(self) -> None:
        """Charge what ended children had in their own books to whoever waited for them."""
        parents = {pid: parent for pid, parent, _, _ in self._lost}
        orphans = []
        for lost in self._lost:
            heir = self._processes.get(lost[1])
            if heir is None:
                orphans.append(lost)
            else:
                heir.debit += lost[2]
                heir.slack += lost[3]
        for _, parent, ticks, unread in orphans:
            # Its parent ended too. Either that had waited for it first, or init or another forebear adopted it:
            # the one whose counters gained enough.
            heirs = list(self._forebears(parent, parents))
            heir = next((heir for heir in heirs if heir.unexplained_ticks >= ticks), heirs[0] if heirs else None)
            if heir is not None:
                heir.debit += ticks
                heir.slack += unread

    def _forebears(self, pid: int, lost: Mapping[int, int]) -> Iterator[Process]:
        """Yield the living forebears of a process that is gone, nearest first, init at last."""
        for _ in range(len(lost) + len(self._processes) + 1):
            process = self._processes.get(pid)
            if process is not None:
                yield process
            above = process.stat.parent if process is not None else lost.get(pid, 0 if pid == 1 else 1)
            if above == 0:
                return
            pid = above

    def _settle(self) -> Iterator[Booking]:
        """Book what counters of waited-for children gained and no debit explains.

        A debit that this reading does not bear out waits for the next one: the parent may have been read first. Then
        it is dropped: the kernel forgot the child (SIGCHLD ignored), and no counter repeats it.
        """
        for process in self._processes.values():
            gained = process.gained_user + process.gained_system
            if process.read_step != self._step or not (gained or process.debit or process.old_debit or process.slack):
                continue
            rest = gained - process.debit - process.old_debit
            slack = process.slack + process.old_slack
            process.old_debit = min(max(0, -rest), process.debit)
            process.old_slack = process.slack
            process.debit = process.slack = 0
            rest = max(0, rest - slack)
            user = rest * process.gained_user // gained if gained else 0
            process.gained_user = process.gained_system = 0
            if rest:
                yield Booking(process, user, rest - user)
