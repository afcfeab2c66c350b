"""The clock of a recorded host: it stands at the moment its `/proc/uptime` was taken."""

from kwhere.core.clock import Clock, SystemClock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.stat import parse_boot_time
from kwhere.kernel.uptime import parse_uptime


class RecordedClock:
    """All three clocks of the selected snapshot, to a hundredth of a second. A plain tree shows one moment for ever.

    A copied tree does not tell suspend from running, so both clocks since boot agree.
    """

    def __init__(self, fs: HostFS) -> None:
        self._fs = fs

    def monotonic_ns(self) -> int:
        """Return nanoseconds since boot."""
        return self.boottime_ns()

    def boottime_ns(self) -> int:
        """Return nanoseconds since boot. Raises Unavailable or SourceError where `proc/uptime` does not say."""
        return parse_uptime(self._fs.read_text("proc/uptime"), str(self._fs.path("proc/uptime"))).uptime_ns

    def utc_ns(self) -> int:
        """Return the boot time of `proc/stat` plus the time since then, in nanoseconds."""
        boot_s = parse_boot_time(self._fs.read_text("proc/stat"), str(self._fs.path("proc/stat")))
        return boot_s * NANOSECONDS_PER_SECOND + self.boottime_ns()


def clock_of(fs: HostFS) -> Clock:
    """Return the clock that belongs to the host: the kernel's own, or that of a recorded tree."""
    return RecordedClock(fs) if fs.is_recorded else SystemClock()
