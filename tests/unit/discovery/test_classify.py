"""Which unit owns a path: the handed cases by number, and neighbours of each kind."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.discovery.paths import TABLE

from kwhere.discovery import libvirt
from kwhere.discovery.classify import Classifier, paths_of
from kwhere.discovery.match import segments_of, unit_id
from kwhere.discovery.settings import SiteRule, UnitsSettings

C1 = "0a" * 32
C2 = "1b" * 32
U = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
U_ = U.replace("-", "_")
HASH = "d41d8cd98f00b204e9800998ecf8427e"
VM = "b674a0a2-c300-4dc6-8c9c-65df16da6d69"
SLUID = "s5K1KKYAYG5D00"


WORDS = {"C1": C1, "C2": C2, "U": U, "U_": U_, "HASH": HASH, "SLUID": SLUID}
SLURM_V2 = "/system.slice/slurmstepd.scope/job_42"
USER = "/user.slice/user-1000.slice"


@dataclass(frozen=True)
class Case:
    name: str
    path: str
    top: str
    manager: str
    unit: str
    facts: dict[str, str]


def _case(line: str) -> Case:
    for word, value in WORDS.items():
        line = line.replace(f"<{word}>", value)
    name, path, manager, unit, *rest = (part.strip() for part in line.split(" ; "))
    facts = dict(fact.split("=", 1) for fact in "".join(rest).split(";") if fact)
    top = path.partition("|")[0].replace("/../..", "")
    return Case(name, path.replace("|", ""), top, manager, unit, facts)


ALL = [_case(line) for line in TABLE.splitlines() if line]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_path_tells_its_unit(case: Case) -> None:
    found = Classifier().path(case.path)

    assert found is not None
    assert (found.manager, found.unit, found.top) == (case.manager, case.unit, case.top)
    for name, value in case.facts.items():
        assert str(getattr(found, name)) == value, name


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
@pytest.mark.parametrize("line", ["0::{}\n", "7:cpu,cpuacct:{}\n3:cpuset:/\n0::/\n", "1:name=systemd:{} (deleted)\n"])
def test_a_process_tells_its_unit_by_any_line(case: Case, line: str) -> None:
    found = Classifier().cgroup_text(line.format(case.path))

    assert found is not None
    assert (found.manager, found.unit) == (case.manager, case.unit)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_top_directory_is_its_own_owner(case: Case) -> None:
    classifier = Classifier()

    found = classifier.path(case.top)

    assert found is not None
    assert (found.unit, found.top, found.is_top) == (case.unit, case.top, True)
    assert found.top.startswith(found.anchor)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/user.slice",
        USER,
        "/system.slice",
        "/system.slice/dev-hugepages.mount",
        "/kubepods",
        "/kubepods/burstable",
        "/kubepods.slice/kubepods-burstable.slice",
        "/slurm",
        "/slurm/uid_1000",
        "/slurm_n1/system",
        "/oar",
        "/oar.slice",
        "/oar.slice/oar-u1000.slice",
        "/machine.slice",
        "/machine",
        "/docker",
        "/docker/buildkit",
        "/job_42",
        "/other/job_42",
        "/process_api/d510378fc658d73a04bf95bc78b37418",
        "/podman",
        "/kwhere-run-",
        "/foo/alice_42",
        "/slurm/job_x",
        "/slurm/uid_1/job_-1",
        "/oar/alice_",
        "/oar/_x",
        "/qemu.slice",
        "/system.slice/boot.automount",
        "/notoar/alice_1",
    ],
)
def test_a_path_above_all_units_has_no_owner(path: str) -> None:
    assert Classifier().path(path) is None


def test_case_energy_c4_the_deepest_over_all_lines_wins() -> None:
    pod = f"/docker/{C1}/kubelet/kubepods/besteffort/pod{U}/{C2}"
    text = f"12:pids:/docker/{C1}\n11:cpu,cpuacct:/docker/{C1}\n4:memory:{pod}\n"

    found = Classifier().cgroup_text(text)

    assert found is not None
    assert (found.manager, found.unit, found.container) == ("kubernetes", U, C2)


def test_a_deeper_line_of_the_same_manager_wins() -> None:
    found = Classifier().cgroup_text(f"5:cpuset:/docker/{C1}\n4:memory:/docker/{C1}/docker/{C2}\n3:pids:/docker/{C1}\n")

    assert found is not None
    assert found.unit == C2


def test_case_energy_c4_a_pod_of_kind_lies_in_its_node_container() -> None:
    classifier = Classifier()
    pod = classifier.path(f"/docker/{C1}/kubelet/kubepods/besteffort/pod{U}/{C2}")
    assert pod is not None

    outer = classifier.outer(pod)

    assert outer is not None
    assert (outer.manager, outer.unit) == ("docker", C1)


def test_a_daemon_is_nobodys_outer_unit() -> None:
    classifier = Classifier()
    job = classifier.path(SLURM_V2)
    assert job is not None

    assert classifier.outer(job) is None


def test_a_site_rule_goes_first() -> None:
    rule = SiteRule(manager="lsf", pattern=r"^/lsf/(?P<host>[^/]+)/job\.(?P<unit>\d+)\.(?P<user>[a-z]+)")
    classifier = Classifier(UnitsSettings(site_rules=(rule,)))

    found = classifier.path("/lsf/c1/job.77.alice/docker/" + C1)

    assert found is not None
    assert (found.manager, found.unit, found.node_name, found.user) == ("lsf", "77", "c1", "alice")
    assert (found.top, found.anchor) == ("/lsf/c1/job.77.alice", "/lsf/c1")


@pytest.mark.parametrize("pattern", ["(", "no group", "(?P<unit>a)(?P<colour>b)"])
def test_a_site_rule_must_be_usable(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        SiteRule(manager="lsf", pattern=pattern)


def test_case_energy_c14_qemus_command_line_names_the_vm() -> None:
    command = ["/usr/libexec/qemu-kvm", "-name", "guest=instance-0000008b,debug-threads=on", "-uuid", VM]

    found = libvirt.read_command(command)

    assert found == libvirt.VirtualMachine(uuid=VM, name="instance-0000008b")


@pytest.mark.parametrize(
    ("command", "uuid", "name"),
    [
        (["qemu-system-x86_64", "--name", "web", "--uuid", VM.upper()], VM, "web"),
        (["/usr/bin/kvm", "-id", "104", "-name", "db,debug-threads=on", "-smbios", f"type=1,uuid={VM}"], VM, "db"),
        (["qemu-kvm", "-name", "debug-threads=on,guest=a,,b"], None, "a,b"),
        (["qemu-system-aarch64", "-uuid", VM], VM, None),
    ],
)
def test_case_energy_c14_neighbours(command: list[str], uuid: str | None, name: str | None) -> None:
    found = libvirt.read_command(command)

    assert found is not None
    assert (found.uuid, found.name) == (uuid, name)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("smp", "vcpus"),
    [
        ("4", 4),
        ("2,maxcpus=8,sockets=8,cores=1,threads=1", 2),
        ("cpus=6,maxcpus=8", 6),
        ("sockets=2,cores=4,threads=2", 16),
        ("many", None),
        ("0", None),
    ],
)
def test_qemus_command_line_tells_the_vcpus_it_began_with(smp: str, vcpus: int | None) -> None:
    found = libvirt.read_command(["/usr/bin/kvm", "-name", "db", "-smp", smp])

    assert found is not None
    assert found.vcpus == vcpus


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("4096", 4 * GIB),
        ("2G", 2 * GIB),
        ("size=1048576k,slots=255,maxmem=4194304k", GIB),
        ("2g", 2 * GIB),
        ("lots", None),
    ],
)
def test_qemus_command_line_tells_the_guests_memory(memory: str, expected: int | None) -> None:
    found = libvirt.read_command(["/usr/bin/kvm", "-name", "db", "-m", memory])

    assert found is not None
    assert found.memory_bytes == expected


@pytest.mark.parametrize(
    "command",
    [
        [],
        [""],
        ["qemu-img", "convert", "-name", "x"],
        ["bash", "-c", "qemu-kvm -name x"],
        ["qemu-kvm"],
        ["vim", "-name", "x"],
        ["qemu-system-x86_64", "-name"],
    ],
)
def test_other_commands_are_no_vm(command: list[str]) -> None:
    assert libvirt.read_command(command) is None


@pytest.mark.parametrize(
    ("native", "escaped"),
    [
        ("42", "42"),
        ("alice:bash", "alice:bash"),
        ("a/b", "a%2Fb"),
        ("a b%", "a%20b%25"),
        ("getty@tty1.service", "getty@tty1.service"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("x\n", "x%0A"),
        ("é", "%C3%A9"),
        ("\udcff", "%FF"),
    ],
)
def test_unit_ids_are_escaped(native: str, escaped: str) -> None:
    assert unit_id(native) == escaped


TOKENS = st.sampled_from(
    [
        "kubepods",
        "kubepods.slice",
        f"kubepods-burstable-pod{U_}.slice",
        f"pod{U}",
        C1,
        f"docker-{C1}.scope",
        "docker",
        "slurm",
        "uid_1",
        "job_4",
        "step_0",
        SLUID,
        "slurmstepd.scope",
        "oar",
        "a_1",
        "oar.slice",
        "oar-u1-j2.slice",
        "machine.slice",
        r"machine-qemu\x2d1\x2da.scope",
        "system.slice",
        "a.service",
        "user.slice",
        "user-1.slice",
        "user@1.service",
        "session-1.scope",
        "app.slice",
        "kwhere-run-1",
        "..",
        ".",
        "",
        ":",
        "a:b",
        "\\x",
        "\\x2d",
        "lxc",
        "init.scope",
        "libpod-conmon-1.scope",
    ]
)


@given(st.lists(TOKENS | st.text(max_size=12), max_size=8))
def test_any_path_is_classified_and_owns_itself(names: list[str]) -> None:
    path = "/" + "/".join(names)
    classifier = Classifier()

    found = classifier.path(path)

    if found is not None:
        assert found.unit
        assert "/" not in found.unit
        assert segments_of(found.path)[: len(segments_of(found.top))] == segments_of(found.top)
        again = classifier.path(found.top)
        assert again is not None
        assert (again.manager, again.unit, again.top) == (found.manager, found.unit, found.top)


@given(st.text(max_size=300))
def test_any_cgroup_text_is_taken(text: str) -> None:
    Classifier().cgroup_text(text)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_command_is_taken(arguments: list[str]) -> None:
    libvirt.read_command(arguments)
    libvirt.read_command(["qemu-kvm", *arguments])


def test_paths_of_keeps_colons_and_drops_what_is_no_line() -> None:
    assert list(paths_of("0::/a:b:c\nnonsense\n1:x\n2:y:relative\n")) == ["/a:b:c"]
