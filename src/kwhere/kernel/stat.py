"""`/proc/stat`: CPU time by mode, per CPU and in all, in ticks of 10 ms, and the boot time (proc(5))."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from kwhere.core.errors import SourceError
from kwhere.core.quantities import USER_HZ_NANOSECONDS
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import counter, excerpt

_LONGEST = 20  # digits of a 64-bit number
_FEWEST_MODES = 4  # user nice system idle: what Linux 2.4 wrote


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Ticks by mode. guest lies inside user and guest_nice inside nice: never add them."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int = 0
    irq: int = 0
    softirq: int = 0
    steal: int = 0
    guest: int = 0
    guest_nice: int = 0

    @property
    def busy(self) -> int:
        """Return the ticks in which this host's work ran: no idle, no iowait, no steal."""
        return self.user + self.nice + self.system + self.irq + self.softirq

    @property
    def total(self) -> int:
        """Return all ticks, each counted once."""
        return self.busy + self.idle + self.iowait + self.steal

    @property
    def busy_ns(self) -> int:
        """Return `busy` in nanoseconds."""
        return self.busy * USER_HZ_NANOSECONDS

    def since(self, before: "CpuTimes") -> "CpuTimes":
        """Return what was added to each mode since `before`, never below 0.

        iowait and idle may go backwards (proc(5)), and every mode may when a CPU comes back from offline.
        """
        return CpuTimes(*(max(0, now - then) for now, then in zip(astuple(self), astuple(before), strict=True)))


@dataclass(frozen=True, slots=True)
class CpuStat:
    """The file at one moment. `cpus` holds the CPUs that are online, by number: one where it tells a sum only."""

    total: CpuTimes
    cpus: Mapping[int, CpuTimes]
    boot_time_s: int | None
    """Seconds since 1970; moves when the wall clock is set. None where the file does not say."""


def parse_stat(text: str, place: str = "proc/stat") -> CpuStat:
    """Return the CPU lines and the boot time. Raises SourceError."""
    total: CpuTimes | None = None
    cpus: dict[int, CpuTimes] = {}
    boot_time_s = None
    for line in text.split("\n"):
        name, _, rest = line.partition(" ")
        if name == "cpu":
            total = _times(rest, place)
        elif name.startswith("cpu"):
            cpus[counter(name[3:], place)] = _times(rest, place)
        elif name == "btime":
            boot_time_s = counter(rest.strip(), place)
    if total is None:
        raise SourceError(f"{place}: expected a line that starts with cpu, found {excerpt(text)}")
    return CpuStat(total, cpus or {0: total}, boot_time_s)


def _times(text: str, place: str) -> CpuTimes:
    """Return the modes of one line; modes that a newer kernel adds behind are passed over."""
    words = text.split()[:10]
    if len(words) < _FEWEST_MODES:
        raise SourceError(f"{place}: expected at least {_FEWEST_MODES} numbers after a CPU, found {excerpt(text)}")
    if not (plain := "".join(words)).isascii() or not plain.isdigit() or len(max(words, key=len)) > _LONGEST:
        return CpuTimes(*(counter(word, place) for word in words))  # says which word is wrong
    return CpuTimes(*map(int, words))


class StatFile:
    """`/proc/stat` held open, for a reading every step."""

    def __init__(self, fs: HostFS) -> None:
        """Open the file. Raises Unavailable."""
        self._file = fs.keep("proc/stat")
        self._place = str(fs.path("proc/stat"))

    def read(self) -> CpuStat:
        """Return CPU times now. Raises Unavailable or SourceError."""
        return parse_stat(self._file.read().decode(errors="replace"), self._place)

    def close(self) -> None:
        """Give back the file."""
        self._file.close()
