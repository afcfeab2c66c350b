"""perf_event_open(2): the structure and the call against this kernel, and what each refusal means."""

import ctypes
import errno
import os
import struct
import time

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel import perf_event

SOFTWARE, TASK_CLOCK, PAGE_FAULTS = 1, 1, 2
THIS_PROCESS, ANY_CPU = 0, -1


def test_the_kernel_counts_our_own_cpu_time_by_it() -> None:
    """Only a right structure and a right number of the call give a clock that runs with ours."""
    descriptor = perf_event.open_event(SOFTWARE, TASK_CLOCK, ANY_CPU, THIS_PROCESS)
    began_ns = time.thread_time_ns()
    while time.thread_time_ns() - began_ns < 20_000_000:
        pass
    counted_ns = perf_event.read_count(descriptor, "task-clock")
    used_ns = time.thread_time_ns() - began_ns
    os.close(descriptor)

    assert 20_000_000 <= counted_ns <= used_ns + 20_000_000


def test_config_reaches_the_kernel() -> None:
    descriptor = perf_event.open_event(SOFTWARE, PAGE_FAULTS, ANY_CPU, THIS_PROCESS)
    pages = bytearray(64 * 4096)
    for page in range(64):
        pages[page * 4096] = 1
    counted = perf_event.read_count(descriptor, "page-faults")
    os.close(descriptor)

    assert counted < 10_000  # faults, not nanoseconds


@pytest.mark.service("root")
def test_an_event_of_every_process_on_one_cpu_opens() -> None:
    """The way RAPL is opened: pid -1 on a CPU; root is beyond perf_event_paranoid."""
    descriptor = perf_event.open_event(SOFTWARE, 0, 0)
    first = perf_event.read_count(descriptor, "cpu-clock")
    second = perf_event.read_count(descriptor, "cpu-clock")
    os.close(descriptor)

    assert 0 <= first < second


def test_a_unit_that_is_not_there_is_not_supported() -> None:
    with pytest.raises(Unavailable) as caught:
        perf_event.open_event(65_000, 2, 0, THIS_PROCESS)

    assert caught.value.reason == "unsupported"


def test_the_structure_is_as_long_as_its_version_says() -> None:
    assert struct.calcsize("=IIQQQQQIIQQ") == 72  # PERF_ATTR_SIZE_VER1
    assert ctypes.sizeof(perf_event.Attributes) == 72
    assert (perf_event.Attributes.config.offset, perf_event.Attributes.flags.offset) == (8, 40)


@pytest.mark.parametrize(
    ("machine", "pointer_bytes", "number"),
    [("x86_64", 8, 298), ("x86_64", 4, 336), ("aarch64", 8, 241), ("ppc64le", 8, 319), ("s390x", 8, 331)],
)
def test_each_machine_has_its_own_number(machine: str, pointer_bytes: int, number: int) -> None:
    assert perf_event.syscall_number(machine, pointer_bytes) == number


def test_an_unknown_machine_is_no_crash() -> None:
    with pytest.raises(Unavailable, match="known machine, found vax"):
        perf_event.syscall_number("vax", 4)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "permission"),
        (errno.EPERM, "permission"),
        (errno.EINVAL, "unsupported"),
        (errno.ENODEV, "unsupported"),
        (errno.ENOENT, "unsupported"),
        (errno.EOPNOTSUPP, "unsupported"),
        (errno.ENOSYS, "unsupported"),
    ],
)
def test_a_refusal_has_a_reason_and_a_closed_door_its_remedy(number: int, reason: str) -> None:
    found = perf_event.failure(number, "power/energy-pkg/")

    assert isinstance(found, Unavailable)
    assert found.reason == reason
    assert ("CAP_PERFMON" in str(found) and "perf_event_paranoid" in str(found)) == (reason == "permission")


def test_want_of_descriptors_is_an_error_of_the_source() -> None:
    assert isinstance(perf_event.failure(errno.EMFILE, "power"), SourceError)


def test_an_event_whose_unit_is_gone_reads_as_nothing(tmp_path: os.PathLike[str]) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    try:
        with pytest.raises(SourceError, match="power: expected a count of 8 bytes, found 0"):
            perf_event.read_count(reader, "power")
    finally:
        os.close(reader)
