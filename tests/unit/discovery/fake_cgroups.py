"""Cgroup trees that a test writes, next to a FakeProc, read as a live or as a copied host."""

from dataclasses import dataclass
from pathlib import Path

from tests.unit.discovery.fake_proc import BOOT_SECONDS, FakeProc

from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.cgroups import detect_layout
from kwhere.kernel.hostfs import HostFS


@dataclass
class HandClock:
    """Boot time set by hand; the boot was at BOOT_SECONDS."""

    now_ns: int = 100_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def utc_ns(self) -> int:
        return BOOT_SECONDS * 1_000_000_000 + self.now_ns

    def tick(self, seconds: float) -> int:
        self.now_ns += round(seconds * 1_000_000_000)
        return self.now_ns


class FakeCgroups:
    """A v2 tree, or the CPU side of a v1 or hybrid one. Times in seconds."""

    def __init__(self, root: Path, *, v1: bool = False, hybrid: bool = False) -> None:
        self.root = root / "cgroup"
        self.proc = FakeProc(root)
        self.clock = HandClock()
        self.v1 = v1
        self.root.mkdir(exist_ok=True)
        if v1 or hybrid:
            (self.root / "cpuacct").mkdir(exist_ok=True)
            (self.root / "cpuacct" / "cpuacct.usage").write_text("0\n")
            self.v1 = True
        if hybrid:
            (self.root / "unified").mkdir(exist_ok=True)
            (self.root / "unified" / "cgroup.controllers").write_text("")
            (self.root / "unified" / "cpu.stat").write_text("usage_usec 0\n")
        if not self.v1:
            (self.root / "cgroup.controllers").write_text("cpu io memory\n")
            (self.root / "cpu.stat").write_text("usage_usec 0\nuser_usec 0\nsystem_usec 0\n")

    def put(
        self, path: str, seconds: float = 0, *, hierarchy: str | None = None, procs: str | None = "", **files: str
    ) -> Path:
        """Write a cgroup and what lies above it; `procs` None leaves out what tells whether anybody lives there."""
        where = hierarchy if hierarchy is not None else ("cpuacct" if self.v1 else "")
        directory = self.root / where / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        for above in directory.parents:
            if above == self.root / where:
                break
            self._put_usage(above, where, 0, over=False)
        self._put_usage(directory, where, seconds, over=True)
        if where != "cpuacct" and procs is not None:
            (directory / "cgroup.events").write_text(f"populated {int(bool(procs))}\n")
        if procs is not None:
            (directory / "cgroup.procs").write_text(procs)
        for name, text in files.items():
            (directory / name.replace("__", ".")).write_text(text)
        return directory

    def remove(self, path: str, *, hierarchy: str | None = None) -> None:
        """Remove a cgroup and all below it, as rmdir would tell it."""
        where = hierarchy if hierarchy is not None else ("cpuacct" if self.v1 else "")
        self._remove(self.root / where / path.lstrip("/"))

    def _put_usage(self, directory: Path, where: str, seconds: float, *, over: bool) -> None:
        name = "cpuacct.usage" if where == "cpuacct" else "cpu.stat"
        if not over and (directory / name).exists():
            return
        usage = round(seconds * 1e6)
        v2 = f"usage_usec {usage}\nuser_usec {usage}\nsystem_usec 0\n"
        (directory / name).write_text(f"{round(seconds * 1e9)}\n" if where == "cpuacct" else v2)

    def units(self, settings: UnitsSettings | None = None, *, live: bool = True) -> CgroupUnits:
        """Return a source over the tree; `live` with events, its processes then those of this machine."""
        proc = Path("/proc") if live else self.proc.root / "proc"
        host = HostFS(proc, self.proc.root / "sys", self.root)
        return CgroupUnits(host, detect_layout(host), settings or UnitsSettings(), self.clock)

    def _remove(self, directory: Path) -> None:
        for entry in list(directory.iterdir()):
            if entry.is_dir():
                self._remove(entry)
            else:
                entry.unlink()
        directory.rmdir()
