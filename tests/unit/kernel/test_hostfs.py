import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel import hostfs
from kwhere.kernel.hostfs import HostFS, KeptFile


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for area in ("proc", "sys", "cgroup"):
        (tmp_path / area).mkdir()
    return tmp_path


@pytest.fixture
def fs(root: Path) -> HostFS:
    return HostFS(root / "proc", root / "sys", root / "cgroup")


@pytest.fixture
def two_moments(root: Path) -> HostFS:
    for moment in ("0", "1"):
        (root / "proc" / moment).mkdir()
        (root / "proc" / moment / "uptime").write_text(f"{moment}.00 0.00\n")
    (root / "sys" / "constant").write_text("7\n")
    return HostFS(root / "proc", root / "sys", root / "cgroup")


def test_files_of_all_areas_are_read(root: Path, fs: HostFS) -> None:
    (root / "proc" / "stat").write_bytes(b"cpu \xff")
    (root / "cgroup" / "a:b\\x2dc").mkdir()
    (root / "cgroup" / "a:b\\x2dc" / "cpu.stat").write_text("usage_usec 5\n")

    assert fs.read("proc/stat") == b"cpu \xff"
    assert fs.read_text("proc/stat") == "cpu \ufffd"
    assert fs.read_word("cgroup/a:b\\x2dc/cpu.stat") == "usage_usec 5"
    assert fs.list_dir("cgroup") == ["a:b\\x2dc"]
    assert [(e.name, e.is_directory) for e in fs.scan_dir("cgroup")] == [("a:b\\x2dc", True)]
    assert fs.scan_dir("cgroup")[0].inode == fs.inode("cgroup/a:b\\x2dc")


@pytest.mark.parametrize("path", ["cgroup/../proc/stat", "cgroup/a/../../x", "proc/..", "proc/a\0b"])
def test_no_path_leads_out_of_its_area(fs: HostFS, path: str) -> None:
    with pytest.raises(Unavailable) as caught:
        fs.read(path)

    assert caught.value.reason == "absent"
    assert not fs.exists(path)


def test_an_unknown_area_is_a_mistake_of_the_caller(fs: HostFS) -> None:
    with pytest.raises(ValueError, match="etc/passwd"):
        fs.read("etc/passwd")


def test_an_absent_file_is_named(root: Path, fs: HostFS) -> None:
    with pytest.raises(Unavailable, match="proc/pressure/cpu") as caught:
        fs.read("proc/pressure/cpu")

    assert caught.value.reason == "absent"


@pytest.mark.parametrize(
    ("number", "reason"),
    [("EACCES", "permission"), ("EPERM", "permission"), ("ENOENT", "absent"), ("ENODEV", "absent")]
    + [(name, "unsupported") for name in ("EINVAL", "EIO", "ENODATA", "EOPNOTSUPP")],
)
def test_the_kernels_refusals_have_a_reason(number: str, reason: str) -> None:
    found = hostfs.failure(OSError(getattr(errno, number), "x"), Path("/sys/a"))

    assert isinstance(found, Unavailable)
    assert found.reason == reason
    assert str(found).startswith("/sys/a: ")


def test_another_failure_is_a_source_error() -> None:
    assert isinstance(hostfs.failure(OSError(errno.EAGAIN, "x"), Path("/sys/a")), SourceError)
    assert isinstance(hostfs.failure(OSError("odd"), Path("/sys/a")), SourceError)


def test_a_directory_read_as_a_file_is_a_source_error(root: Path, fs: HostFS) -> None:
    with pytest.raises(SourceError):
        fs.read("proc")


def test_a_pipe_never_hangs(root: Path, fs: HostFS) -> None:
    os.mkfifo(root / "proc" / "stat")

    with pytest.raises(SourceError):
        fs.read("proc/stat")


def test_a_file_over_the_limit_is_refused_but_its_head_can_be_had(root: Path, fs: HostFS) -> None:
    (root / "proc" / "cmdline").write_bytes(b"x" * 40_000)

    with pytest.raises(SourceError, match="at most 39999 bytes"):
        fs.read("proc/cmdline", limit_bytes=39_999)
    assert len(fs.read("proc/cmdline", limit_bytes=40_000)) == 40_000
    assert fs.read_head("proc/cmdline", 20_000) == b"x" * 20_000


@pytest.mark.parametrize(
    ("text", "value"), [("0\n", 0), (" 42", 42), ("-1\n", -1), ("18446744073709551615", 2**64 - 1)]
)
def test_numbers(root: Path, fs: HostFS, text: str, value: int) -> None:
    (root / "sys" / "n").write_text(text)

    assert fs.read_int("sys/n") == value


@pytest.mark.parametrize("text", ["", "\n", "1.5", "1_000", "0x10", "٣", "max", "1 2", "9" * 5000, "-", "+1"])
def test_what_is_no_number_is_refused_with_the_file(root: Path, fs: HostFS, text: str) -> None:
    (root / "sys" / "n").write_text(text)

    with pytest.raises(SourceError, match="sys/n: expected a decimal number") as caught:
        fs.read_int("sys/n")
    assert len(str(caught.value)) < 300


