"""Whether the kernel holds its clock for synchronised (adjtimex(2), read only)."""

import ctypes
import os

from kwhere.core.errors import Unavailable

STA_UNSYNC = 0x0040


class _Timex(ctypes.Structure):
    """struct timex of linux/timex.h."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("rest", ctypes.c_char * 160),
    )


def clock_error_us() -> int | None:
    """Return the kernel's bound of the clock's error in microseconds; None while nothing synchronises it.

    Raises Unavailable where a sandbox forbids the question.
    """
    state = _Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(ctypes.byref(state)) < 0:
        raise Unavailable("permission", f"adjtimex: {os.strerror(ctypes.get_errno())}")
    return None if state.status & STA_UNSYNC else int(state.maxerror)
