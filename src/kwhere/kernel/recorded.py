"""The clock of a recorded host: it stands at the moment its `/proc/uptime` was taken."""

from kwhere.core.clock import Clock, SystemClock
from kwhere.core.errors import Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.stat import parse_stat
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
        """Return nanoseconds since boot; 0 in a tree without `proc/uptime`. Raises SourceError for nonsense in it."""
        try:
            text = self._fs.read_text("proc/uptime")
        except Unavailable:
            return 0
        return parse_uptime(text, str(self._fs.path("proc/uptime"))).uptime_ns

    def utc_ns(self) -> int:
        """Return the boot time plus the time since then; a tree that does not tell its boot time booted in 1970."""
        try:
            boot_s = parse_stat(self._fs.read_text("proc/stat"), str(self._fs.path("proc/stat"))).boot_time_s or 0
        except Unavailable:
            boot_s = 0
        return boot_s * NANOSECONDS_PER_SECOND + self.boottime_ns()


def clock_of(fs: HostFS) -> Clock:
    """Return the clock that belongs to the host: the kernel's own, or that of a recorded tree."""
    return RecordedClock(fs) if fs.is_recorded else SystemClock()
