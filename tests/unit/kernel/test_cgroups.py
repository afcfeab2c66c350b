"""Layouts, CPU time and full readings, of built trees and of this kernel."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroup_detail import (
    NO_LIMIT_BYTES,
    CgroupDetail,
    DetailFiles,
    parse_io_stat,
    parse_limit,
    parse_selected,
    parse_throttle,
)
from kwhere.kernel.cgroups import (
    CgroupVersion,
    CpuFile,
    CpuTime,
    Hierarchy,
    child_directories,
    detect_layout,
    is_populated,
    parse_cpu_stat,
    parse_cpuacct_stat,
    parse_fields,
    parse_number,
    process_ids,
)
from kwhere.kernel.hostfs import HostFS


def _host(root: Path, files: dict[str, str]) -> HostFS:
    (root / "cgroup").mkdir(exist_ok=True)
    for name, text in files.items():
        path = root / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return HostFS(root / "proc", root / "sys", root / "cgroup")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


V1 = {"cpu,cpuacct/cpuacct.usage": "1", "cpuset/tasks": "", "memory/tasks": ""}
HYBRID = {"cpu/tasks": "", "cpuacct/cpuacct.usage": "1", "unified/cgroup.controllers": "hugetlb"}
V2 = {"cgroup.controllers": "cpu io memory", "system.slice/cpu.stat": "usage_usec 1"}


@pytest.mark.parametrize(("files", "version", "name", "cpu"), [
    (V1, "auto", "v1", ["cgroup/cpu,cpuacct"]),
    (HYBRID, "auto", "hybrid", ["cgroup/cpuacct", "cgroup/unified"]),
    (HYBRID, "v1", "v1", ["cgroup/cpuacct"]),
    (HYBRID, "v2", "v2", ["cgroup/unified"]),
    (V2, "auto", "v2", ["cgroup"]),
    (V2, "v2", "v2", ["cgroup"]),
    ({"unified/cgroup.controllers": "", "systemd/tasks": ""}, "auto", "v2", ["cgroup/unified"]),
])  # fmt: skip
def test_the_layout_is_told_by_the_directories(
    tmp_path: Path, files: dict[str, str], version: str, name: str, cpu: list[str]
) -> None:
    layout = detect_layout(_host(tmp_path, files), CgroupVersion(version))

    assert layout.name == name
    assert [hierarchy.prefix for hierarchy in layout.cpu] == cpu


def test_joined_and_split_mounts_serve_both_controllers(tmp_path: Path) -> None:
    host = _host(tmp_path, V1)
    (tmp_path / "cgroup" / "cpu").symlink_to("cpu,cpuacct")
    (tmp_path / "cgroup" / "cpuacct").symlink_to("cpu,cpuacct")

    layout = detect_layout(host)

    assert layout.controllers["cpu"] == layout.controllers["cpuacct"] == Hierarchy("cgroup/cpu,cpuacct", is_v2=False)


@pytest.mark.parametrize(("files", "version"), [({}, "auto"), (V1, "v2"), (V2, "v1"), ({"memory/tasks": ""}, "auto")])
def test_no_hierarchy_with_cpu_time_is_unavailable(tmp_path: Path, files: dict[str, str], version: str) -> None:
    with pytest.raises(Unavailable) as caught:
        detect_layout(_host(tmp_path, files), CgroupVersion(version))
    assert caught.value.reason == "absent"


def test_cpu_time_of_v1_and_v2(tmp_path: Path) -> None:
    host = _host(
        tmp_path,
        {"cpuacct/a/cpuacct.usage": "1234\n", "unified/a/cpu.stat": "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"},
    )

    assert CpuFile(host, Hierarchy("cgroup/cpuacct", is_v2=False), "/a").read() == CpuTime(1234)
    assert CpuFile(host, Hierarchy("cgroup/unified", is_v2=True), "/a").read() == CpuTime(5000, 3000, 2000)


def test_ticks_serve_where_the_exact_file_is_missing(tmp_path: Path) -> None:
    host = _host(tmp_path, {"cpuacct/a/cpuacct.stat": "user 30\nsystem 12\n"})

    found = CpuFile(host, Hierarchy("cgroup/cpuacct", is_v2=False), "/a").read()

    assert found == CpuTime(420_000_000, 300_000_000, 120_000_000)


def test_cpu_time_by_cpu_where_it_is_asked_for(tmp_path: Path) -> None:
    host = _host(tmp_path, {"cpuacct/a/cpuacct.usage": "9\n", "cpuacct/a/cpuacct.usage_percpu": "4 5 \n"})
    hierarchy = Hierarchy("cgroup/cpuacct", is_v2=False)

    assert CpuFile(host, hierarchy, "/a", per_cpu=True).read() == CpuTime(9, per_cpu_ns=(4, 5))
    (tmp_path / "cgroup/cpuacct/a/cpuacct.usage_percpu").unlink()
    assert CpuFile(host, hierarchy, "/a", per_cpu=True).read() == CpuTime(9)


@pytest.mark.parametrize(("data", "expected"), [
    (b"usage_usec 5\nuser_usec 3\nsystem_usec 2\nnice_usec 0\nnr_periods 0\n", CpuTime(5000, 3000, 2000)),
    (b"user_usec 3\nnew_field 9\nusage_usec 5\n", CpuTime(5000, 3000, None)),
    (b"usage_usec 18446744073709551615\n", CpuTime(18446744073709551615000)),
])  # fmt: skip
def test_cpu_stat_in_any_order(data: bytes, expected: CpuTime) -> None:
    assert parse_cpu_stat(data, "place") == expected


@pytest.mark.parametrize("data", [
    b"", b"usage_usec", b"usage_usec x\nuser_usec 1\nsystem_usec 1\n", b"usage_usec -1\n",
    b"user_usec 1\n", b"\0\0", b"usage_usec 1 2 3\n",
])  # fmt: skip
def test_a_damaged_cpu_stat_is_an_error(data: bytes) -> None:
    with pytest.raises(SourceError, match="place"):
        parse_cpu_stat(data, "place")


@given(st.binary(max_size=100))
def test_any_bytes_are_a_reading_or_an_error(data: bytes) -> None:
    parsers: tuple[Callable[[bytes, str], object], ...] = (
        parse_cpu_stat,
        parse_cpuacct_stat,
        parse_fields,
        parse_number,
        parse_limit,
        parse_io_stat,
        parse_throttle,
        lambda data, place: parse_selected(data, (b"anon", b"a"), place),
    )
    for parse in parsers:
        with contextlib.suppress(SourceError):
            parse(data, "place")


@given(st.dictionaries(st.sampled_from(["anon", "file", "shmem", "anon_thp", "file_x"]), st.integers(0, 2**63)))
def test_selected_lines_are_exact(fields: dict[str, int]) -> None:
    data = "".join(f"{name} {value}\n" for name, value in fields.items()).encode()

    found = parse_selected(data, (b"anon", b"file"), "place")

    assert found == {name.encode(): fields[name] for name in ("anon", "file") if name in fields}


def test_io_is_summed_over_devices() -> None:
    text = b"8:0 rbytes=100 wbytes=10 rios=3 wios=1 dbytes=7 dios=1\n253:0 rbytes=1 wbytes=2 rios=3 wios=4\n8:16 \n"

    assert parse_io_stat(text, "place") == (101, 12, 6, 5)
    assert parse_throttle(b"8:0 Read 100\n8:0 Write 10\n8:0 Total 110\n8:16 Read 1\nTotal 111\n", "place") == (101, 10)
    assert parse_throttle(b"Total 0\n", "place") == (0, 0)


@pytest.mark.parametrize(
    ("data", "limit"), [(b"max\n", None), (b"9223372036854771712\n", None), (b"1048576\n", 1 << 20), (b"0\n", 0)]
)
def test_no_limit_is_none(data: bytes, limit: int | None) -> None:
    assert parse_limit(data, "place") == limit


V2_UNIT = {
    "cgroup.controllers": "cpu io memory",
    "u/cpu.stat": "usage_usec 30\nuser_usec 20\nsystem_usec 10\nthrottled_usec 7\n",
    "u/memory.current": "1000\n",
    "u/memory.peak": "2000\n",
    "u/memory.stat": "anon 600\nfile 300\nanon_thp 5\nshmem 50\n",
    "u/memory.swap.current": "9\n",
    "u/memory.max": "max\n",
    "u/memory.swap.max": "max\n",
    "u/memory.events": "low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\n",
    "u/io.stat": "8:0 rbytes=100 wbytes=10 rios=3 wios=1\n",
    "u/pids.current": "4\n",
    "u/cpu.pressure": "some avg10=0.00 avg60=0.00 total=123\nfull avg10=0.00 avg60=0.00 total=45\n",
}


def test_a_full_reading_of_v2(tmp_path: Path) -> None:
    host = _host(tmp_path, V2_UNIT)

    found, errors = DetailFiles(host, detect_layout(host), "/u").read()

    assert errors == []
    assert found == CgroupDetail(
        cpu_user_ns=20_000,
        cpu_system_ns=10_000,
        throttled_ns=7_000,
        memory_current_bytes=1000,
        memory_peak_bytes=2000,
        memory_anon_bytes=600,
        memory_file_bytes=300,
        memory_shmem_bytes=50,
        memory_swap_bytes=9,
        memory_limit_bytes=None,
        memory_swap_limit_bytes=NO_LIMIT_BYTES,
        oom_kills=1,
        io_read_bytes=100,
        io_write_bytes=10,
        io_read_operations=3,
        io_write_operations=1,
        threads=4,
        pressure_us={("cpu", "some"): 123, ("cpu", "full"): 45},
    )


def test_a_full_reading_of_v1(tmp_path: Path) -> None:
    host = _host(
        tmp_path,
        {
            "cpuacct/u/cpuacct.stat": "user 3\nsystem 2\n",
            "cpu/u/cpu.stat": "nr_periods 1\nnr_throttled 1\nthrottled_time 77\n",
            "memory/u/memory.usage_in_bytes": "1000\n",
            "memory/u/memory.max_usage_in_bytes": "1500\n",
            "memory/u/memory.limit_in_bytes": "4096\n",
            "memory/u/memory.stat": "cache 1\nrss 2\nswap 3\ntotal_cache 300\ntotal_rss 600\ntotal_shmem 50\n"
            "total_swap 9\n",
            "memory/u/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            "blkio/u/blkio.throttle.io_service_bytes": "8:0 Read 1\n",
            "blkio/u/blkio.throttle.io_service_bytes_recursive": "8:0 Read 100\n8:0 Write 10\nTotal 110\n",
            "blkio/u/blkio.throttle.io_serviced": "8:0 Read 4\n8:0 Write 2\nTotal 6\n",
            "pids/u/pids.current": "5\n",
        },
    )

    found, errors = DetailFiles(host, detect_layout(host), "/u").read()

    assert errors == []
    assert found == CgroupDetail(
        cpu_user_ns=30_000_000,
        cpu_system_ns=20_000_000,
        throttled_ns=77,
        memory_current_bytes=1000,
        memory_peak_bytes=1500,
        memory_anon_bytes=600,
        memory_file_bytes=300,
        memory_shmem_bytes=50,
        memory_swap_bytes=9,
        memory_limit_bytes=4096,
        oom_kills=2,
        io_read_bytes=100,
        io_write_bytes=10,
        io_read_operations=4,
        io_write_operations=2,
        threads=5,
    )


SPLIT_UNIT = {
    "cpuacct/run-7/cpuacct.stat": "user 3\nsystem 2\n",
    "cpuacct/run-7/cgroup.procs": "4711\n",
    "memory/box/a1/memory.max_usage_in_bytes": "999999\n",
    "memory/box/a1/run-7/memory.max_usage_in_bytes": "1500\n",
    "memory/box/a1/run-7/step/memory.max_usage_in_bytes": "7\n",
    "pids/pids.current": "50\n",
}


@pytest.mark.parametrize(
    ("where", "peak_bytes"), [("/box/a1/run-7", 1500), ("/box/a1/run-7/step", 1500), ("/box/a1", None), ("/", None)]
)
def test_a_cgroup_that_lies_elsewhere_in_another_hierarchy_is_found_by_its_processes(
    tmp_path: Path, where: str, peak_bytes: int | None
) -> None:
    host = _host(tmp_path, SPLIT_UNIT)
    _write(tmp_path / "proc/4711/cgroup", f"5:pids:/\n4:memory:{where}\n2:cpuacct:/run-7\n0::/\n")

    found, errors = DetailFiles(host, detect_layout(host), "/run-7").read()

    assert errors == []
    assert (found.memory_peak_bytes, found.cpu_user_ns, found.threads) == (peak_bytes, 30_000_000, None)


def test_a_process_that_is_moved_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    host = _host(tmp_path, SPLIT_UNIT)
    detail = DetailFiles(host, detect_layout(host), "/run-7")
    text = tmp_path / "proc/4711/cgroup"
    _write(text, "4:memory:/box/a1\n2:cpuacct:/run-7\n")
    first = detail.read()[0].memory_peak_bytes

    _write(text, "4:memory:/box/a1/run-7\n2:cpuacct:/run-7\n")

    assert (first, detail.read()[0].memory_peak_bytes, detail.read()[0].memory_peak_bytes) == (None, 1500, 1500)
    detail.close()


def test_one_damaged_file_costs_only_itself(tmp_path: Path) -> None:
    host = _host(tmp_path, V2_UNIT | {"u/memory.current": "garbage", "u/io.stat": "8:0 rbytes=x", "u/memory.peak": ""})

    found, errors = DetailFiles(host, detect_layout(host), "/u").read()

    assert len(errors) == 3
    assert (found.memory_current_bytes, found.memory_peak_bytes, found.io_read_bytes) == (None, None, None)
    assert (found.memory_anon_bytes, found.cpu_user_ns) == (600, 20_000)


def test_a_huge_file_is_an_error_of_its_own(tmp_path: Path) -> None:
    host = _host(tmp_path, V2_UNIT | {"u/memory.stat": "x 1\n" * 500_000})

    found, errors = DetailFiles(host, detect_layout(host), "/u").read()

    assert [type(error) for error in errors] == [SourceError]
    assert found.memory_current_bytes == 1000


def test_processes_below_are_counted_once(tmp_path: Path) -> None:
    host = _host(
        tmp_path, {"cgroup.controllers": "", "u/cgroup.procs": "1\n2\n", "u/v/cgroup.procs": "3\n2\n0\n", "u/w/x": ""}
    )
    hierarchy = Hierarchy("cgroup", is_v2=True)

    assert process_ids(host, hierarchy, "/u") == [1, 2, 3]
    assert process_ids(host, hierarchy, "/gone") == []
    assert [name for name, _ in child_directories(host, hierarchy, "/u")] == ["v", "w"]


@pytest.mark.parametrize(("files", "is_v2", "expected"), [
    ({"u/cgroup.events": "populated 1\nfrozen 0\n"}, True, True),
    ({"u/cgroup.events": "frozen 0\npopulated 0\n"}, True, False),
    ({"u/cgroup.events": "nonsense"}, True, None),
    ({"u/x": ""}, True, None),
    ({"u/cgroup.procs": "", "u/step_0/cgroup.procs": "7\n"}, False, True),
    ({"u/cgroup.procs": "", "u/step_0/cgroup.procs": ""}, False, False),
    ({"u/x": ""}, False, None),
])  # fmt: skip
def test_whether_anybody_lives_there(tmp_path: Path, files: dict[str, str], is_v2: bool, expected: bool | None) -> None:
    host = _host(tmp_path, files)

    assert is_populated(host, Hierarchy("cgroup", is_v2=is_v2), "/u") is expected


@pytest.fixture
def real_cgroup() -> Iterator[tuple[HostFS, str]]:
    host = HostFS()
    try:
        layout = detect_layout(host)
        name = f"/kernel-test-{os.getpid()}"
        directory = host.path(layout.cpu[0].directory(name))
        directory.mkdir()
    except (Unavailable, OSError) as error:
        pytest.skip(f"needs the service cgroups: {error}")
    yield host, name
    if directory.exists():
        directory.rmdir()


@pytest.mark.service("cgroups")
def test_a_real_cgroup_reads_zero_and_then_is_gone(real_cgroup: tuple[HostFS, str]) -> None:
    host, path = real_cgroup
    layout = detect_layout(host)
    cpu = CpuFile(host, layout.cpu[0], path)
    detail = DetailFiles(host, layout, path)

    assert cpu.read().total_ns == 0
    assert is_populated(host, layout.cpu[0], path) is False
    assert detail.read()[0].cpu_user_ns == 0
    host.path(layout.cpu[0].directory(path)).rmdir()

    for read in (cpu.read, detail.read):
        with pytest.raises(Unavailable) as caught:
            read()
        assert caught.value.reason == "absent"
    cpu.close()
    detail.close()
