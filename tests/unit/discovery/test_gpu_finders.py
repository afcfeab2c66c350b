"""Finders over a node's files: cgroups, processes and managers as they stand side by side."""

from pathlib import Path

import pytest
from tests.gpu_node import NamedGpus, NamedUnits, gpu, held, job, node, unit
from tests.kubelet import container, devices, pod, serving
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.core.errors import Unavailable
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_finders import CgroupFinder, EnvironFinder, OarFinder, PrologFinder, SlurmBits
from kwhere.discovery.gpu_holders import NodeMapping, build_mapping
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_pids import UnitPids
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.cgroups import detect_layout
from kwhere.kernel.hostfs import HostFS

EIGHT = [gpu(number) for number in range(8)]
NOWHERE = Path("/nonexistent")


class SlurmNode:
    """A v2 node with jobs' cgroups, processes and their environments."""

    def __init__(self, root: Path, *, v1: bool = False) -> None:
        self.root = root
        self.cgroups = FakeCgroups(root, v1=v1)
        self.units = NamedUnits()
        self.gpus = NamedGpus(EIGHT)

    def settings(self, **more: object) -> GpuMappingSettings:
        places: dict[str, object] = {
            "prolog_dirs": (self.root / "gpustat",),
            "kubelet_socket": self.root / "none.sock",
            "gres_conf": (self.root / "gres.conf",),
            "oar_dirs": (self.root / "oar",),
        }
        return GpuMappingSettings.model_validate({**places, **more})

    def job(self, number: int, *pids: int, node_name: str | None = None) -> TrackedUnit:
        slice_ = f"/system.slice/{f'{node_name}_' if node_name else ''}slurmstepd.scope"
        path = f"{slice_}/job_{number}"
        self.cgroups.put(path)
        self.cgroups.put(f"{path}/step_0/user/task_0", procs="".join(f"{pid}\n" for pid in pids))
        run = f"{number}@1" + (f".{node_name}" if node_name else "")
        made = job(number, cgroup=path, run=run, node_name=node_name)
        self.units.add(made)
        return made

    def process(self, pid: int, **environment: str) -> None:
        self.cgroups.proc.process(pid, "python", start=1)
        text = "\0".join(f"{name}={value}" for name, value in environment.items()) + "\0"
        (self.root / "proc" / str(pid) / "environ").write_text(text)

    def mapping(self, *, copied: bool = False, **settings: object) -> NodeMapping:
        host = self.cgroups.proc.host
        host.is_recorded = copied  # files of a test's own, taken for a running machine's
        return build_mapping(
            host,
            [self.gpus],
            [self.units],
            self.cgroups.clock,
            settings=self.settings(**settings),
            unit_settings=UnitsSettings(libvirt_xml_dirs=(NOWHERE,), slurm_job_dir=NOWHERE),
            node_names=("gpu01",),
        )


@pytest.fixture
def slurm(tmp_path: Path) -> SlurmNode:
    return SlurmNode(tmp_path)


def claims(mapping: NodeMapping) -> dict[str, list[str]]:
    mapping.holders.refresh()
    found = held(mapping.holders.claims())
    mapping.holders.close()
    return found


def test_case_gpu_69_only_the_jobs_own_gpu_of_eight(slurm: SlurmNode) -> None:
    slurm.job(42, 100)
    slurm.process(100, SLURM_JOB_ID="42", SLURM_JOB_GPUS="5", CUDA_VISIBLE_DEVICES="0")

    assert claims(slurm.mapping()) == {"42": ["5"]}


def test_case_gpu_60_a_session_in_a_job_says_nothing_the_prolog_does(slurm: SlurmNode) -> None:
    slurm.job(42, 100)
    slurm.process(100, SSH_CONNECTION="x", HOME="/home/a")
    (slurm.root / "gpustat").mkdir()
    (slurm.root / "gpustat" / "3").write_text("42 1000\n")

    assert claims(slurm.mapping()) == {"42": ["3"]}


def test_case_gpu_60_many_sessions_hide_no_task(slurm: SlurmNode) -> None:
    slurm.job(42, *range(100, 140))
    for pid in range(100, 139):
        slurm.process(pid, SSH_CONNECTION="x")
    slurm.process(139, SLURM_JOB_ID="42", SLURM_JOB_GPUS="1,2")

    assert claims(slurm.mapping()) == {"42": ["1", "2"]}


