"""The ioctl boundary of /dev/ipmiN: our answer among others', late ones, busy BMCs, devices that go away."""

import ctypes
import errno
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices import openipmi
from kwhere.devices.openipmi import Address, Command, KernelCalls, Message, Received, Request, ask_device, ioctl_number

COMMAND = Command(0x2C, 0x02, b"\xdc\x01\x00\x00")
ANSWER = b"\x00\xdc\xa4\x00"
PATH = "/dev/ipmi0"


@dataclass(frozen=True)
class Packet:
    """What the driver hands over; `msgid` counts from the one that was sent."""

    data: bytes = ANSWER
    recv_type: int = 1
    msgid: int = 0
    netfn: int = 0x2D
    cmd: int = 0x02


@dataclass
class FakeDriver:
    """The kernel's driver at its system calls: an errno fails, a packet is received, in the script's order."""

    script: list[Packet | int] = field(default_factory=list)
    opens: int = 0
    """errno with which it fails to open; 0: it opens."""
    sends: int = 0
    is_open: bool = False
    sent: tuple[int, int, int, int, bytes] | None = None
    msgid: int = 0

    def open(self, path: str) -> int:
        if self.opens:
            raise OSError(self.opens, "fault")
        self.is_open = True
        return 7

    def close(self, descriptor: int) -> None:
        assert (descriptor, self.is_open) == (7, True)
        self.is_open = False

    def wait(self, descriptor: int, seconds: float) -> bool:
        return bool(self.script)

    def ioctl(self, descriptor: int, number: int, argument: ctypes.Structure) -> None:
        if number == openipmi.SEND_COMMAND:
            assert isinstance(argument, Request)
            if self.sends:
                raise OSError(self.sends, "fault")
            address = Address.from_address(argument.addr)
            data = ctypes.string_at(argument.msg.data, argument.msg.data_len)
            self.msgid = argument.msgid
            self.sent = (address.addr_type, address.channel, argument.msg.netfn, argument.msg.cmd, data)
            return
        assert number == openipmi.RECEIVE_TRUNCATED
        assert isinstance(argument, Received)
        item = self.script.pop(0)
        if isinstance(item, int):
            raise OSError(item, "fault")
        ctypes.memmove(argument.msg.data, item.data, min(len(item.data), argument.msg.data_len))
        argument.recv_type, argument.msgid = item.recv_type, self.msgid + item.msgid
        argument.msg.netfn, argument.msg.cmd, argument.msg.data_len = item.netfn, item.cmd, len(item.data)


def ask(
    *script: Packet | int, timeout_seconds: float = 5.0, opens: int = 0, sends: int = 0
) -> tuple[bytes, FakeDriver]:
    driver = FakeDriver(list(script), opens, sends)
    try:
        return ask_device(PATH, COMMAND, timeout_seconds, driver), driver
    finally:
        assert not driver.is_open


def reason_of(*script: Packet | int, timeout_seconds: float = 5.0, opens: int = 0, sends: int = 0) -> str:
    with pytest.raises(Unavailable, match=f"^{PATH}: ") as caught:
        ask(*script, timeout_seconds=timeout_seconds, opens=opens, sends=sends)
    return caught.value.reason


def test_the_question_goes_to_the_bmc_itself() -> None:
    answer, driver = ask(Packet())

    assert answer == ANSWER[1:]
    assert driver.sent == (0x0C, 0x0F, 0x2C, 0x02, b"\xdc\x01\x00\x00")


@pytest.mark.parametrize(
    "foreign",
    [
        Packet(b"\x00old", msgid=-1),
        Packet(b"\x00later", msgid=1),
        Packet(b"event", recv_type=2),
        Packet(b"command", recv_type=3),
        Packet(b"\x00ack", recv_type=4),
        Packet(b"\x00other", cmd=0x01),
        Packet(b"\x00other", netfn=0x07),
        Packet(b"\x00other", netfn=0x2C),
    ],
    ids=lambda packet: f"{packet.data!r}{packet.recv_type}",
)
def test_what_belongs_to_another_question_is_thrown_away(foreign: Packet) -> None:
    answer, _ = ask(foreign, foreign, Packet())

    assert answer == ANSWER[1:]


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EINTR])
def test_an_answer_that_was_announced_too_early_is_waited_for(number: int) -> None:
    answer, _ = ask(number, number, Packet())

    assert answer == ANSWER[1:]


def test_no_answer_is_a_time_out() -> None:
    assert reason_of(timeout_seconds=0.05) == "timeout"


