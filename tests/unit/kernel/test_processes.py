"""/proc/PID, with the ugliest commands."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import (
    list_pids,
    parse_process_stat,
    read_cgroup_text,
    read_command,
    read_environment,
    read_io_bytes,
    read_owner,
    read_stat,
)

TAIL = b" S 1 7 7 0 -1 4194304 100 0 0 0 250 50 30 20 20 0 3 0 8000 1000000 500 18446744073709551615 1 1"


def _stat(pid: int, command: bytes, tail: bytes = TAIL) -> bytes:
    return b"%d (%s)%s\n" % (pid, command, tail)


def _write(root: Path, pid: int, name: str, data: bytes) -> None:
    (root / "proc" / str(pid)).mkdir(parents=True, exist_ok=True)
    (root / "proc" / str(pid) / name).write_bytes(data)


def _host(root: Path) -> HostFS:
    (root / "proc").mkdir(exist_ok=True)
    return HostFS(root / "proc", root / "sys", root / "cgroup")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(b"a) b (c", "a) b (c", id="case_energy_c26"),
        pytest.param(b"a) S 1 2 3 (b", "a) S 1 2 3 (b", id="case_energy_c26_looks_like_fields"),
        pytest.param(b"Web Content", "Web Content", id="case_energy_c26_space"),
        pytest.param(b"two\nlines", "two\nlines", id="case_energy_c26_newline"),
        pytest.param(b")", ")", id="case_energy_c26_closing"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"caf\xc3", "caf\udcc3", id="cut_in_a_character"),
    ],
)
def test_the_command_does_not_shift_the_fields(command: bytes, expected: str) -> None:
    found = parse_process_stat(_stat(7, command), "proc/7/stat")

    assert (found.pid, found.command, found.state, found.parent) == (7, expected, "S", 1)
    assert (found.user_ticks, found.system_ticks, found.own_ticks) == (250, 50, 300)
    assert (found.children_user_ticks, found.children_system_ticks, found.children_ticks) == (30, 20, 50)
    assert (found.threads, found.start_ticks) == (3, 8000)
    assert not found.is_kernel_thread


def test_a_kernel_thread_is_told_by_its_flag() -> None:
    tail = b" I 2 0 0 0 -1 69238880 0 0 0 0 0 5 0 0 20 0 1 0 9 0 0"

    assert parse_process_stat(_stat(9, b"kworker/0:1-events", tail), "x").is_kernel_thread


@pytest.mark.parametrize("data", [
    b"", b"7", b"7 (a", b"7 (a) S 1 2", b"7 (a) S x" + b" 0" * 30, b"x (a) S 1" + b" 0" * 30, b")(" + b" 0" * 40,
    b"7 (a) S 1" + b" 0" * 9 + b" -5" + b" 0" * 20, b"\0" * 100, b"7 (a) \xff 1" + b" 0" * 30,
])  # fmt: skip
def test_nonsense_is_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(SourceError, match="proc/7/stat"):
        parse_process_stat(data, "proc/7/stat")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reading_or_an_error(data: bytes) -> None:
    try:
        found = parse_process_stat(data, "place")
    except SourceError:
        return
    assert found.own_ticks >= 0


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name), st.integers(1, 4_194_304))
def test_any_command_is_taken_as_it_is(command: bytes, pid: int) -> None:
    found = parse_process_stat(_stat(pid, command), "place")

    assert (found.pid, found.command.encode(errors="surrogateescape")) == (pid, command)


def test_case_energy_c28_the_idle_task_is_no_process(tmp_path: Path) -> None:
    for pid in (0, 2, 42):
        _write(tmp_path, pid, "stat", _stat(pid, b"x"))
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "12a").mkdir()

    assert list_pids(_host(tmp_path)) == [2, 42]


def test_a_process_that_went_is_unavailable(tmp_path: Path) -> None:
    host = _host(tmp_path)

    for read in (read_stat, read_cgroup_text, read_command, read_owner):
        with pytest.raises(Unavailable) as caught:
            read(host, 42)
        assert caught.value.reason == "absent"


def test_command_owner_and_environment(tmp_path: Path) -> None:
    _write(tmp_path, 5, "cmdline", b"/bin/a b\0-x\0\0")
    _write(tmp_path, 5, "status", b"Name:\tx\nUid:\t1000\t0\t0\t0\n")
    _write(tmp_path, 5, "environ", b"A=1\0SLURM_JOB_ID=42\0B=x=y\0nonsense\0")
    _write(tmp_path, 6, "cmdline", b"")
    _write(tmp_path, 6, "status", b"Name:\tx\n")
    host = _host(tmp_path)

    assert read_command(host, 5) == ["/bin/a b", "-x"]
    assert read_command(host, 6) == []
    assert read_owner(host, 5) == 1000
    assert read_environment(host, 5, ("SLURM_JOB_ID", "B", "C")) == {"SLURM_JOB_ID": "42", "B": "x=y"}
    with pytest.raises(SourceError):
        read_owner(host, 6)


@pytest.mark.parametrize("data", [b"", b"read_bytes: 5\n", b"read_bytes: x\nwrite_bytes: 1\n", b"\xff\n"])
def test_damaged_io_is_an_error(tmp_path: Path, data: bytes) -> None:
    _write(tmp_path, 5, "io", data)

    with pytest.raises(SourceError, match="proc/5/io"):
        read_io_bytes(_host(tmp_path), 5)


def test_this_process_can_be_read() -> None:
    host = HostFS()
    pid = os.getpid()

    assert pid in list_pids(host)
    assert read_stat(host, pid).parent == os.getppid()
    assert read_owner(host, pid) == os.getuid()
    assert "0::" in read_cgroup_text(host, pid)
    assert read_command(host, pid)
    assert min(read_io_bytes(host, pid)) >= 0
