"""The kernel's log as `/dev/kmsg` gives it (Documentation/ABI/testing/dev-kmsg): one record per read, never waiting."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

DEVICE = "/dev/kmsg"
RECORD_BYTES = 8192
"""Longest record: CONSOLE_EXT_LOG_MAX of the kernel."""
MOST_RECORDS = 200_000
_HEAD = re.compile(rb"[0-9]{1,10},[0-9]{1,20},([0-9]{1,17}),[^;\n]*;([^\n]*)")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """One line of the log. `time_us`: microseconds since boot, close to CLOCK_MONOTONIC."""

    time_us: int
    text: str


def read_kernel_log(device: str = DEVICE) -> Iterator[KernelMessage]:
    """Yield what the log holds, oldest first; nothing where it cannot be read (no right, no such device)."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        yield from messages_of(lambda: os.read(descriptor, RECORD_BYTES))
    finally:
        os.close(descriptor)


def messages_of(read_record: Callable[[], bytes]) -> Iterator[KernelMessage]:
    """Yield a message per record until there is none to be had; records that are no record are left out."""
    for _ in range(MOST_RECORDS):
        try:
            record = read_record()
        except BrokenPipeError:  # overwritten while it was read: the next read goes on with the oldest there is
            continue
        except OSError:  # EAGAIN: that was the newest
            return
        if not record:
            return
        message = parse_record(record)
        if message is not None:
            yield message


def parse_record(record: bytes) -> KernelMessage | None:
    r"""Return the message of `priority,sequence,microseconds,flags[,…];text`; None for what is no record.

    Bytes that are not printable come as `\x1b`; what is no UTF-8 becomes U+FFFD.
    """
    found = _HEAD.match(record)
    if found is None:
        return None
    text = _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), found[2])
    return KernelMessage(int(found[1]), text.decode("utf-8", "replace"))