def test_only_foreign_answers_are_a_time_out() -> None:
    assert reason_of(Packet(msgid=-3), timeout_seconds=0.05) == "timeout"


@pytest.mark.parametrize(("code", "reason"), [(0xC0, "busy"), (0xC1, "unsupported"), (0xC3, "timeout")])
def test_a_completion_code_is_a_reason(code: int, reason: str) -> None:
    assert reason_of(Packet(bytes([code]))) == reason


def test_an_empty_answer_is_nonsense() -> None:
    with pytest.raises(SourceError, match="expected a completion code"):
        ask(Packet(b""))


def test_an_answer_longer_than_the_buffer_is_cut_off() -> None:
    answer, _ = ask(Packet(b"\x00" * 1000))

    assert answer == b"\x00" * 271


FAULTS = [
    (errno.ENOENT, "absent"),
    (errno.ENODEV, "absent"),
    (errno.ENXIO, "absent"),
    (errno.EACCES, "permission"),
    (errno.EPERM, "permission"),
    (errno.EBUSY, "busy"),
    (errno.ENOTTY, "unsupported"),
    (errno.EIO, "unsupported"),
]


@pytest.mark.parametrize(("number", "reason"), FAULTS)
def test_a_fault_has_its_reason_wherever_it_comes(number: int, reason: str) -> None:
    assert reason_of(opens=number) == reason
    assert reason_of(sends=number) == reason
    assert reason_of(number) == reason


def test_a_device_that_goes_away_while_we_wait_is_absent() -> None:
    assert reason_of(Packet(msgid=-1), errno.ENODEV) == "absent"


@given(st.lists(st.builds(Packet, st.binary(max_size=300), st.integers(0, 6), st.integers(-2, 2), st.integers(0, 255))))
def test_any_packets_end_in_bytes_or_a_drawn_error(packets: list[Packet]) -> None:
    with suppress(Unavailable, SourceError):
        ask(*packets, timeout_seconds=0.001)


def test_a_plain_file_is_no_ipmi_device(tmp_path: Path) -> None:
    file = tmp_path / "ipmi0"
    file.touch()

    with pytest.raises(Unavailable) as caught:
        ask_device(str(file), COMMAND, 1.0, KernelCalls())
    assert caught.value.reason == "unsupported"


def test_a_pipe_whose_other_end_is_gone_is_a_device_that_went_away() -> None:
    reader, writer = os.pipe()
    os.close(writer)

    with pytest.raises(OSError, match=os.strerror(errno.ENODEV)):
        KernelCalls().wait(reader, 1.0)
    os.close(reader)


def test_request_numbers_of_other_machines() -> None:
    """By hand from asm/ioctl.h: powerpc has three bits of direction, 13 of size."""
    assert ioctl_number(2, 13, 40, "x86_64") == 0x8028690D
    assert ioctl_number(3, 11, 48, "aarch64") == 0xC030690B
    assert ioctl_number(2, 13, 40, "ppc64le") == 0x4028690D
    assert ioctl_number(3, 11, 48, "ppc64le") == 0xC030690B


PROBE = r"""
#include <linux/ipmi.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
int main(void) {
    printf("%lu %lu ", (unsigned long)IPMICTL_SEND_COMMAND, (unsigned long)IPMICTL_RECEIVE_MSG_TRUNC);
    printf("%zu %zu %zu ", sizeof(struct ipmi_system_interface_addr), sizeof(struct ipmi_msg), sizeof(struct ipmi_req));
    printf("%zu %zu ", sizeof(struct ipmi_recv), offsetof(struct ipmi_msg, data));
    printf("%zu %zu ", offsetof(struct ipmi_req, msgid), offsetof(struct ipmi_req, msg));
    printf("%zu %zu %zu\n", offsetof(struct ipmi_recv, addr), offsetof(struct ipmi_recv, msgid), offsetof(struct ipmi_recv, msg));
    return 0;
}
"""  # noqa: E501


@pytest.mark.service("cc")
def test_the_layout_is_that_of_the_kernels_header(tmp_path: Path) -> None:
    source, program = tmp_path / "probe.c", tmp_path / "probe"
    source.write_text(PROBE)
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-o", program, source], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout

    assert [int(word) for word in said.split()] == [
        openipmi.SEND_COMMAND,
        openipmi.RECEIVE_TRUNCATED,
        *(ctypes.sizeof(struct) for struct in (Address, Message, Request, Received)),
        Message.data.offset,
        Request.msgid.offset,
        Request.msg.offset,
        Received.addr.offset,
        Received.msgid.offset,
        Received.msg.offset,
    ]
