"""Cgroup paths as the mounted tree has them, for a reader in a namespace of its own: an agent in a container."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.kernel.cgroup_namespace import absolute_paths, find_roots
from kwhere.kernel.hostfs import CgroupRoots, HostFS
from kwhere.kernel.processes import read_cgroup_text

SLICE = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-a.scope"
PLAIN = "/kubepods/besteffort/pod1/a"


def agent_in(tmp_path: Path, own: str, init: str, *, below: str = "/") -> HostFS:
    """Return the /proc and the v2 tree as an agent sees them whose namespace begins at `own`."""
    proc = FakeProc(tmp_path)
    proc.process(1, "systemd", start=1, cgroup=f"0::{init}\n")
    proc.process(77, "kwhere", start=1, cgroup=f"0::{below}\n")
    (tmp_path / "proc" / "self").symlink_to("77")
    tree = tmp_path / "cgroup"
    (tree / own.strip("/") / below.strip("/")).mkdir(parents=True)
    (tree / "init.scope").mkdir()
    (tree / "cgroup.controllers").write_text("cpu\n")
    (tree / "init.scope" / "cgroup.procs").write_text("1\n")
    (tree / own.strip("/") / below.strip("/") / "cgroup.procs").write_text("12\n77\n")
    return proc.host


@pytest.mark.parametrize(("own", "path", "expected"), [
    (SLICE, "/../../kubepods-besteffort-pod2.slice/cri-containerd-b.scope",
     "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod2.slice/cri-containerd-b.scope"),
    (SLICE, "/../../../../system.slice/ssh.service", "/system.slice/ssh.service"),
    (PLAIN, "/../../pod2/b", "/kubepods/besteffort/pod2/b"),
    (PLAIN, "/../../../burstable/pod3/c", "/kubepods/burstable/pod3/c"),
    (PLAIN, "/../../../pod4/d (deleted)", "/kubepods/pod4/d (deleted)"),
    (PLAIN, "/", PLAIN),
    (PLAIN, "/inner", f"{PLAIN}/inner"),
    (PLAIN, "/../../../..", "/"),
])  # fmt: skip
def test_paths_are_those_of_the_tree(tmp_path: Path, own: str, path: str, expected: str) -> None:
    host = agent_in(tmp_path, own, "/../../../../init.scope")
    (tmp_path / "proc" / "9").mkdir()
    (tmp_path / "proc" / "9" / "cgroup").write_text(f"0::{path}\n")

    assert read_cgroup_text(host, 9) == f"0::{expected}\n"


def test_an_agent_below_the_beginning_of_its_namespace_finds_it(tmp_path: Path) -> None:
    host = agent_in(tmp_path, PLAIN, "/../../../../init.scope", below="/supervised")

    assert find_roots(host).paths == {"": PLAIN}


@pytest.mark.parametrize("sign", ["\x0b", "\x1e", "\x85", "\u2028"])
def test_a_name_makes_up_no_line(tmp_path: Path, sign: str) -> None:
    """The kernel refuses cgroups with a line feed in their name alone."""
    host = agent_in(tmp_path, PLAIN, "/../../../../init.scope", below=f"/supervised{sign}0::")

    assert find_roots(host).paths == {"": PLAIN}


def test_in_the_host_s_own_namespace_nothing_changes(tmp_path: Path) -> None:
    host = agent_in(tmp_path, PLAIN, "/init.scope")

    assert find_roots(host) == CgroupRoots({}, are_whole=True)
    assert read_cgroup_text(host, 1) == "0::/init.scope\n"


def test_an_agent_that_is_in_no_directory_of_the_tree_leaves_paths_as_they_are(tmp_path: Path) -> None:
    host = agent_in(tmp_path, PLAIN, "/../../../../init.scope")
    (tmp_path / "cgroup" / PLAIN.strip("/") / "cgroup.procs").write_text("12\n")

    assert read_cgroup_text(host, 1) == "0::/../../../../init.scope\n"


def test_a_look_that_failed_is_repeated(tmp_path: Path) -> None:
    host = agent_in(tmp_path, PLAIN, "/../../../../init.scope")
    procs = tmp_path / "cgroup" / PLAIN.strip("/") / "cgroup.procs"
    whole = procs.read_text()
    procs.write_text("12\n")
    read_cgroup_text(host, 1)
    procs.write_text(whole)

    assert [read_cgroup_text(host, 77) for _ in range(3)][-1] == f"0::{PLAIN}\n"


def test_a_host_that_tells_nothing_is_asked_ever_more_rarely_and_one_that_did_never_again() -> None:
    host, looks = HostFS(), [0]

    def look(fs: HostFS) -> CgroupRoots:
        looks[0] += 1
        return CgroupRoots({"": PLAIN} if looks[0] == 10 else {}, are_whole=looks[0] == 10)

    found = [host.cgroup_roots(look) for _ in range(2000)]

    assert looks == [10]
    assert (found[0], found[-1]) == ({}, {"": PLAIN})


def test_each_hierarchy_of_v1_has_its_own_beginning(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.process(1, "init", start=1, cgroup="4:cpuacct,cpu:/..\n3:name=systemd:/../..\n2:memory:/../../x\n")
    proc.process(77, "kwhere", start=1, cgroup="4:cpuacct,cpu:/\n3:name=systemd:/\n2:memory:/\n")
    (tmp_path / "proc" / "self").symlink_to("77")
    for controller, own in (("cpuacct", "docker"), ("memory", "x/docker")):
        (tmp_path / "cgroup" / controller / own).mkdir(parents=True)
        (tmp_path / "cgroup" / controller / own / "cgroup.procs").write_text("77\n")
    (tmp_path / "cgroup" / "cpuacct" / "cpuacct.usage").write_text("1\n")

    text = read_cgroup_text(proc.host, 1)

    assert text == "4:cpuacct,cpu:/\n3:name=systemd:/../..\n2:memory:/x\n"


@given(st.text(max_size=120), st.dictionaries(st.sampled_from(["", "cpu"]), st.just("/a/b")))
def test_any_text_is_taken(text: str, roots: dict[str, str]) -> None:
    assert absolute_paths(text, roots).count("\n") == text.count("\n")


_READER = """
import sys
from pathlib import Path
from kwhere.kernel.hostfs import CgroupRoots, HostFS
from kwhere.kernel.processes import read_cgroup_text
for pid in map(int, sys.argv[1:]):
    print(read_cgroup_text(HostFS(cgroupfs=Path("/sys/fs/cgroup")), pid), end="")
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs the service root: cgroup namespaces"
)
def test_a_real_namespace_s_paths_are_those_of_the_host(tmp_path: Path) -> None:
    tree = next(
        (p for p in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (p / "cgroup.procs").exists()), None
    )
    if tree is None or not os.access(tree / "cgroup.procs", os.W_OK):
        pytest.skip("needs the service root: no cgroup v2 tree that can be written to")
    deep = tree / f"kwhere-test-{os.getpid()}"
    (deep / "own").mkdir(parents=True)
    try:
        enter = f"echo $$ > {deep}/own/cgroup.procs && exec unshare --cgroup {sys.executable} -c '{_READER}' $PPID"
        said = subprocess.run(["sh", "-c", enter], capture_output=True, text=True, check=True, timeout=60).stdout
    finally:
        (deep / "own").rmdir()
        deep.rmdir()

    here = Path("/proc/self/cgroup").read_text()
    assert [line for line in said.splitlines() if line.startswith("0::")] == [
        line for line in here.splitlines() if line.startswith("0::")
    ]
