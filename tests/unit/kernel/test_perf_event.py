"""perf_event_open(2): the structure and the call against this kernel, and what each refusal means."""

import ctypes
import errno
import os
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    counted_ns = perf_event.read_count(descriptor, "task-clock").value
    used_ns = time.thread_time_ns() - began_ns
    os.close(descriptor)

    assert 20_000_000 <= counted_ns <= used_ns + 20_000_000


def test_config_reaches_the_kernel() -> None:
    descriptor = perf_event.open_event(SOFTWARE, PAGE_FAULTS, ANY_CPU, THIS_PROCESS)
    pages = bytearray(64 * 4096)
    for page in range(64):
        pages[page * 4096] = 1
    counted = perf_event.read_count(descriptor, "page-faults").value
    os.close(descriptor)

    assert counted < 10_000  # faults, not nanoseconds


@pytest.mark.service("root")
def test_an_event_of_every_process_on_one_cpu_opens() -> None:
    """The way RAPL is opened: pid -1 on a CPU; root is beyond perf_event_paranoid."""
    descriptor = perf_event.open_event(SOFTWARE, 0, 0)
    first = perf_event.read_count(descriptor, "cpu-clock").value
    second = perf_event.read_count(descriptor, "cpu-clock").value
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
        with pytest.raises(SourceError, match="power: expected a count and two times in 24 bytes, found 0"):
            perf_event.read_count(reader, "power")
    finally:
        os.close(reader)


Said = tuple[int, int, int]


def counted(*said: Said) -> list[int | None]:
    """Return what each read gives; None: it had no turn."""
    reader, writer = os.pipe()
    counter = perf_event.EventCounter(reader, "e")
    found: list[int | None] = []
    for each in said:
        os.write(writer, struct.pack("=QQQ", *each))
        try:
            found.append(counter.read())
        except SourceError:
            found.append(None)
    os.close(reader)
    os.close(writer)
    return found


MULTIPLEXED: dict[str, tuple[list[Said], list[int | None]]] = {
    "whole": ([(100, 10, 10), (150, 20, 20)], [100, 150]),
    "half_of_the_time": ([(100, 10, 5), (200, 20, 10)], [200, 400]),
    "each_part_by_its_own_share": ([(100, 10, 10), (200, 20, 15)], [100, 300]),
    "no_turn_is_not_0": ([(100, 10, 10), (100, 20, 10), (200, 30, 20)], [100, None, 300]),
    "before_its_time": ([(0, 0, 0), (100, 10, 10)], [0, 100]),
    "it_never_goes_back": ([(100, 10, 1), (110, 20, 11)], [1000, 1010]),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=f"case_ceems_209_{kind}") for kind in MULTIPLEXED])
def test_an_event_that_shares_a_counter_is_scaled_to_its_time(kind: str) -> None:
    said, expected = MULTIPLEXED[kind]

    assert counted(*said) == expected


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 10**9), st.integers(0, 10**9)), max_size=20))
def test_a_scaled_count_only_grows__case_ceems_210(parts: list[Said]) -> None:
    sums: list[Said] = []
    at = (0, 0, 0)
    for value, enabled, running in parts:
        at = (at[0] + value * (running > 0), at[1] + enabled, at[2] + min(enabled, running))
        sums.append(at)

    told = [(count, said[0]) for count, said in zip(counted(*sums), sums, strict=True) if count is not None]

    assert [count for count, _ in told] == sorted(count for count, _ in told)
    assert all(count >= value for count, value in told)


@pytest.mark.service("root")
def test_this_kernel_tells_the_times_of_an_event() -> None:
    descriptor = perf_event.open_event(SOFTWARE, 0, 0)
    first, second = (perf_event.read_count(descriptor, "cpu-clock") for _ in range(2))
    os.close(descriptor)

    assert 0 < first.enabled_ns < second.enabled_ns
    assert second.running_ns == second.enabled_ns
