"""Names, owners and sizes of units out of the files that a node has."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.discovery.fake_proc import FakeProc

from kwhere.discovery.classify import Classifier
from kwhere.discovery.container_facts import parse_docker
from kwhere.discovery.fact_finder import FactFinder, unit_info
from kwhere.discovery.facts import Facts, UserNames
from kwhere.discovery.oar_facts import parse_variables
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.vm_facts import parse_domain
from kwhere.kernel.hostfs import HostFS

HEX = "ab" * 32
UID = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
VM = "11111111-2222-3333-4444-555555555501"
SLUID = "s5K1KKYAYG5D00"
DOMAIN = f"""<domain type='kvm' id='3'>
  <name>instance-00000008</name><uuid>{VM}</uuid>
  <metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"><nova:name>web-1</nova:name>
    <nova:flavor name="m1.small"><nova:vcpus>2</nova:vcpus></nova:flavor>
    <nova:owner><nova:user uuid="u">alice</nova:user><nova:project uuid="p">physics</nova:project></nova:owner>
  </nova:instance></metadata>
  <memory unit='MiB'>64</memory><vcpu current='2'>4</vcpu>
</domain>"""


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def _find(proc: FakeProc, path: str, pids: tuple[int, ...] = (), **settings: object) -> Facts:
    match = Classifier().path(path)
    assert match is not None
    finder = FactFinder(proc.host, UnitsSettings.model_validate(settings))
    return finder.find(match, lambda: pids)


def _environ(proc: FakeProc, pid: int, **values: str) -> None:
    text = "\0".join(f"{name}={value}" for name, value in values.items())
    (proc.root / "proc" / str(pid) / "environ").write_text(text + "\0")


def test_a_slurm_job_by_its_environment(proc: FakeProc) -> None:
    proc.process(10, "slurmstepd", start=1, uid=0, arguments=("slurmstepd: [42.batch]",))
    proc.process(11, "solver", start=2)
    _environ(proc, 11, SLURM_JOB_ID="42", SLURM_JOB_NAME="cfd", SLURM_JOB_ACCOUNT="proj1", SLURM_CPUS_ON_NODE="4")

    facts = _find(proc, "/slurmstepd.scope/job_42", (10, 11))

    assert facts == Facts(native_id="42", name="cfd", user="1000", uid=1000, project="proj1", cpus=4)


def test_a_slurm_job_is_not_roots_while_only_slurmstepd_runs(proc: FakeProc) -> None:
    proc.process(10, "slurmstepd", start=1, uid=0, arguments=("slurmstepd: [42.batch]",))

    facts = _find(proc, "/slurmstepd.scope/job_42", (10,))

    assert (facts.user, facts.uid) == (None, None)
    _environ(proc, 10, SLURM_JOB_ID="42", SLURM_JOB_USER="root")
    assert _find(proc, "/slurmstepd.scope/job_42", (10,)).user == "root"


def test_case_users_26_tasks_of_a_heterogeneous_job_bear_the_id_of_its_first_component(proc: FakeProc) -> None:
    proc.process(11, "solver", start=2)
    first = {"SLURM_JOB_ID": "42", "SLURM_JOB_NAME": "both", "SLURM_JOB_PARTITION": "cpu"}
    groups = {"JOB_ID": ("42", "43"), "JOB_NAME": ("both", "other"), "JOB_ACCOUNT": ("proj1", "proj2")}
    each = {f"SLURM_{name}_HET_GROUP_{n}": values[n] for name, values in groups.items() for n in range(2)}
    _environ(proc, 11, **first, **each, SLURM_HET_SIZE="2", SLURM_CPUS_ON_NODE="2")

    facts = _find(proc, "/slurm/uid_1000/job_43", (11,))

    assert facts == Facts(native_id="43", name="other", user="1000", uid=1000, project="proj2", cpus=2)
    assert _find(proc, "/slurm/uid_1000/job_44", (11,)).cpus is None


def test_another_jobs_environment_is_not_believed(proc: FakeProc) -> None:
    proc.process(11, "solver", start=2)
    _environ(proc, 11, SLURM_JOB_ID="41", SLURM_JOB_NAME="other", SLURM_JOB_USER="root")

    facts = _find(proc, "/slurm/uid_1000/job_42", (11,))

    assert (facts.name, facts.user, facts.uid) == (None, "1000", 1000)


@pytest.mark.parametrize("title", ["slurmstepd: [77.batch]", "slurmstepd: [77]", "slurmstepd: [77.extern]"])
def test_a_sluid_is_told_its_raw_job_id_by_slurmstepd(proc: FakeProc, title: str) -> None:
    proc.process(10, "slurmstepd", start=1, uid=0, arguments=(title,))

    facts = _find(proc, f"/slurmstepd.scope/{SLUID}", (10,))

    assert facts.native_id == "77"
    assert dict(facts.labels)["slurm_sluid"] == SLUID


def test_a_sluid_is_told_its_raw_job_id_by_a_task(proc: FakeProc) -> None:
    proc.process(11, "solver", start=2)
    _environ(proc, 11, SLURM_JOB_ID="78")

    assert _find(proc, f"/slurmstepd.scope/{SLUID}", (11,)).native_id == "78"
    assert _find(proc, f"/slurmstepd.scope/{SLUID}", ()).native_id is None


def test_an_oar_job_by_its_file_of_variables(proc: FakeProc, tmp_path: Path) -> None:
    (tmp_path / "alice_42.env").write_text(
        "export OAR_JOBID='42'\nexport OAR_USER='alice'\nexport OAR_JOB_NAME='it'\"'\"'s a job'\n"
        "export OAR_PROJECT_NAME='proj1'\nexport OAR_JOB_WALLTIME_SECONDS='3600'\nnonsense\nexport OPEN='x\n"
    )

    facts = _find(proc, "/oar/alice_42", oar_env_dirs=[tmp_path / "absent", tmp_path])

    assert (facts.name, facts.user, facts.project) == ("it's a job", "alice", "proj1")
    assert dict(facts.labels) == {"oar_walltime_seconds": "3600"}


def test_a_pod_by_its_log_directory(proc: FakeProc, tmp_path: Path) -> None:
    for name in (f"team-a_web-7d9f-x2x_{UID}", "no-pod", "kube-system_etcd_d41d8cd98f00b204e9800998ecf8427e"):
        (tmp_path / name).mkdir()

    facts = _find(proc, f"/kubepods/burstable/pod{UID}/{HEX}", pod_log_dir=tmp_path)
    static = _find(proc, "/kubepods/podd41d8cd98f00b204e9800998ecf8427e", pod_log_dir=tmp_path)

    assert (facts.name, facts.project) == ("web-7d9f-x2x", "team-a")
    assert dict(facts.labels) == {"kube_namespace": "team-a", "kube_pod": "web-7d9f-x2x", "qos": "burstable"}
    assert dict(static.labels)["kube_config_hash"] == "d41d8cd98f00b204e9800998ecf8427e"
    assert static.name == "etcd"


@pytest.mark.parametrize(
    ("directory", "runtime"),
    [
        (f"cri-containerd-{HEX}.scope", "containerd"),
        (f"crio-{HEX}.scope/container", "crio"),
        (f"docker-{HEX}.scope", "docker"),
        (HEX, None),
    ],
)
def test_case_energy_c6_a_pods_runtime_by_the_containers_in_it(
    proc: FakeProc, directory: str, runtime: str | None
) -> None:
    pod = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
    proc.process(11, "pause", start=2, cgroup=f"0::{pod}/{directory}\n")
    proc.process(12, "job", start=3, cgroup=f"0::/kubepods/podother/docker-{HEX}.scope\n")

    facts = _find(proc, pod, (12, 11))

    assert dict(facts.labels).get("runtime") == runtime
    assert dict(facts.labels)["qos"] == "guaranteed"


def test_case_energy_c18_the_guest_of_a_pod_is_a_label(proc: FakeProc) -> None:
    proc.process(
        11, "qemu-kvm", start=2, arguments=("/usr/libexec/qemu-kvm", "-name", "guest=default_vm1", "-uuid", VM)
    )

    facts = _find(proc, f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{HEX}.scope", (11,))

    assert dict(facts.labels)["vm"] == "default_vm1"
    assert facts.native_id is None


@pytest.mark.parametrize(
    ("case", "directory"), [("case_ceems_401", "etc"), ("case_ceems_404", "run")], ids=lambda value: str(value)
)
def test_a_vm_by_its_definition_or_its_runtime_xml(proc: FakeProc, tmp_path: Path, case: str, directory: str) -> None:
    text = DOMAIN if directory == "etc" else f"<domstatus state='running' pid='9'>{DOMAIN}</domstatus>"
    (tmp_path / directory).mkdir()
    (tmp_path / directory / "instance-00000008.xml").write_text(text)

    facts = _find(
        proc, r"/machine.slice/machine-qemu\x2d3\x2dinstance\x2d00000008.scope",
        libvirt_xml_dirs=[tmp_path / "run", tmp_path / "etc"],
    )  # fmt: skip

    assert (facts.native_id, facts.name, facts.user, facts.project) == (VM, "web-1", "alice", "physics")
    assert (facts.cpus, facts.memory_bytes) == (2, 64 << 20)
    assert dict(facts.labels) == {"vm": "instance-00000008", "vm_flavor": "m1.small"}
    assert case.startswith("case_")


def test_case_ceems_402_a_name_cut_short_is_found_by_its_number(proc: FakeProc, tmp_path: Path) -> None:
    (tmp_path / "instance-00000008.xml").write_text(f"<domstatus>{DOMAIN}</domstatus>")

    assert _find(proc, r"/machine.slice/machine-qemu\x2d3\x2dinst.scope", libvirt_xml_dirs=[tmp_path]).native_id == VM
    assert _find(proc, r"/machine.slice/machine-qemu\x2d4\x2dinst.scope", libvirt_xml_dirs=[tmp_path]).native_id is None


def test_case_ceems_403_without_any_xml_qemu_tells(proc: FakeProc, tmp_path: Path) -> None:
    arguments = ("/usr/bin/kvm", "-id", "104", "-name", "db,debug-threads=on", "-smbios", f"type=1,uuid={VM}")
    proc.process(11, "kvm", start=2, arguments=arguments)

    facts = _find(proc, "/qemu.slice/104.scope", (11,), libvirt_xml_dirs=[tmp_path])

    assert (facts.native_id, facts.name) == (VM, "db")


@pytest.mark.parametrize(
    "text", ["", "<domain/>", "<domain><name></name></domain>", "<x><y></x>", "{}", "<domain>" * 500]
)
def test_other_xml_is_no_domain(text: str) -> None:
    assert parse_domain(text) is None


def test_a_domain_may_say_nonsense_about_its_size() -> None:
    found = parse_domain("<domain id='x'><name>a</name><vcpu>many</vcpu><memory unit='furlong'>5</memory></domain>")

    assert found is not None
    assert (found.vm_id, found.vcpus, found.memory_bytes, found.uuid) == (None, None, None, None)


def test_docker_containers_have_names(proc: FakeProc, tmp_path: Path) -> None:
    directory = tmp_path / "containers" / HEX
    directory.mkdir(parents=True)
    labels = {"com.docker.compose.project": "shop", "com.docker.compose.service": "db"}
    (directory / "config.v2.json").write_text(
        json.dumps({"Name": "/shop-db-1", "Config": {"Image": "pg", "Labels": labels}})
    )

    facts = _find(proc, f"/docker/{HEX}", docker_dirs=[tmp_path])

    assert (facts.name, facts.project) == ("shop-db-1", "shop")
    assert dict(facts.labels) == {
        "image": "pg",
        "compose_project": "shop",
        "compose_service": "db",
        "runtime": "docker",
    }


def test_podman_containers_have_names_and_owners(proc: FakeProc, tmp_path: Path) -> None:
    (tmp_path / "overlay-containers").mkdir()
    (tmp_path / "overlay-containers" / "containers.json").write_text(json.dumps([{"id": HEX, "names": ["web"]}, 5, {}]))
    proc.process(11, "nginx", start=2)

    facts = _find(proc, f"/machine.slice/libpod-{HEX}.scope", (11,), podman_dirs=[tmp_path])

    assert (facts.name, facts.uid, facts.user) == ("web", 1000, "1000")


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '{"Name": 5, "Config": []}', "[" * 100_000, '{"Config": {"Labels": 3}}']
)
def test_other_json_is_no_container(text: str) -> None:
    assert parse_docker(text) == (None, {})


def test_sessions_and_runs_have_an_owner(proc: FakeProc) -> None:
    proc.process(11, "stress-ng", start=2, arguments=("/usr/bin/stress-ng", "--cpu", "1"))

    session = _find(proc, "/user.slice/user-0.slice/session-3.scope")
    run = _find(proc, "/kwhere-run-1-2", (11,))

    assert (session.user, session.uid) == ("root", 0)
    assert (run.name, run.user, run.uid) == ("stress-ng", "1000", 1000)


def test_names_are_fit_for_labels(proc: FakeProc) -> None:
    match = Classifier().path(r"/machine.slice/machine-qemu\x2d1\x2da\xff.scope")
    assert match is not None

    assert unit_info(match, Facts(user="b\udcff")).name == "a\ufffd"
    assert unit_info(match, Facts(user="b\udcff")).user == "b\ufffd"
    assert unit_info(match, Facts(name="\x1b[2Jhidden\n")).name == "\ufffd[2Jhidden\ufffd"
    assert unit_info(match, Facts(project="p" * 999)).project == "p" * 256


def test_live_users_have_names_and_copied_ones_numbers(proc: FakeProc) -> None:
    assert UserNames(HostFS())(0) == "root"
    assert UserNames(HostFS())(4_000_000_000) == "4000000000"
    assert UserNames(proc.host)(1000) == "1000"
    assert UserNames(proc.host).home(0) is None


@pytest.mark.parametrize("sign", ["\x0b", "\x1e", "\x85", "\u2028"])
def test_a_value_makes_up_no_variable(sign: str) -> None:
    text = f"export OAR_PROJECT_NAME='mine'\nexport OAR_JOB_NAME='a{sign}export OAR_PROJECT_NAME=root{sign}'\n"

    assert parse_variables(text)["OAR_PROJECT_NAME"] == "mine"


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    parse_domain(text)
    parse_docker(text)
    parse_variables(text)
