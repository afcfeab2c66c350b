"""Units where cgroups are of no use: processes grouped by user and command, virtual machines by their process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kwhere.core.clock import Clock
from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery import libvirt
from kwhere.discovery.facts import UserNames, printable
from kwhere.discovery.match import Match, unit_id
from kwhere.discovery.process_io import ProcessIo
from kwhere.discovery.process_owners import NamedUnit, ProcessOwners
from kwhere.discovery.process_table import Booking, Process, ProcessTable
from kwhere.discovery.unit_source import CpuReading, StepReading, TrackedUnit, UnitDetail
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import TICK_NS, read_cgroup_text, read_command, read_owner
from kwhere.kernel.topology import online_cpus

MANAGER = "process"
_LINGER_NS = 30 * NANOSECONDS_PER_SECOND
"""A group outlives its last process by this, so that commands of a moment do not come and go."""
_MAX_GROUPS = 500
_MAX_SAVED_GROUPS = 2000
_ASK_AGAIN_STEPS = (1, 10)
"""A process may move to a cgroup of its own after it began: asked at first sight, the next step, every tenth."""
_PAGE_BYTES = 4096
_DAEMONS = frozenset(
    {"containerd", "containerd-shim", "dockerd", "docker-proxy", "crio", "conmon", "kubelet", "kube-proxy"}
    | {"slurmd", "slurmstepd", "slurmctld", "libvirtd", "virtqemud", "virtlogd", "oar-node", "Almighty", "kwhere"}
)
"""Commands of runtimes and daemons, cut to 15 bytes as the kernel does."""
_STEP_DAEMONS = frozenset({"slurmd", "slurmstepd"})
_INITS = frozenset({"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit"})
_Group = tuple[str, str]  # manager, unit


@dataclass(slots=True)
class _State:
    tracked: TrackedUnit
    began_s: int
    """UTC second in its run."""
    user_ns: int = 0
    system_ns: int = 0
    seen_ns: int = 0
    read_bytes: int | None = None
    write_bytes: int | None = None
    processes: set[int] = field(default_factory=set)


class ProcessUnits:
    """A `UnitSource` over `/proc`. Its totals begin with the process that keeps them, or where the last one stopped.

    `is_owned` tells from `/proc/PID/cgroup` whether another source accounts the process, `owners` whose it is if not;
    `is_counted` whether another source counts units of that place. `groups` False leaves alone the processes that
    neither knows.
    """

    def __init__(
        self,
        fs: HostFS,
        clock: Clock,
        is_owned: Callable[[str], bool] | None = None,
        owners: ProcessOwners | None = None,
        *,
        is_counted: Callable[[Match], bool] = lambda match: False,
        groups: bool = True,
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._is_owned = is_owned
        self._owners = owners
        self._groups_rest = groups
        self._is_counted = is_counted
        self._users = UserNames(fs)
        self._table = ProcessTable(fs, _count_cpus(fs))
        self._io = ProcessIo(fs)
        self._groups: dict[_Group, _State] = {}
        self._group_of: dict[int, tuple[str, UnitKey | None]] = {}
        self._matches: dict[int, Match] = {}
        self._first_steps: dict[int, int] = {}
        self._saved: dict[str, int] = {}
        self._boot_seconds: int | None = None
        self._step = 0
        self._counts_from_ns = 0
        self._system_ns = 0

    def step(self, now_ns: int) -> StepReading:
        """Walk `/proc` and book what was used since the last step."""
        self._step += 1
        started: list[TrackedUnit] = []
        walked_ns = self._table.walked_ns
        self._counts_from_ns = now_ns if walked_ns is None else walked_ns
        bookings = self._table.walk(now_ns)
        for process in self._table.ended:
            self._forget(process)
        if walked_ns is not None:
            for process in self._table.started:
                self._io.begin(process)
        self._look_for_owners()
        for process in self._table:
            self._place(process, now_ns, started)
        for booking in bookings:
            self._book(booking, now_ns)
        ended = self._end_groups(now_ns)
        cpu = {state.tracked.key: _reading(state) for state in self._groups.values()}
        cpu.update({tracked.key: reading for tracked, reading in ended})
        return StepReading(cpu=cpu, started=started, ended=[tracked for tracked, _ in ended], system_ns=self._system_ns)

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        """Return the groups alive at the last step."""
        return {state.tracked.key: state.tracked for state in self._groups.values()}

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return the group that the process was in at the last step."""
        placed = self._group_of.get(pid)
        return None if placed is None else placed[1]

    def detail(self, key: UnitKey) -> UnitDetail:
        """Return memory, storage I/O and numbers of a group's processes; pages shared among them count for each."""
        state = self._groups.get((key.manager, key.unit))
        if state is None or state.tracked.key != key:
            raise NoData(f"{key.run}: the group is gone")
        resident = anonymous = threads = 0
        by_pid = {process.pid: process for process in self._table}
        known = False
        for pid in state.processes:
            process = by_pid.get(pid)
            if process is None:
                continue
            threads += process.stat.threads
            self._take_io(state, process)
            pages = self._memory(pid)
            if pages is not None:
                known = True
                resident += pages[0]
                anonymous += max(0, pages[0] - pages[1])
        return UnitDetail(
            memory_current_bytes=resident * _PAGE_BYTES if known else None,
            memory_anon_bytes=anonymous * _PAGE_BYTES if known else None,
            io_read_bytes=state.read_bytes,
            io_write_bytes=state.write_bytes,
            cpu_user_ns=state.user_ns,
            cpu_system_ns=state.system_ns,
            processes=len(state.processes),
            threads=threads,
        )

    def saved(self) -> Mapping[str, int]:
        """Return what lets totals go on after a restart: the last walk, each process's booked ticks, each total."""
        walked_ns = self._table.walked_ns
        if walked_ns is None:
            return {}
        saved = {"walked": walked_ns, "boot": self._boot()}
        for (pid, start), (parent, ticks) in self._table.saved().items():
            saved[f"process:{pid}:{start}:{parent}"] = ticks
        for (manager, unit), state in list(self._groups.items())[:_MAX_SAVED_GROUPS]:
            saved[f"user:{manager}:{unit}"] = state.user_ns
            saved[f"system:{manager}:{unit}"] = state.system_ns
            saved[f"began:{manager}:{unit}"] = state.began_s
        return saved

    def restore(self, saved_inodes: Mapping[str, int], runs: Mapping[int, str]) -> None:
        """Take up what the last agent of this boot saved; entries of another form are left out."""
        del runs
        walked_ns = saved_inodes.get("walked")
        if walked_ns is None:
            return
        self._boot_seconds = saved_inodes.get("boot")
        known = {}
        for name, value in saved_inodes.items():
            kind, _, rest = name.partition(":")
            words = rest.split(":")
            if kind == "process" and len(words) == 3 and all(word.isdigit() for word in words):
                pid, start, parent = map(int, words)
                known[pid, start] = (parent, value)
            elif kind in ("user", "system", "began"):
                self._saved[name] = value
        self._table.restore(walked_ns, known)

    def close(self) -> None:
        """Give back file descriptors."""
        self._table.close()

    def _place(self, process: Process, now_ns: int, started: list[TrackedUnit]) -> None:
        """Put a process into the group of its user and present command."""
        command = process.stat.command
        placed = self._group_of.get(process.pid)
        if placed is not None and placed[0] == command:
            if placed[1] is not None:
                self._groups[placed[1].manager, placed[1].unit].seen_ns = now_ns
            return
        if placed is not None:
            self._leave(process.pid, placed[1])
        key = None if self._is_system(process) or process.is_foreign else self._join(process, now_ns, started)
        self._group_of[process.pid] = command, key

    def _join(self, process: Process, now_ns: int, started: list[TrackedUnit]) -> UnitKey:
        named = self._identity(process)
        group = named.manager, named.unit
        state = self._groups.get(group)
        if state is None:
            state = self._groups[group] = self._begin(named, process, now_ns)
            started.append(state.tracked)
        elif process.pid in self._matches:
            state.tracked = named.added_to(state.tracked)
        state.processes.add(process.pid)
        state.seen_ns = now_ns
        return state.tracked.key

    def _begin(self, named: NamedUnit, process: Process, now_ns: int) -> _State:
        place = f"{named.manager}:{named.unit}"
        user_ns = self._saved.pop(f"user:{place}", None)
        began_s = self._saved.pop(f"began:{place}", None)
        if began_s is None:
            since_boot = 0 if named.manager == MANAGER else process.stat.start_ticks * TICK_NS
            began_s = self._boot() + since_boot // NANOSECONDS_PER_SECOND
        tracked = TrackedUnit(
            key=UnitKey(named.manager, named.unit, named.run(began_s)),
            cgroup=None,
            inode=None,
            outer=None,
            parent_cgroup=None,
            info=named.info,
            allocation=named.allocation,
            from_creation=user_ns is None,
            first_seen_ns=now_ns,
            counts_from_ns=self._counts_from_ns if user_ns is None else None,
            uid=named.uid,
        )
        return _State(tracked, began_s, user_ns=user_ns or 0, system_ns=self._saved.pop(f"system:{place}", 0))

    def _identity(self, process: Process) -> NamedUnit:
        match = self._matches.get(process.pid)
        if match is not None and self._owners is not None:
            return self._owners.unit(match, process.pid)
        uid = self._owner(process)
        user = self._users(uid) if uid is not None else "unknown"
        guest = self._guest(process)
        if guest is not None:
            unit = unit_id(guest.uuid or guest.name or str(process.pid))
            allocation = Allocation(guest.vcpus * 1000 if guest.vcpus else None, guest.memory_bytes)
            return NamedUnit(libvirt.MANAGER, unit, UnitInfo(name=guest.name, user=user), allocation, uid)
        command = process.stat.command
        unit = unit_id(f"{user}:{command}")
        if (MANAGER, unit) not in self._groups and len(self._groups) >= _MAX_GROUPS:
            command = "*"  # a program that renames itself all the time must not fill every store
            unit = unit_id(f"{user}:{command}")
        return NamedUnit(MANAGER, unit, UnitInfo(name=printable(command), user=user), uid=uid)

    def _guest(self, process: Process) -> libvirt.VirtualMachine | None:
        if not process.stat.command.startswith(("qemu", "kvm")):
            return None
        try:
            return libvirt.read_command(read_command(self._fs, process.pid))
        except (Unavailable, SourceError):
            return None

    def _owner(self, process: Process) -> int | None:
        try:
            return read_owner(self._fs, process.pid)
        except (Unavailable, SourceError):
            return None

    def _is_system(self, process: Process) -> bool:
        match = self._matches.get(process.pid)
        if match is not None:
            return match.is_system or self._serves_job(process, match)
        stat = process.stat
        return stat.is_kernel_thread or stat.command in (_INITS if stat.pid == 1 else _DAEMONS)

    def _serves_job(self, process: Process, match: Match) -> bool:
        """A job's slurmstepd is in some of its cgroups, not in that of its CPU time: it is not the job once more."""
        if process.stat.command not in _STEP_DAEMONS or not self._is_counted(match):
            return False
        return self._owner(process) == 0

    def _look_for_owners(self) -> None:
        if self._is_owned is None and self._owners is None:
            return
        soon, often = _ASK_AGAIN_STEPS
        new = set(map(id, self._table.started))
        for process in self._table:
            first = self._first_steps.get(process.pid)
            if first is None or id(process) in new:
                self._first_steps[process.pid] = first = self._step
            age = self._step - first
            if age <= soon or (age + process.pid) % often == 0:
                self._ask(process)

    def _ask(self, process: Process) -> None:
        if process.stat.is_kernel_thread:
            return
        try:
            text = read_cgroup_text(self._fs, process.pid)
        except (Unavailable, SourceError):
            return
        is_foreign = self._is_owned is not None and self._is_owned(text)
        match = self._owners.owner(text) if self._owners is not None and not is_foreign else None
        is_foreign = is_foreign or (match is None and not self._groups_rest)
        before = self._matches.get(process.pid)
        if match is not None:
            self._matches[process.pid] = match
        else:
            self._matches.pop(process.pid, None)
        if (is_foreign, _top(match)) != (process.is_foreign, _top(before)):
            process.is_foreign = is_foreign
            placed = self._group_of.pop(process.pid, None)
            if placed is not None:
                self._leave(process.pid, placed[1])

    def _book(self, booking: Booking, now_ns: int) -> None:
        process = booking.process
        if process.is_foreign:
            return
        placed = self._group_of.get(process.pid)
        state = self._groups.get((placed[1].manager, placed[1].unit)) if placed and placed[1] else None
        if state is None:
            self._system_ns += (booking.user_ticks + booking.system_ticks) * TICK_NS
            return
        state.user_ns += booking.user_ticks * TICK_NS
        state.system_ns += booking.system_ticks * TICK_NS
        state.seen_ns = now_ns

    def _take_io(self, state: _State, process: Process) -> None:
        gain = self._io.gain(process)
        if gain is not None:
            state.read_bytes = (state.read_bytes or 0) + gain[0]
            state.write_bytes = (state.write_bytes or 0) + gain[1]

    def _forget(self, process: Process) -> None:
        self._io.end(process)
        placed = self._group_of.pop(process.pid, None)
        self._first_steps.pop(process.pid, None)
        self._matches.pop(process.pid, None)
        if placed is not None:
            self._leave(process.pid, placed[1])

    def _leave(self, pid: int, key: UnitKey | None) -> None:
        state = self._groups.get((key.manager, key.unit)) if key is not None else None
        if state is not None:
            state.processes.discard(pid)

    def _end_groups(self, now_ns: int) -> list[tuple[TrackedUnit, CpuReading]]:
        over = [
            group
            for group, state in self._groups.items()
            if not state.processes and now_ns - state.seen_ns >= _LINGER_NS
        ]
        ended = []
        for group in over:
            state = self._groups.pop(group)
            ended.append((replace(state.tracked, ended_ns=now_ns), _reading(state)))
        return ended

    def _memory(self, pid: int) -> tuple[int, int] | None:
        """Return resident and shared pages."""
        try:
            words = self._fs.read(f"proc/{pid}/statm").split()
            return int(words[1]), int(words[2])
        except (Unavailable, SourceError, ValueError, IndexError):
            return None

    def _boot(self) -> int:
        if self._boot_seconds is None:
            since_ns = self._clock.utc_ns() - self._clock.boottime_ns()
            self._boot_seconds = since_ns // NANOSECONDS_PER_SECOND
        return self._boot_seconds


def _top(match: Match | None) -> tuple[str, str] | None:
    return None if match is None else (match.manager, match.top)


def _reading(state: _State) -> CpuReading:
    return CpuReading(state.user_ns + state.system_ns, state.user_ns, state.system_ns)


def _count_cpus(fs: HostFS) -> int:
    try:
        return len(online_cpus(fs))
    except (Unavailable, SourceError):
        return 1
