"""The tree of cgroup directories, on a copied tree and on this kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwhere.discovery.cgroup_tree import Appeared, CgroupTree, TreeChange, Vanished
from kwhere.kernel.cgroups import Hierarchy
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.inotify import Change, DirectoryEvent, DirectoryWatch

ROOT = Hierarchy("cgroup", is_v2=True)


@pytest.fixture
def host(tmp_path: Path) -> HostFS:
    (tmp_path / "cgroup").mkdir()
    return HostFS(Path("/proc"), tmp_path / "sys", tmp_path / "cgroup")  # a live host: events work on any file system


@pytest.fixture
def tree(host: HostFS) -> Iterator[CgroupTree]:
    tree = CgroupTree(host, (ROOT,), lambda path: not path.endswith("closed"), max_watches=100)
    yield tree
    tree.close()


def _names(changes: list[TreeChange]) -> list[str]:
    return [("+" if isinstance(change, Appeared) else "-") + change.path for change in changes]


def test_the_first_scan_finds_what_stands(host: HostFS, tree: CgroupTree) -> None:
    (host.path("cgroup/a/b")).mkdir(parents=True)
    (host.path("cgroup/closed/inside")).mkdir(parents=True)

    changes = tree.scan()

    assert _names(changes) == ["+/a", "+/a/b", "+/closed"]
    assert all(isinstance(change, Appeared) and not change.new and not change.created for change in changes)
    assert changes[0] == Appeared(ROOT, "/a", host.inode("cgroup/a"), created=False, new=False)


def test_a_directory_made_and_removed_between_two_looks_is_told(host: HostFS, tree: CgroupTree) -> None:
    tree.scan()
    host.path("cgroup/job").mkdir()
    host.path("cgroup/job").rmdir()

    changes = tree.changes()

    assert _names(changes) == ["+/job", "-/job"]
    assert isinstance(changes[0], Appeared)
    assert changes[0].created


def test_nested_directories_made_at_once_are_found(host: HostFS, tree: CgroupTree) -> None:
    tree.scan()
    host.path("cgroup/a/b/c").mkdir(parents=True)

    assert _names(tree.changes()) == ["+/a", "+/a/b", "+/a/b/c"]
    host.path("cgroup/a/b/d").mkdir()
    assert _names(tree.changes()) == ["+/a/b/d"]


def test_a_name_used_again_is_another_directory(host: HostFS, tree: CgroupTree) -> None:
    host.path("cgroup/a").mkdir()
    tree.scan()
    host.path("cgroup/a").rmdir()
    host.path("cgroup/a").mkdir()
    host.path("cgroup/a/b").mkdir()

    assert _names(tree.changes()) == ["-/a", "+/a", "+/a/b"]


def test_a_renamed_directory_is_not_new(host: HostFS, tree: CgroupTree) -> None:
    host.path("cgroup/a").mkdir()
    tree.scan()
    host.path("cgroup/a").rename(host.path("cgroup/z"))

    changes = tree.changes()

    assert _names(changes) == ["-/a", "+/z"]
    assert isinstance(changes[1], Appeared)
    assert not changes[1].new


def test_files_are_not_told(host: HostFS, tree: CgroupTree) -> None:
    tree.scan()
    host.path("cgroup/file").write_text("x")

    assert tree.changes() == []


def test_without_watches_the_scan_finds_it(host: HostFS) -> None:
    tree = CgroupTree(host, (ROOT,), lambda _: True, max_watches=0)
    host.path("cgroup/gone").mkdir()
    tree.scan()
    host.path("cgroup/a").mkdir()
    host.path("cgroup/gone").rmdir()

    assert tree.changes() == []
    changes = tree.scan()

    assert _names(changes) == ["-/gone", "+/a"]
    assert isinstance(changes[1], Appeared)
    assert changes[1].new
    assert not changes[1].created
    tree.close()


def test_scan_does_not_tell_twice_what_events_told(host: HostFS, tree: CgroupTree) -> None:
    tree.scan()
    host.path("cgroup/a").mkdir()

    assert _names(tree.scan()) == ["+/a"]
    assert tree.scan() == []


def test_everything_below_a_lost_directory_vanishes(host: HostFS, tree: CgroupTree) -> None:
    host.path("cgroup/a/b").mkdir(parents=True)
    tree.scan()
    host.path("cgroup/a/b").rmdir()
    host.path("cgroup/a").rmdir()

    assert tree.changes() == [Vanished(ROOT, "/a/b"), Vanished(ROOT, "/a")]
    assert tree.watches == 1


def test_many_directories_are_followed(host: HostFS, tree: CgroupTree) -> None:
    tree.scan()
    for number in range(300):
        host.path(f"cgroup/j{number}").mkdir()

    assert len(tree.changes()) == 300
    assert tree.watches == 100
    for number in range(300):
        host.path(f"cgroup/j{number}").rmdir()
    assert len(tree.changes()) == 300


def test_lost_events_bring_a_scan(host: HostFS, tree: CgroupTree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.scan()
    host.path("cgroup/kept").mkdir()
    # The kernel's queue holds 16384 events; to fill it takes longer than all other tests here.
    monkeypatch.setattr(DirectoryWatch, "read", lambda _: [DirectoryEvent(-1, Change.OVERFLOW, "")])

    assert _names(tree.changes()) == ["+/kept"]

    assert tree.overflows == 1
    monkeypatch.undo()
    assert tree.scan() == []


def test_a_copied_tree_is_compared_by_name(tmp_path: Path) -> None:
    for moment, names in (("0", ("a", "b")), ("1", ("a", "c"))):
        for name in names:
            (tmp_path / "cgroup" / moment / name).mkdir(parents=True)
    host = HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup")
    tree = CgroupTree(host, (ROOT,), lambda _: True, max_watches=100)
    assert _names(tree.scan()) == ["+/a", "+/b"]

    host.select_snapshot(1)

    assert _names(tree.scan()) == ["-/b", "+/c"]
    tree.close()
