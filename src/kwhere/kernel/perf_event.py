"""perf_event_open(2): opens one counting event on one CPU. The only place that knows the structure and the call."""

import ctypes
import errno
import os
import struct
from typing import NamedTuple

from kwhere.core.errors import SourceError, Unavailable

CLOSE_ON_EXEC = 8
EVERY_PROCESS = -1
TIMES = 1 | 2
"""`read_format`: beside the count how long the event was to count, and how long it did."""
_COUNT = struct.Struct("=QQQ")
_REASONS = {
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.ENOENT: "unsupported",
    errno.EINVAL: "unsupported",
    errno.ENODEV: "unsupported",
    errno.EOPNOTSUPP: "unsupported",
    errno.ENOSYS: "unsupported",
    errno.E2BIG: "unsupported",
}
# By machine and pointer size: a 32-bit process on a 64-bit kernel makes other calls.
_NUMBERS = {
    ("x86_64", 8): 298,
    ("x86_64", 4): 336,
    ("i686", 4): 336,
    ("aarch64", 8): 241,
    ("riscv64", 8): 241,
    ("loongarch64", 8): 241,
    ("armv7l", 4): 364,
    ("ppc64le", 8): 319,
    ("ppc64", 8): 319,
    ("s390x", 8): 331,
}
REMEDY = "needs CAP_PERFMON, or kernel.perf_event_paranoid at 0 or below"


class Attributes(ctypes.Structure):
    """`struct perf_event_attr` up to PERF_ATTR_SIZE_VER1 (linux/perf_event.h): all that plain counting needs."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("breakpoint_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
        ("config2", ctypes.c_uint64),
    )


def syscall_number(machine: str, pointer_bytes: int) -> int:
    """Return the number of perf_event_open. Raises Unavailable for a machine that is not known."""
    number = _NUMBERS.get((machine, pointer_bytes))
    if number is None:
        raise Unavailable("unsupported", f"perf_event_open: expected a known machine, found {machine}")
    return number


def open_event(kind: int, config: int, cpu: int, process: int = EVERY_PROCESS) -> int:
    """Return the descriptor of an event that counts on `cpu` from now on; `kind` is the unit's `type`.

    Raises Unavailable: permission, unsupported; SourceError where descriptors run out and the like.
    """
    number = syscall_number(os.uname().machine, struct.calcsize("P"))
    attributes = Attributes(type=kind, size=ctypes.sizeof(Attributes), config=config, read_format=TIMES)
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    descriptor = library.syscall(
        ctypes.c_long(number),
        ctypes.byref(attributes),
        ctypes.c_int(process),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(CLOSE_ON_EXEC),
    )
    if descriptor < 0:
        raise failure(ctypes.get_errno(), f"perf event {kind}/{config:#x} on CPU {cpu}")
    return int(descriptor)


def failure(number: int, place: str) -> Unavailable | SourceError:
    """Return what errno `number` of the call means."""
    reason = _REASONS.get(number)
    words = os.strerror(number)
    if reason is None:
        return SourceError(f"{place}: {words}")
    return Unavailable(reason, f"{place}: {words}; {REMEDY}" if reason == "permission" else f"{place}: {words}")


class Count(NamedTuple):
    """What an event says; where events take turns on a unit's counters it ran for a part of the time."""

    value: int
    enabled_ns: int
    running_ns: int


def read_count(descriptor: int, place: str) -> Count:
    """Return the count, 64 bits. Raises Unavailable, SourceError: an event whose unit is gone reads as nothing."""
    try:
        data = os.read(descriptor, _COUNT.size)
    except OSError as error:
        raise failure(error.errno or 0, place) from error
    if len(data) != _COUNT.size:
        raise SourceError(f"{place}: expected a count and two times in {_COUNT.size} bytes, found {len(data)}")
    return Count(*_COUNT.unpack(data))


class EventCounter:
    """An open event as a count that only grows, each part of it scaled to the time that it was to count."""

    __slots__ = ("_last", "_place", "_total", "descriptor")

    def __init__(self, descriptor: int, place: str) -> None:
        self.descriptor = descriptor
        self._place = place
        self._last = Count(0, 0, 0)
        self._total = 0

    def read(self) -> int:
        """Return the count since the opening. Raises Unavailable, and SourceError also where it had no turn to count.

        What it did not count is then scaled into the next part: nothing is taken for 0.
        """
        now, last = read_count(self.descriptor, self._place), self._last
        enabled_ns, running_ns = now.enabled_ns - last.enabled_ns, now.running_ns - last.running_ns
        counted = now.value - last.value
        if running_ns < enabled_ns:
            if running_ns <= 0:
                raise SourceError(f"{self._place}: expected it to count, found it waiting for its turn")
            counted = counted * enabled_ns // running_ns
        self._total += counted
        self._last = now
        return self._total
