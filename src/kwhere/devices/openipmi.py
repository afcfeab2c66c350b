"""One question to the BMC through the kernel's OpenIPMI driver, `/dev/ipmiN` (linux/ipmi.h), without any program.

The device is opened for one question and closed again: answers that come too late go with it, a BMC or driver that
went away and came back is found anew, and no root is needed where the device's mode lets us in.
"""

import ctypes
import errno
import fcntl
import itertools
import os
import platform
import select
import time
from dataclasses import dataclass
from typing import Protocol

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.dcmi import check_completion

SYSTEM_INTERFACE = 0x0C
BMC_CHANNEL = 0x0F
RESPONSE = 1
LONGEST_ANSWER = 272
"""IPMI_MAX_MSG_LENGTH."""
_PAUSE_SECONDS = 0.02
_MSGIDS = itertools.count(1)

_READ, _WRITE_READ = 2, 3
_REASONS = {
    errno.ENOENT: "absent",
    errno.ENODEV: "absent",
    errno.ENXIO: "absent",
    errno.ESHUTDOWN: "absent",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
    errno.EBUSY: "busy",
    errno.EAGAIN: "busy",
    errno.ENOMEM: "busy",
    errno.EMFILE: "busy",
    errno.ENFILE: "busy",
}


class Address(ctypes.Structure):
    """`struct ipmi_system_interface_addr`."""

    _fields_ = (("addr_type", ctypes.c_int), ("channel", ctypes.c_short), ("lun", ctypes.c_ubyte))


class Message(ctypes.Structure):
    """`struct ipmi_msg`."""

    _fields_ = (
        ("netfn", ctypes.c_ubyte),
        ("cmd", ctypes.c_ubyte),
        ("data_len", ctypes.c_ushort),
        ("data", ctypes.c_void_p),
    )


class Request(ctypes.Structure):
    """`struct ipmi_req`."""

    _fields_ = (
        ("addr", ctypes.c_void_p),
        ("addr_len", ctypes.c_uint),
        ("msgid", ctypes.c_long),
        ("msg", Message),
    )


class Received(ctypes.Structure):
    """`struct ipmi_recv`."""

    _fields_ = (
        ("recv_type", ctypes.c_int),
        ("addr", ctypes.c_void_p),
        ("addr_len", ctypes.c_uint),
        ("msgid", ctypes.c_long),
        ("msg", Message),
    )


def ioctl_number(direction: int, number: int, size: int, machine: str) -> int:
    """Return the request number of `_IOR('i', …)` (2) or `_IOWR('i', …)` (3) on a machine (asm/ioctl.h)."""
    shift = 30
    if machine.startswith(("ppc", "mips", "sparc", "alpha")):  # three bits of direction there, and write is 4
        shift, direction = 29, {_READ: 2, _WRITE_READ: 6}[direction]
    return direction << shift | size << 16 | ord("i") << 8 | number


SEND_COMMAND = ioctl_number(_READ, 13, ctypes.sizeof(Request), platform.machine())
RECEIVE_TRUNCATED = ioctl_number(_WRITE_READ, 11, ctypes.sizeof(Received), platform.machine())


@dataclass(frozen=True, slots=True)
class Command:
    """A command to the BMC itself."""

    netfn: int
    cmd: int
    data: bytes


class SystemCalls(Protocol):
    """The four system calls that a question needs; each raises OSError."""

    def open(self, path: str) -> int:
        """Return a descriptor, for reading and writing, that never blocks."""
        ...

    def ioctl(self, descriptor: int, number: int, argument: ctypes.Structure) -> None:
        """Hand `argument` to the driver, which may write into it and into what it points to."""
        ...

    def wait(self, descriptor: int, seconds: float) -> bool:
        """Return whether something is there to be received within `seconds`."""
        ...

    def close(self, descriptor: int) -> None:
        """Give back the descriptor."""
        ...