def test_case_gpu_63_several_slurmd_count_their_own_gpus(slurm: SlurmNode) -> None:
    (slurm.root / "gres.conf").write_text(
        "NodeName=n0 Name=gpu File=/dev/nvidia[0-3]\nNodeName=n1 Name=gpu File=/dev/nvidia[4-7]\n"
    )
    slurm.job(1, 100, node_name="n0")
    slurm.job(2, 200, node_name="n1")
    slurm.process(100, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0")
    slurm.process(200, SLURM_JOB_ID="2", SLURM_JOB_GPUS="0")

    assert claims(slurm.mapping()) == {"1": ["0"], "2": ["4"]}


def test_case_gpu_63_one_job_at_two_slurmd_holds_each_gpu_once(slurm: SlurmNode) -> None:
    (slurm.root / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-7]\n")
    for pid, name in ((100, "n0"), (200, "n1")):
        slurm.job(5, pid, node_name=name)
        slurm.process(pid, SLURM_JOB_ID="5", SLURM_JOB_GPUS=name[1])
    mapping = slurm.mapping()
    mapping.holders.refresh()

    found = {(claim.unit.run, claim.device) for claim in mapping.holders.claims()}

    assert found == {("5@1.n0", EIGHT[0].uuid), ("5@1.n1", EIGHT[1].uuid)}
    mapping.holders.close()


def test_case_gpu_65_gres_conf_is_read_by_slurms_node_name(slurm: SlurmNode) -> None:
    (slurm.root / "gres.conf").write_text(
        "NodeName=gpu01 Name=gpu File=/dev/nvidia[4-7]\nNodeName=x Name=gpu File=/dev/nvidia0\n"
    )
    slurm.job(1, 100)
    slurm.process(100, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0")

    assert claims(slurm.mapping()) == {"1": ["4"]}


def test_case_gpu_65_a_job_tells_slurms_name_of_the_node(slurm: SlurmNode) -> None:
    (slurm.root / "gres.conf").write_text("NodeName=cw-h100-220-037 Name=gpu File=/dev/nvidia[4-7]\n")
    slurm.job(1, 100)
    slurm.process(100, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0", SLURMD_NODENAME="cw-h100-220-037")

    assert claims(slurm.mapping()) == {"1": ["4"]}


def test_a_name_that_only_begins_like_ours_is_another(slurm: SlurmNode) -> None:
    slurm.job(42, 100)
    slurm.process(100, SLURM_JOB_ID="42", MY_SLURM_JOB_GPUS="0", SLURM_JOB_GPUS_OLD="1", X="SLURM_JOB_GPUS=2")

    assert claims(slurm.mapping()) == {}


def test_an_environment_is_remembered_when_its_processes_are_gone(slurm: SlurmNode) -> None:
    made = slurm.job(42, 100)
    slurm.process(100, SLURM_JOB_ID="42", SLURM_JOB_GPUS="5")
    mapping = slurm.mapping()
    mapping.holders.refresh()
    slurm.cgroups.put(f"{made.cgroup}/step_0/user/task_0", procs="")
    slurm.cgroups.clock.tick(300)

    assert claims(mapping) == {"42": ["5"]}


class ClosedHost(HostFS):
    """A host that lets nobody read another's environment."""

    def read_head(self, area_path: str, size_bytes: int) -> bytes:
        if area_path.endswith("/environ"):
            raise Unavailable("permission", f"{area_path}: Permission denied")
        return super().read_head(area_path, size_bytes)


def test_environments_that_may_not_be_read_are_said_to_be_closed(tmp_path: Path) -> None:
    settings = GpuMappingSettings()
    finder = EnvironFinder(
        ClosedHost(tmp_path / "proc", tmp_path, tmp_path), lambda unit: [100], SlurmBits(settings, ()), lambda: 0
    )

    with pytest.raises(Unavailable, match="expected root") as caught:
        finder.find(node(EIGHT, job(42)))

    assert caught.value.reason == "permission"


def test_a_process_that_is_gone_closes_nothing(slurm: SlurmNode) -> None:
    slurm.job(42, 100, 101)
    slurm.process(101, SLURM_JOB_ID="42", SLURM_JOB_GPUS="5")

    assert claims(slurm.mapping()) == {"42": ["5"]}


def test_device_rules_of_v1_name_a_jobs_gpus(tmp_path: Path) -> None:
    slurm = SlurmNode(tmp_path, v1=True)
    path = "/slurm_n1/uid_1000/job_7"
    slurm.cgroups.put(path)
    devices = tmp_path / "cgroup" / "devices" / path.lstrip("/")
    devices.mkdir(parents=True)
    (devices / "devices.list").write_text("c 1:3 rwm\nc 195:255 rw\nc 195:6 rwm\n")
    (tmp_path / "cgroup" / "devices" / "devices.list").write_text("a *:* rwm\n")
    host = slurm.cgroups.proc.host
    here = node(EIGHT, job(7, cgroup=path), unit("docker", "web", cgroup="/docker/web"))

    found = CgroupFinder(host, detect_layout(host)).find(here)

    assert held(found) == {"7": ["6"]}
    assert [hold.source for hold in found] == [ClaimSource.CGROUP]


def test_v2_has_no_rules_to_read(slurm: SlurmNode) -> None:
    host = slurm.cgroups.proc.host

    with pytest.raises(Unavailable, match="no cgroup v1 hierarchy"):
        CgroupFinder(host, detect_layout(host)).find(node(EIGHT))


def test_oar_names_minors(tmp_path: Path) -> None:
    (tmp_path / "77_resources").write_text("gpu = '9' , gpudevice = '1' , host = 'node-1'\n")
    devices = [gpu(0, minor=1), gpu(1, minor=0)]

    found = OarFinder([tmp_path], ("node-1",)).find(node(devices, unit("oar", "77"), unit("oar", "78")))

    assert held(found) == {"77": ["0"]}


def test_a_job_in_a_hierarchy_that_counts_nothing_is_found_by_its_processes(slurm: SlurmNode) -> None:
    slurm.cgroups.proc.process(100, "python", start=1, cgroup="4:devices:/slurm/uid_1000/job_42/step_0\n")
    pids = UnitPids(slurm.cgroups.proc.host, None, UnitsSettings(), slurm.cgroups.clock.boottime_ns)

    assert list(pids(job(42))) == [100]
    assert list(pids(job(43))) == []


def test_sources_that_are_not_here_are_absent(slurm: SlurmNode) -> None:
    mapping = slurm.mapping()
    mapping.holders.refresh()

    assert {state.source.value: state.reason for state in mapping.holders.states()} == {
        "prolog": "absent",
        "pod_resources": "absent",
        "dra": "absent",
        "cgroup": "absent",
        "environ": "",
        "libvirt": "absent",
        "oar": "absent",
        "processes": "",
    }


def test_a_prologs_jobs_are_kept_as_written(slurm: SlurmNode) -> None:
    (slurm.root / "gpustat").mkdir()
    (slurm.root / "gpustat" / "0").write_text("99\n")
    settings = slurm.settings()
    finder = PrologFinder(settings, SlurmBits(settings, ()))

    assert finder.find(node(EIGHT)) == []
    assert [job.job for job in finder.jobs] == ["99"]


def test_of_a_copied_host_nothing_beside_its_files_is_asked(slurm: SlurmNode) -> None:
    (slurm.root / "gpustat").mkdir()
    (slurm.root / "gpustat" / "0").write_text("42\n")
    slurm.job(42, 100)

    assert claims(slurm.mapping(copied=True)) == {}


def test_a_pods_processes_tell_its_host_name(slurm: SlurmNode) -> None:
    path = "/kubepods.slice/kubepods-pod1.slice"
    slurm.cgroups.put(f"{path}/cri-containerd-a.scope", procs="100\n101\n")
    slurm.process(100, PATH="/pause")
    slurm.process(101, HOSTNAME="train")
    slurm.units.add(unit("kubernetes", "1", run="1", cgroup=path))
    with serving(slurm.root) as kubelet:
        kubelet.pods = [pod("ml", "train", container("main", devices("nvidia.com/gpu", EIGHT[3].uuid)))]

        assert claims(slurm.mapping(kubelet_socket=str(kubelet.path))) == {"1": ["3"]}
