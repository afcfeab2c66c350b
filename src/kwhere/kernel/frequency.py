"""CPU frequencies and governors (`cpufreq` in sysfs, Documentation/admin-guide/pm/cpufreq.rst).

Some kernels wait up to 20 ms per CPU for `scaling_cur_freq`, so a monitor reads them in a thread of its own.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import counter, fraction
from kwhere.kernel.topology import CPU_DIRECTORY, online_cpus

SHORTEST_INTERVAL_SECONDS = 10.0
_PAUSE_PER_READING = 20.0  # reading takes at most a twentieth of the time, however slow the kernel
_CPUINFO_LIMIT_BYTES = 16 << 20  # about 1.5 KiB for each processor


@dataclass(frozen=True, slots=True)
class CpuFrequency:
    """One CPU's frequency and the bounds it may choose from, in kHz; None where the kernel does not say."""

    current_khz: int | None = None
    minimum_khz: int | None = None
    maximum_khz: int | None = None
    governor: str | None = None


def read_frequencies(fs: HostFS) -> Mapping[int, CpuFrequency]:
    """Return the frequency of each CPU that tells: cpufreq, else `cpu MHz` of `/proc/cpuinfo` (virtual machines)."""
    try:
        cpus = online_cpus(fs)
    except Unavailable:
        return {}
    found = {cpu: frequency for cpu in cpus if (frequency := read_frequency(fs, cpu)) != CpuFrequency()}
    return found or _from_cpuinfo(fs)


def read_frequency(fs: HostFS, cpu: int) -> CpuFrequency:
    """Return what cpufreq says of one CPU; nothing where it is not there."""
    directory = f"{CPU_DIRECTORY}/cpu{cpu}/cpufreq"
    return CpuFrequency(
        current_khz=_khz(fs, f"{directory}/scaling_cur_freq"),
        minimum_khz=_khz(fs, f"{directory}/scaling_min_freq"),
        maximum_khz=_khz(fs, f"{directory}/scaling_max_freq"),
        governor=_name(fs, f"{directory}/scaling_governor"),
    )


def parse_cpuinfo_frequencies(text: str, place: str = "proc/cpuinfo") -> Mapping[int, CpuFrequency]:
    """Return `cpu MHz` by processor number; empty on architectures that do not write it. Raises SourceError."""
    found: dict[int, CpuFrequency] = {}
    cpu = 0
    for line in text.split("\n"):
        name, _, value = (word.strip() for word in line.partition(":"))
        if name == "processor":
            cpu = counter(value, place)
        elif name == "cpu MHz":
            found[cpu] = CpuFrequency(current_khz=fraction(value, place, 3))
    return found


def _from_cpuinfo(fs: HostFS) -> Mapping[int, CpuFrequency]:
    try:
        text = fs.read_text("proc/cpuinfo", _CPUINFO_LIMIT_BYTES)
        return parse_cpuinfo_frequencies(text, str(fs.path("proc/cpuinfo")))
    except (Unavailable, SourceError):
        return {}


def _khz(fs: HostFS, area_path: str) -> int | None:
    try:
        khz = fs.read_int(area_path)
    except (Unavailable, SourceError):  # `<unsupported>`, an offline CPU, no driver
        return None
    return khz if khz > 0 else None


def _name(fs: HostFS, area_path: str) -> str | None:
    try:
        return fs.read_name(area_path)
    except (Unavailable, SourceError):
        return None


class FrequencyMonitor:
    """The newest frequencies, read over and over in a thread of its own from the first question on."""

    def __init__(
        self,
        fs: HostFS,
        interval_seconds: float = SHORTEST_INTERVAL_SECONDS,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fs = fs
        self._interval_seconds = interval_seconds
        self._timer = timer
        self._latest: Mapping[int, CpuFrequency] | None = None
        self._first = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def latest(self, patience_seconds: float = 2.0) -> Mapping[int, CpuFrequency]:
        """Return the last reading by CPU; the first question waits up to `patience_seconds` for one, else empty."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="frequency", daemon=True)
                self._thread.start()
        self._first.wait(patience_seconds)
        return self._latest or {}

    @property
    def has_looked(self) -> bool:
        """Return whether a reading has ended, even one that found nothing."""
        return self._first.is_set()

    def refresh(self) -> float:
        """Read all CPUs once and return how many seconds to wait before the next time."""
        began = self._timer()
        self._latest = MappingProxyType(dict(read_frequencies(self._fs)))
        self._first.set()
        return max(self._interval_seconds, SHORTEST_INTERVAL_SECONDS, (self._timer() - began) * _PAUSE_PER_READING)

    def close(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.refresh()):
            pass