class KernelCalls:
    """The running kernel."""

    def open(self, path: str) -> int:
        """Return a descriptor. Raises OSError."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)

    def ioctl(self, descriptor: int, number: int, argument: ctypes.Structure) -> None:
        """Hand `argument` to the driver. Raises OSError."""
        fcntl.ioctl(descriptor, number, argument, True)

    def wait(self, descriptor: int, seconds: float) -> bool:
        """Return whether something is there; ENODEV where the driver hung up. Raises OSError."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        for _, events in poll.poll(max(0, round(seconds * 1000))):
            if events & select.POLLIN:
                return True
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return False

    def close(self, descriptor: int) -> None:
        """Give back the descriptor."""
        os.close(descriptor)


def check_device(path: str, calls: SystemCalls) -> None:
    """Open the device and close it again. Raises Unavailable (absent, permission, busy, unsupported)."""
    try:
        calls.close(calls.open(path))
    except OSError as error:
        raise _unavailable(error, path) from error


def ask_device(path: str, command: Command, timeout_seconds: float, calls: SystemCalls) -> bytes:
    """Return the BMC's answer without its completion code.

    Raises Unavailable (absent, permission, busy, timeout, and what a completion code means) and SourceError.
    """
    deadline_ns = time.monotonic_ns() + int(timeout_seconds * 1e9)
    try:
        descriptor = calls.open(path)
        try:
            msgid = next(_MSGIDS)
            _send(calls, descriptor, command, msgid)
            answer = _answer(calls, descriptor, command, msgid, deadline_ns)
        finally:
            calls.close(descriptor)
    except OSError as error:
        raise _unavailable(error, path) from error
    if answer is None:
        raise Unavailable("timeout", f"{path}: the BMC did not answer within {timeout_seconds:g} s")
    if not answer:
        raise SourceError(f"{path}: expected a completion code, found an empty answer")
    check_completion(answer[0], path)
    return answer[1:]


def _send(calls: SystemCalls, descriptor: int, command: Command, msgid: int) -> None:
    address = Address(SYSTEM_INTERFACE, BMC_CHANNEL, 0)
    data = (ctypes.c_ubyte * len(command.data))(*command.data)
    message = Message(command.netfn, command.cmd, len(command.data), ctypes.addressof(data))
    request = Request(ctypes.addressof(address), ctypes.sizeof(address), msgid, message)
    calls.ioctl(descriptor, SEND_COMMAND, request)


def _answer(calls: SystemCalls, descriptor: int, command: Command, msgid: int, deadline_ns: int) -> bytes | None:
    """Return the answer to the command that was sent; what belongs to others is thrown away. None: none in time."""
    while (left_ns := deadline_ns - time.monotonic_ns()) > 0:
        if not calls.wait(descriptor, left_ns / 1e9):
            continue
        try:
            received, data = _receive(calls, descriptor)
        except (BlockingIOError, InterruptedError):  # announced and gone: another reader of this descriptor, a signal
            time.sleep(_PAUSE_SECONDS)
            continue
        if _belongs(received, command, msgid):
            return data
    return None


def _receive(calls: SystemCalls, descriptor: int) -> tuple[Received, bytes]:
    address = (ctypes.c_ubyte * 64)()
    data = (ctypes.c_ubyte * LONGEST_ANSWER)()
    message = Message(0, 0, LONGEST_ANSWER, ctypes.addressof(data))
    received = Received(0, ctypes.addressof(address), ctypes.sizeof(address), 0, message)
    calls.ioctl(descriptor, RECEIVE_TRUNCATED, received)
    return received, bytes(data[: min(received.msg.data_len, LONGEST_ANSWER)])


def _belongs(received: Received, command: Command, msgid: int) -> bool:
    return (
        received.recv_type == RESPONSE
        and received.msgid == msgid
        and (received.msg.netfn, received.msg.cmd) == (command.netfn | 1, command.cmd)
    )


def _unavailable(error: OSError, path: str) -> Unavailable:
    reason = _REASONS.get(error.errno or 0, "unsupported")
    return Unavailable(reason, f"{path}: {os.strerror(error.errno) if error.errno else error}")
