"""What units were given; None is unknown."""

from pathlib import Path

import pytest

from kwhere.core.unit import Allocation
from kwhere.discovery.allocation import AllocationReader
from kwhere.discovery.classify import Classifier
from kwhere.discovery.facts import Facts
from kwhere.kernel.cgroups import detect_layout
from kwhere.kernel.hostfs import HostFS

POD = "/kubepods.slice/kubepods-pod8bb3a0a5_7ea8_4bc1_b1d4_1a2b3c4d5e6f.slice"
JOB = "/slurm/uid_1000/job_42"
GIB = 1 << 30


def _read(root: Path, path: str, files: dict[str, str], *, facts: Facts | None = None, cpus: int = 8) -> Allocation:
    for name, text in files.items():
        file = root / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    host = HostFS(root / "proc", root / "sys", root / "cgroup")
    match = Classifier().path(path)
    assert match is not None
    reader = AllocationReader(host, detect_layout(host), frozenset(range(cpus)))
    return reader.read(match, facts or Facts(), path)


def _v1(path: str, **files: str) -> dict[str, str]:
    named = {name.replace("__", "."): text for name, text in files.items()}
    return {"cpuacct/x": ""} | {f"{name.split('.')[0]}{path}/{name}": text for name, text in named.items()}


def _v2(path: str, **files: str) -> dict[str, str]:
    return {"cgroup.controllers": ""} | {f"{path[1:]}/{name.replace('__', '.')}": text for name, text in files.items()}


def test_a_slurm_cpuset_counts_where_the_jobs_own_number_agrees(tmp_path: Path) -> None:
    files = _v1(JOB, cpuset__cpus="0-3\n", memory__limit_in_bytes=f"{GIB}\n")

    agreed = _read(tmp_path, JOB, files, facts=Facts(cpus=4))
    differing = _read(tmp_path, JOB, files, facts=Facts(cpus=2))
    silent = _read(tmp_path, JOB, files)

    assert agreed == Allocation(4000, GIB, frozenset({0, 1, 2, 3}))
    assert differing == silent == Allocation(None, GIB, frozenset({0, 1, 2, 3}))


def test_a_slurm_job_on_v2(tmp_path: Path) -> None:
    path = "/system.slice/slurmstepd.scope/job_42"
    files = _v2(path, cpuset__cpus="2,6\n", cpuset__cpus__effective="2,6\n", memory__max="max\n")

    assert _read(tmp_path, path, files, facts=Facts(cpus=2)) == Allocation(2000, None, frozenset({2, 6}))


def test_a_cpuset_of_all_cpus_confines_nobody(tmp_path: Path) -> None:
    assert _read(tmp_path, JOB, _v1(JOB, cpuset__cpus="0-7\n"), facts=Facts(cpus=8)) == Allocation(8000, None, None)


def test_an_oar_job_has_its_cpuset(tmp_path: Path) -> None:
    files = _v1("/oar/alice_1", cpuset__cpus="1\n")

    assert _read(tmp_path, "/oar/alice_1", files) == Allocation(1000, None, frozenset({1}))


@pytest.mark.parametrize(("own", "milli_cpus"), [("0-3\n", 4000), ("\n", None)])
def test_an_oar_job_on_v2_without_cpus_of_its_own_holds_none(tmp_path: Path, own: str, milli_cpus: int | None) -> None:
    path = "/oar.slice/oar-u9.slice/oar-u9-j1.slice"
    files = _v2(path, cpuset__cpus=own, cpuset__cpus__effective="0-3\n")

    assert _read(tmp_path, path, files) == Allocation(milli_cpus, None, frozenset(range(4)))


@pytest.mark.parametrize(("files", "milli_cpus"), [
    ({"cpu__shares": "2048"}, 2000),
    ({"cpu__shares": "256"}, 250),
    ({"cpu__shares": "2", "cpu__cfs_quota_us": "150000", "cpu__cfs_period_us": "100000"}, 1500),
    ({"cpu__shares": "2", "cpu__cfs_quota_us": "-1", "cpu__cfs_period_us": "100000"}, None),
    ({"cpu__shares": "2"}, None),
    ({"cpu__shares": "garbage"}, None),
    ({}, None),
])  # fmt: skip
def test_a_pod_on_v1_has_its_request_else_its_limit(
    tmp_path: Path, files: dict[str, str], milli_cpus: int | None
) -> None:
    assert _read(tmp_path, POD, _v1(POD, **files)).milli_cpus == milli_cpus


@pytest.mark.parametrize(("weight", "quota", "root", "milli_cpus"), [
    # 1 CPU = 1024 shares: weight 39 by the older conversion, which loses up to 26 shares; 8 CPUs are 313.
    ("39", "max 100000", "313", 975),
    ("79", "max 100000", "313", 2000),
    # The conversion of 2025: 1 CPU is 100, 8 CPUs (8192 shares) are 10^((169 + 1625) / 612 - 7 / 34) = 532.
    ("100", "max 100000", "532", 1000),
    ("1", "150000 100000", "313", 1500),
    ("1", "max 100000", "313", None),
    ("39", "50000 100000", None, 975),
    ("x", "y", "z", None),
])  # fmt: skip
def test_a_pod_on_v2_has_its_request_else_its_limit(
    tmp_path: Path, weight: str, quota: str, root: str | None, milli_cpus: int | None
) -> None:
    files = _v2(POD, cpu__weight=weight, cpu__max=quota, memory__max=str(GIB))
    if root is not None:
        files |= _v2("/kubepods.slice", cpu__weight=root)

    found = _read(tmp_path, POD, files)

    assert found.memory_bytes == GIB
    assert found.milli_cpus is None if milli_cpus is None else found.milli_cpus == pytest.approx(milli_cpus, abs=2)


def test_a_vm_has_its_vcpus_by_xml_or_by_directories(tmp_path: Path) -> None:
    path = "/machine/qemu-1-web.libvirt-qemu"
    files = {"cpuacct/x": "", "unified/cgroup.controllers": ""}
    files |= {f"unified{path}/{name}/x": "" for name in ("emulator", "vcpu0", "vcpu1", "vcpux")}

    assert _read(tmp_path, path, files) == Allocation(2000, None, None)
    assert _read(tmp_path, path, files, facts=Facts(starting_cpus=8)) == Allocation(2000, None, None)
    assert _read(tmp_path, path, files, facts=Facts(cpus=4, memory_bytes=GIB)) == Allocation(4000, GIB, None)


def test_a_vm_of_proxmox_has_the_vcpus_it_was_started_with(tmp_path: Path) -> None:
    path = "/qemu.slice/104.scope"
    files = _v2(path, cpuset__cpus="\n", cpuset__cpus__effective="0-7\n")

    assert _read(tmp_path, path, files, facts=Facts(starting_cpus=4)) == Allocation(4000, None, None)


def test_a_container_has_none_but_may_be_confined(tmp_path: Path) -> None:
    path = f"/docker/{'a' * 64}"

    assert _read(tmp_path, path, _v1(path, cpuset__cpus="3", cpu__shares="2048")) == Allocation(
        None, None, frozenset({3})
    )


def test_nothing_to_read_is_unknown(tmp_path: Path) -> None:
    assert _read(tmp_path, JOB, {"cpuacct/x": ""}, facts=Facts(cpus=4)) == Allocation()