def test_samples_follow_the_recorded_moments(two_moments: HostFS) -> None:
    seen = []
    for sample in range(3):
        two_moments.select_snapshot(sample)
        seen.append((two_moments.read_word("proc/uptime"), two_moments.read_int("sys/constant")))

    assert seen == [("0.00 0.00", 7), ("1.00 0.00", 7), ("1.00 0.00", 7)]
    assert two_moments.has_two_moments


def test_process_1_is_no_second_moment(root: Path) -> None:
    (root / "proc" / "1").mkdir()
    (root / "proc" / "uptime").write_text("5.00 1.00\n")
    fs = HostFS(root / "proc", root / "sys", root / "cgroup")

    fs.select_snapshot(1)

    assert fs.read_word("proc/uptime") == "5.00 1.00"
    assert not fs.has_two_moments


def test_a_copied_tree_is_told_from_a_mounted_procfs(root: Path, fs: HostFS) -> None:
    assert fs.is_recorded
    (root / "proc" / "42").mkdir()
    (root / "proc" / "42" / "stat").write_text("42 (a) S")
    (root / "proc" / "self").symlink_to("42")
    assert HostFS(root / "proc", root / "sys", root / "cgroup").is_recorded
    assert not HostFS().is_recorded


def test_a_kept_file_is_fresh_at_every_read(root: Path, fs: HostFS) -> None:
    (root / "proc" / "stat").write_text("1")
    kept = fs.keep("proc/stat")

    first = kept.read()
    (root / "proc" / "stat").write_text("2")

    assert (first, kept.read()) == (b"1", b"2")
    kept.close()
    assert fs.kept_files == 0


def test_a_kept_file_follows_the_moments(two_moments: HostFS) -> None:
    kept = two_moments.keep("proc/uptime")
    before = kept.read()

    two_moments.select_snapshot(1)

    assert (before, kept.read()) == (b"0.00 0.00\n", b"1.00 0.00\n")
    assert two_moments.kept_files == 1
    kept.close()


@pytest.mark.parametrize("size", [0, 2047, 2048, 16_383, 16_384, 16_385, 100_000, 1 << 20])
def test_a_kept_file_of_any_size_is_whole(root: Path, fs: HostFS, size: int) -> None:
    content = os.urandom(size)
    (root / "proc" / "stat").write_bytes(content)
    kept = fs.keep("proc/stat")

    assert kept.read() == content
    kept.close()


def test_a_kept_file_has_the_same_bound(root: Path, fs: HostFS) -> None:
    (root / "proc" / "stat").write_bytes(b"x" * ((1 << 20) + 1))
    kept = fs.keep("proc/stat")

    with pytest.raises(SourceError, match="at most"):
        kept.read()
    kept.close()


def test_a_kept_file_that_vanished_with_the_moment_is_absent_and_may_come_back(root: Path, two_moments: HostFS) -> None:
    kept = two_moments.keep("proc/uptime")
    (root / "proc" / "1" / "uptime").unlink()
    two_moments.select_snapshot(1)

    for _ in range(2):
        with pytest.raises(Unavailable):
            kept.read()
    assert two_moments.kept_files == 0
    (root / "proc" / "1" / "uptime").write_text("9")

    assert kept.read() == b"9"
    kept.close()


@pytest.fixture
def few_descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # other tests of this process hold descriptors too
    monkeypatch.setattr(hostfs, "RESERVED_DESCRIPTORS", len(os.listdir("/proc/self/fd")) + 64)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hostfs.RESERVED_DESCRIPTORS + 3, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_files_than_descriptors_are_still_read(root: Path, fs: HostFS, few_descriptors: None) -> None:
    for i in range(10):
        (root / "sys" / f"f{i}").write_text(str(i))

    kept = [fs.keep(f"sys/f{i}") for i in range(10)]

    assert [file.read() for file in kept] == [str(i).encode() for i in range(10)]
    assert fs.kept_files == 3
    for file in kept:
        file.close()
    assert fs.kept_files == 0


def test_the_descriptor_limit_is_raised(few_descriptors: None) -> None:
    raised = hostfs.raise_descriptor_limit()

    assert raised == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert raised >= hostfs.RESERVED_DESCRIPTORS + 3


def test_the_running_kernels_files_are_whole() -> None:
    fs = HostFS()
    kept: list[KeptFile] = [fs.keep(name) for name in ("proc/stat", "proc/diskstats", "proc/mounts", "proc/uptime")]

    for file in kept:
        assert file.read().endswith(b"\n")
        file.close()
    with pytest.raises(Unavailable):
        fs.keep("proc/no-such-file")
    assert fs.kept_files == 0


@pytest.mark.parametrize("text", ["", " \n", "a\nb", "a\x1bb", "x" * 129, "\ufffd" * 200])
def test_what_is_no_name_never_becomes_a_label(root: Path, fs: HostFS, text: str) -> None:
    (root / "sys" / "name").write_text(text)

    with pytest.raises(SourceError, match="sys/name: expected a name"):
        fs.read_name("sys/name")


def test_a_name_may_have_spaces(root: Path, fs: HostFS) -> None:
    (root / "sys" / "name").write_text("Package id 0\n")

    assert fs.read_name("sys/name") == "Package id 0"
