"""Whole nodes replayed through the agent, kernel files to exposition; joules worked out by hand, ten seconds each."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fixtures.hosts.cgroup_tree import Group, ran, v1_mounts
from tests.fixtures.hosts.host_tree import Cpu, Machine, Process, Zone
from tests.fixtures.hosts.recipe import Recipe

from kwhere.apps.agent import build_agent
from kwhere.apps.agent_settings import AgentConfig

Figures = dict[tuple[str, ...], float]
RANGE, RANGE_AMD = 262_143_328_850, 65_532_610_987
XEON = Machine(
    "node", [Cpu(number % 2, user=400) for number in range(8)], "GenuineIntel", 6, 85,
    "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", 67_108_864,
)  # fmt: skip
EPYC = replace(XEON, cpus=[Cpu(0, user=400)] * 8, vendor="AuthenticAMD", family=23, model_name="AMD EPYC 7742")
DAEMON = Group("/system.slice/cron.service", user_ms=ran(100, 1.0), full=True)


def zone(directory: str, name: str, start_uj: int, spent_uj: int, range_uj: int = RANGE) -> Zone:
    modulus = range_uj + round(range_uj / (2**32 - 1))
    return Zone(directory, name, (start_uj, (start_uj + spent_uj) % modulus), range_uj)


def replay(
    tmp_path: Path,
    machine: Machine,
    groups: Sequence[Group] = (DAEMON,),
    extra: dict[str, str] | None = None,
    *,
    v1: bool = False,
    idle_watts: float | None = None,
    edit: Callable[[Path], None] | None = None,
) -> Figures:
    """Return what the agent says of a machine after its second moment, by metric and labels."""
    root = Recipe(machine, groups, "", v1=v1, extra=extra or {}).write(tmp_path)
    if edit is not None:
        edit(root)
    paths = {"procfs": str(root / "proc"), "sysfs": str(root / "sys"), "cgroupfs": str(root / "cgroup")}
    idle = {} if idle_watts is None else {"idle_watts": {"cpu": idle_watts}}
    agent = build_agent(AgentConfig.model_validate({"path": paths, "agent": idle}), None)
    return {(sample.spec.name, *sample.labels): float(sample.value) for sample in agent.once(0.0)}


def node(figures: Figures) -> dict[str, float]:
    """Return joules of the node by component."""
    return {key[1]: value for key, value in figures.items() if key[0] == "kwhere_node_energy_joules_total"}


def assert_balanced(figures: Figures) -> None:
    """Fail unless units, system and unallocated sum to the node, to the microjoule, for each component."""
    for component, joules in node(figures).items():
        shares = sum(
            value
            for key, value in figures.items()
            if key[0] in ("kwhere_unit_energy_joules_total", "kwhere_system_energy_joules_total",
                          "kwhere_unallocated_energy_joules_total") and component in key
        )  # fmt: skip
        assert round(shares * 1e6) == round(joules * 1e6), component
    assert figures["kwhere_attribution_residual_microjoules",] == 0


def gaps(figures: Figures) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in figures.items() if key[0] == "kwhere_energy_gaps_total" and value}


def up(figures: Figures) -> dict[str, tuple[str, float]]:
    return {key[1]: (key[2], value) for key, value in figures.items() if key[0] == "kwhere_energy_source_up"}


MACHINES = [
    pytest.param(
        replace(XEON, zones=[
            zone("intel-rapl:0", "package-1", 5, 900_000_000),
            zone("intel-rapl:0:0", "dram", 5, 90_000_000, RANGE_AMD),
            zone("intel-rapl:1", "package-0", RANGE - 100, 1_100_000_000),
            zone("intel-rapl:1:0", "dram", RANGE_AMD, 110_000_000, RANGE_AMD),
        ]),
        {"cpu": 2000.0, "dram": 200.0},
        {("powercap", "cpu", "0"): 1100.0, ("powercap", "cpu", "1"): 900.0,
         ("powercap", "dram", "0"): 110.0, ("powercap", "dram", "1"): 90.0},
        id="case_energy_r1 case_energy_r8 two sockets, names crossed, two counters wrap",
    ),
    pytest.param(
        replace(XEON, zones=[
            zone("intel-rapl:0", "package-0-die-0", 5_000_000, 700_000_000),
            zone("intel-rapl:1", "package-0-die-1", 5_000_000, 500_000_000),
            zone("intel-rapl:2", "package-1-die-0", 0, 400_000_000),
            zone("intel-rapl:3", "package-1-die-1", 0, 300_000_000),
        ]),
        {"cpu": 1900.0},
        {("powercap", "cpu", "0"): 1200.0, ("powercap", "cpu", "1"): 700.0},
        id="genuine dies that were equal once",
    ),
    pytest.param(
        replace(EPYC, zones=[
            zone(f"intel-rapl:{die}", f"package-0-die-{die}", RANGE_AMD - 10**8 + die * 900, 680_000_000, RANGE_AMD)
            for die in range(4)
        ]),
        {"cpu": 680.0},
        {("powercap", "cpu", "0"): 680.0},
        id="case_energy_r6 four mirrors, read one after another, that wrap",
    ),
    pytest.param(
        replace(XEON, cpus=[Cpu(15, user=400)] * 2, zones=[zone("intel-rapl:0", "package-15", 5, 300_000_000)]),
        {"cpu": 300.0},
        {("powercap", "cpu", "15"): 300.0},
        id="case_energy_r9",
    ),
    pytest.param(
        replace(XEON, zones=[
            zone("intel-rapl:0", "package-0", 5, 300_000_000), zone("intel-rapl:1", "package-1", 5, 200_000_000),
            zone("intel-rapl:2", "dram", 5, 30_000_000), zone("intel-rapl:3", "dram", 5, 20_000_000),
        ]),
        {"cpu": 500.0, "dram": 50.0},
        {("powercap", "cpu", "0"): 300.0, ("powercap", "cpu", "1"): 200.0,
         ("powercap", "dram", "0"): 30.0, ("powercap", "dram", "1"): 20.0},
        id="case_energy_r20",
    ),
    pytest.param(
        replace(XEON, cpus=[Cpu(0, user=400)] * 8, zones=[
            zone("intel-rapl:0", "package-0", 5, 37_800_000), zone("intel-rapl:0:0", "core", 5, 8_400_000),
            zone("intel-rapl:0:1", "uncore", 5, 2_100_000), zone("intel-rapl:1", "psys", 9, 96_100_000),
            zone("intel-rapl-mmio:0", "package-0", 5, 37_800_000),
        ]),
        {"cpu": 37.8, "other": 58.3},
        {("powercap", "cpu", "0"): 37.8, ("psys", "platform", ""): 96.1},
        id="case_energy_r4 case_energy_r5 psys is the platform",
    ),
    pytest.param(
        replace(XEON, zones=[
            zone("intel-rapl:0", "package-0", 5, 900_000_000), zone("intel-rapl:1", "package-1", 5, 800_000_000),
            Zone("intel-rapl:2", "psys", (60_293_987_000_000, 60_294_487_000_000), 4_294_967_295_000_000),
        ]),
        {"cpu": 1700.0},
        {("powercap", "cpu", "0"): 900.0, ("powercap", "cpu", "1"): 800.0},
        id="a server's psys that shows less than its packages",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "components", "meters"), MACHINES)
def test_a_node_gives_the_joules_of_its_counters(
    tmp_path: Path, machine: Machine, components: dict[str, float], meters: dict[tuple[str, ...], float]
) -> None:
    figures = replay(tmp_path, machine)

    assert node(figures) == pytest.approx(components)
    measured = {
        key[1:]: value
        for key, value in figures.items()
        if key[0] == "kwhere_node_meter_joules_total" and key[1] != "model"
    }
    assert {key: measured[key] for key in meters} == pytest.approx(meters)
    assert gaps(figures) == {}
    assert_balanced(figures)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        pytest.param(5, 10**15, "implausible", id="case_energy_r14 peta-joules"),
        pytest.param(10**15, 77, "reset", id="case_energy_r14 and back"),
        pytest.param(194_127_997_354, 45_766_381_128, "reset", id="case_energy_r14 another physical counter"),
        pytest.param(5, 90_000_000_005, "implausible", id="case_energy_r13 9 kW"),
    ],
)
def test_garbage_counters_add_nothing_and_are_counted(tmp_path: Path, before: int, after: int, cause: str) -> None:
    machine = replace(EPYC, hypervisor=True, zones=[Zone("intel-rapl:0", "package-0", (before, after), RANGE)])

    figures = replay(tmp_path, machine)

    assert node(figures).get("cpu", 0.0) == 0.0
    assert gaps(figures) == {("powercap", cause): 1.0}
    assert figures["kwhere_energy_gap_seconds_total", "powercap"] == 10.0
    assert up(figures)["powercap"] == ("", 1.0)
    assert_balanced(figures)


def test_a_machine_without_meters_is_modelled(tmp_path: Path) -> None:
    """case_energy_r18: 8 of the 128 threads of an EPYC 7742, 32 busy CPU seconds; 64 GiB at 0.392 W.

    A chip: (84 - 256 GB x 0.15) / 2 = 22.8 W idle, (400 - 256 x 0.392) / 2 = 149.824 W full; a sixteenth: 1.425 W and
    9.364 W, so 0.992375 W for each of 8 busy CPUs.
    """
    figures = replay(tmp_path, replace(EPYC, hypervisor=True))

    assert node(figures) == pytest.approx({"cpu": 1.425 * 10 + 0.992375 * 32, "dram": 64 * 0.392 * 10})
    assert up(figures)["powercap"] == ("absent", 0.0)
    assert figures["kwhere_energy_method_info", "cpu", "modelled", "model"] == 1
    assert_balanced(figures)


ACPI = {
    f"sys/{moment}/class/hwmon/hwmon9/{name}": text
    for moment in (0, 1)
    for name, text in (("name", "power_meter\n"), ("power1_average", "150000000\n"))
}


def test_other_is_what_an_acpi_meter_has_beyond_the_components(tmp_path: Path) -> None:
    machine = replace(
        EPYC, zones=[zone("intel-rapl:0", "package-0", 5, 900_000_000), zone("intel-rapl:1", "psys", 5, 1_000_000_000)]
    )

    figures = replay(tmp_path, machine, extra=ACPI)

    assert node(figures) == pytest.approx({"cpu": 900.0, "other": 600.0})
    assert figures["kwhere_node_platform_joules_total", "hwmon_power"] == pytest.approx(1500.0)
    assert figures["kwhere_energy_method_info", "other", "integrated", "hwmon_power"] == 1
    assert_balanced(figures)


def test_modelled_components_fit_into_the_platform(tmp_path: Path) -> None:
    """The model says 46.0 J of CPU and 250.9 J of memory; an ACPI meter leaves 20 W for all of it."""
    low = {path: text.replace("150000000", "20000000") for path, text in ACPI.items()}

    figures = replay(tmp_path, EPYC, extra=low)

    assert sum(node(figures).values()) == pytest.approx(200.0)
    assert node(figures)["other"] == 0.0
    assert node(figures)["cpu"] / node(figures)["dram"] == pytest.approx(46.006 / 250.88, rel=1e-6)
    assert_balanced(figures)


def test_an_acpi_meter_that_does_not_know_is_no_platform_case_energy_m6(tmp_path: Path) -> None:
    unknown = {path: text.replace("150000000", "4294967295000") for path, text in ACPI.items()}

    figures = replay(tmp_path, replace(EPYC, zones=[zone("intel-rapl:0", "package-0", 5, 900_000_000)]), extra=unknown)

    assert node(figures) == pytest.approx({"cpu": 900.0})
    assert up(figures)["hwmon_power"] == ("unsupported", 0.0)


def test_one_socket_that_is_busy_makes_the_other_no_busier_case_energy_a4(tmp_path: Path) -> None:
    """A job pinned to socket 1; socket 0 does nothing: its energy is idle, whatever the job does."""
    job = Group(
        "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", user_ms=ran(5, 36.0), full=True, cpuset="1,3,5,7"
    )
    top = Group("/system.slice/slurmstepd.scope/job_7", full=True, cpuset="1,3,5,7")
    machine = replace(
        XEON,
        cpus=[Cpu(number % 2, user=900 if number % 2 else 0) for number in range(8)],
        zones=[zone("intel-rapl:0", "package-0", 5, 20_000_000), zone("intel-rapl:1", "package-1", 5, 1_000_000_000)],
    )

    figures = replay(tmp_path, machine, [top, job])

    dynamic = [
        value
        for key, value in figures.items()
        if key[0] == "kwhere_unit_energy_joules_total" and key[1:3] == ("slurm", "7") and key[4:] == ("cpu", "dynamic")
    ]
    # socket 1: 1000 J less 4 of 32 threads of 0.12 x 125 W idle, 10 s; socket 0: 20 J, just above its 18.75 J of idle
    assert dynamic == pytest.approx([1000.0 - 18.75])
    assert_balanced(figures)


def test_a_vm_gets_the_energy_of_all_its_vcpus_case_energy_a13(tmp_path: Path) -> None:
    vm = "/machine.slice/machine-qemu\\x2d3\\x2dbig.scope"
    groups = [
        Group(vm, full=True),
        Group(f"{vm}/libvirt/emulator", user_ms=ran(5, 2.0)),
        *(Group(f"{vm}/libvirt/vcpu{number}", user_ms=ran(5, 7.5)) for number in range(4)),
    ]
    machine = replace(EPYC, zones=[zone("intel-rapl:0", "package-0", 5, 900_000_000)])

    figures = replay(tmp_path, machine, groups)

    (dynamic,) = [
        value
        for key, value in figures.items()
        if key[0] == "kwhere_unit_energy_joules_total" and key[1] == "libvirt" and key[4:] == ("cpu", "dynamic")
    ]
    # 4 x 7.5 + 2 of 32 busy seconds: all of the 900 J above 8 of 128 threads of 22.8 W idle, 10 s
    assert dynamic == pytest.approx(900.0 - 14.25)
    assert_balanced(figures)


def of_unit(figures: Figures, metric: str, unit: str) -> dict[tuple[str, ...], float]:
    """Return one metric of one unit by the labels that follow its run."""
    return {key[4:]: value for key, value in figures.items() if key[0] == metric and key[2] == unit}


@pytest.mark.parametrize("v1", [False, True])
def test_a_recorded_host_shows_its_second_moment(tmp_path: Path, v1: bool) -> None:
    job = Group("/slurm/uid_1000/job_42", full=True, memory_bytes=2**30, read_bytes=(2**20, 3 * 2**20))
    step = Group("/slurm/uid_1000/job_42/step_0", user_ms=ran(0, 8.0))
    task = Process(400, "lmp", ("lmp",), step.path, uid=1000)
    mounts = v1_mounts() if v1 else XEON.mounts

    figures = replay(tmp_path, replace(XEON, processes=[task], mounts=mounts), [job, step], v1=v1)

    assert of_unit(figures, "kwhere_unit_memory_used_bytes", "42") == {(): 2**30 + 4096}
    assert of_unit(figures, "kwhere_unit_io_read_bytes_total", "42") == {(): 3 * 2**20}
    assert of_unit(figures, "kwhere_unit_cpu_seconds_total", "42") == {("user",): 8.0, ("system",): 0.0}


def test_case_energy_c1_a_pods_quality_of_service_and_runtime_show(tmp_path: Path) -> None:
    pod = "/kubepods.slice/kubepods-pod8bb3a0a5_7ea8_4bc1_b1d4_1a2b3c4d5e6f.slice"
    container = f"{pod}/cri-containerd-{'0a' * 32}.scope"
    process = Process(400, "web", ("web",), container)

    figures = replay(
        tmp_path, replace(XEON, processes=[process]), [Group(pod, full=True), Group(container, user_ms=ran(0, 1.0))]
    )

    (facts,) = of_unit(figures, "kwhere_unit_info", "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f")
    assert ("containerd" in facts, "guaranteed" in facts) == (True, True)


def test_case_energy_c8_the_monitors_of_containers_are_system(tmp_path: Path) -> None:
    pod = "/kubepods.slice/kubepods-pod8bb3a0a5_7ea8_4bc1_b1d4_1a2b3c4d5e6f.slice"
    groups = [
        Group(pod, full=True),
        Group(f"{pod}/crio-{'0a' * 32}.scope", user_ms=ran(0, 24.0)),
        Group(f"/system.slice/crio-conmon-{'0a' * 32}.scope", user_ms=ran(0, 8.0), full=True),
    ]
    machine = replace(XEON, cpus=[Cpu(0, user=400)] * 8, zones=[zone("intel-rapl:0", "package-0", 5, 600_000_000)])

    figures = replay(tmp_path, machine, groups, idle_watts=10.0)

    # 600 J - 10 W x 10 s = 500 J over 32 busy seconds
    assert of_unit(figures, "kwhere_unit_energy_joules_total", "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f")[
        "cpu", "dynamic"
    ] == pytest.approx(375.0)
    assert figures["kwhere_system_energy_joules_total", "cpu", "dynamic"] == pytest.approx(125.0)
    assert_balanced(figures)


def test_case_energy_c24_a_pid_used_again_by_another_pod_where_no_cgroup_tree_can_be_read(tmp_path: Path) -> None:
    pods = [f"/kubepods/pod{digit * 8}-7ea8-4bc1-b1d4-1a2b3c4d5e6f" for digit in "ab"]
    container = f"/{'0a' * 32}"
    machine = replace(XEON, cpus=[Cpu(0, user=400)] * 8, zones=[zone("intel-rapl:0", "package-0", 5, 420_000_000)])

    def reuse(root: Path) -> None:
        for moment, (pod, start, ticks) in enumerate([(pods[0], 1000, 500), (pods[1], 8_640_900, 3)]):
            process = root / "proc" / str(moment) / "100"
            process.mkdir()
            fields = f"S 1 100 100 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 4096 1"
            (process / "stat").write_text(f"100 (a) {fields}\n")
            (process / "cgroup").write_text(f"0::{pod}{container}\n")
            (process / "status").write_text("Uid:\t1\t1\t1\t1\n")
        shutil.rmtree(root / "cgroup")

    figures = replay(tmp_path, machine, (), idle_watts=10.0, edit=reuse)

    # 420 J - 10 W x 10 s = 320 J over 32 s: 10 J for each second
    first, second = (of_unit(figures, "kwhere_unit_energy_joules_total", pod[13:]) for pod in pods)
    assert first["cpu", "dynamic"] == 0.0
    assert second["cpu", "dynamic"] == pytest.approx(0.3)
    assert_balanced(figures)


def test_jobs_in_the_freezer_alone_get_their_energy(tmp_path: Path) -> None:
    job, slurmd = "/slurm/uid_1000/job_42/step_0", "/system.slice/slurmd.service"
    task = Process(400, "lmp", ("lmp",), slurmd, uid=1000)
    groups = [Group(slurmd, user_ms=ran(0, 8.0), full=True)]
    zones = [zone("intel-rapl:0", "package-0", 5, 420_000_000)]
    machine = replace(XEON, cpus=[Cpu(0, user=400)] * 8, zones=zones, processes=[task], mounts=v1_mounts())

    def hide(root: Path) -> None:
        for moment in "01":
            (root / "cgroup" / moment / "freezer" / job[1:]).mkdir(parents=True)
            lines = root / "proc" / moment / "400" / "cgroup"
            lines.unlink()
            lines.write_text(f"9:freezer:{job}\n4:cpu,cpuacct:{slurmd}\n1:name=systemd:{slurmd}\n")

    figures = replay(tmp_path, machine, groups, v1=True, idle_watts=10.0, edit=hide)

    # 320 J over 32 s: 80 J for the 8 s of the job, 240 J that nobody explains
    assert of_unit(figures, "kwhere_unit_energy_joules_total", "42")["cpu", "dynamic"] == pytest.approx(80.0)
    assert figures["kwhere_system_energy_joules_total", "cpu", "dynamic"] == pytest.approx(240.0)
    assert_balanced(figures)
