"""A /proc that a test writes, one process at a time."""

from dataclasses import dataclass, field
from pathlib import Path

from kwhere.kernel.hostfs import HostFS

BOOT_SECONDS = 1_000_000


@dataclass
class FakeProc:
    """Processes by pid, written as the kernel would."""

    root: Path
    uptime_seconds: float = 100.0
    pids: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        (self.root / "proc").mkdir(parents=True, exist_ok=True)
        self.tick(0)

    @property
    def host(self) -> HostFS:
        return HostFS(self.root / "proc", self.root / "sys", self.root / "cgroup")

    @property
    def now_ns(self) -> int:
        return round(self.uptime_seconds * 1_000_000_000)

    def tick(self, seconds: float) -> int:
        """Let time pass; return the boot time in nanoseconds."""
        self.uptime_seconds += seconds
        (self.root / "proc" / "uptime").write_text(f"{self.uptime_seconds:.2f} 0.00\n")
        (self.root / "proc" / "stat").write_text(
            f"cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\nbtime {BOOT_SECONDS}\n"
        )
        return self.now_ns

    def process(
        self,
        pid: int,
        command: str,
        *,
        start: int,
        parent: int = 1,
        user: int = 0,
        system: int = 0,
        children: int = 0,
        uid: int = 1000,
        flags: int = 0x400000,
        cgroup: str = "0::/\n",
        arguments: tuple[str, ...] = (),
    ) -> None:
        """Write or rewrite a process; times in ticks of 10 ms."""
        directory = self.root / "proc" / str(pid)
        directory.mkdir(exist_ok=True)
        times = f"{user} {system} {children} 0 20 0 2 0 {start} 1000 10 18446744073709551615"
        (directory / "stat").write_text(f"{pid} ({command}) S {parent} {pid} {pid} 0 -1 {flags} 0 0 0 0 {times}\n")
        (directory / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (directory / "cgroup").write_text(cgroup)
        (directory / "cmdline").write_text("\0".join(arguments) + ("\0" if arguments else ""))
        (directory / "statm").write_text("100 30 10 1 0 50 0\n")
        self.pids.add(pid)

    def exit(self, pid: int) -> None:
        """Remove a process."""
        for file in (self.root / "proc" / str(pid)).iterdir():
            file.unlink()
        (self.root / "proc" / str(pid)).rmdir()
        self.pids.discard(pid)
