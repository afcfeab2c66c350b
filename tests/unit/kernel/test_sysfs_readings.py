from pathlib import Path

import pytest
from tests.recorded_hosts import open_host

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.frequency import CpuFrequency, FrequencyMonitor, read_frequencies, read_frequency
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import boot_id, machine_id, product_uuid, read_cpu_model
from kwhere.kernel.thermal import Temperature, is_plausible, read_temperatures, read_zones
from kwhere.kernel.topology import Cpu, online_cpus, read_topology


@pytest.fixture
def fs(tmp_path: Path) -> HostFS:
    return HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup")


def write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def test_sockets_are_labels(tmp_path: Path, fs: HostFS) -> None:
    write(tmp_path, "sys/devices/system/cpu/online", "0,3\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/topology/physical_package_id", "15\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/topology/die_id", "1\n")
    write(tmp_path, "sys/devices/system/cpu/cpu3/topology/physical_package_id", "-1\n")

    topology = read_topology(fs)

    assert topology.cpus == (Cpu(0, "15", "1"), Cpu(3, "0"))
    assert topology.sockets == ("0", "15")


def test_sockets_come_in_the_order_of_their_numbers(tmp_path: Path, fs: HostFS) -> None:
    write(tmp_path, "sys/devices/system/cpu/online", "0-2")
    for cpu, socket in enumerate(("10", "2", "1")):
        write(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", socket)

    assert read_topology(fs).sockets == ("1", "2", "10")


@pytest.mark.parametrize(
    ("path", "text"), [("sys/devices/system/cpu/cpu2/x", ""), ("proc/stat", "cpu  1 2 3 4\ncpu2 1 2 3 4\ncpuidle 3\n")]
)
def test_cpus_are_found_without_the_list(tmp_path: Path, fs: HostFS, path: str, text: str) -> None:
    write(tmp_path, "sys/devices/system/cpu/online", "nonsense")
    write(tmp_path, path, text)

    assert online_cpus(fs) == (2,)


def test_a_host_without_cpus_is_said_so(fs: HostFS) -> None:
    with pytest.raises(Unavailable) as caught:
        online_cpus(fs)

    assert caught.value.reason == "absent"


def test_frequencies_come_from_cpufreq() -> None:
    found = read_frequencies(open_host("laptop-psys-mmio"))

    assert found[0] == CpuFrequency(400_000, 800_000, 3_900_000, "powersave")
    assert len(found) == 8


def test_a_virtual_machine_tells_in_cpuinfo() -> None:
    assert read_frequencies(open_host("vm-no-meter")) == {cpu: CpuFrequency(2_000_000) for cpu in range(4)}


def test_a_cpu_that_does_not_tell_is_no_zero(tmp_path: Path, fs: HostFS) -> None:
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "<unknown>\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "0\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n")

    assert read_frequency(fs, 0) == CpuFrequency(governor="schedutil")
    assert read_frequency(fs, 1) == CpuFrequency()
    assert read_frequencies(HostFS(tmp_path / "no", tmp_path / "no", tmp_path / "no")) == {}


def test_the_monitor_reads_in_its_own_thread_and_ends() -> None:
    monitor = FrequencyMonitor(open_host("laptop-psys-mmio"))

    assert monitor.latest(patience_seconds=60)[7].current_khz == 2_500_000
    monitor.close()
    assert monitor.latest()[7].governor == "powersave"


@pytest.mark.parametrize(("took_seconds", "pause_seconds"), [(0.001, 10.0), (5.0, 100.0)])
def test_a_slow_kernel_is_asked_less_often(took_seconds: float, pause_seconds: float) -> None:
    times = iter([100.0, 100.0 + took_seconds])
    monitor = FrequencyMonitor(open_host("vm-no-meter"), interval_seconds=1.0, timer=lambda: next(times))

    assert monitor.refresh() == pytest.approx(pause_seconds)


def test_thermal_zones_leave_out_the_impossible() -> None:
    assert read_zones(open_host("laptop-psys-mmio")) == [
        Temperature("acpitz", "acpitz", 25_000),
        Temperature("iwlwifi_1", "iwlwifi_1", 41_000),
        Temperature("x86_pkg_temp", "x86_pkg_temp", 51_000),
    ]


def test_zones_of_one_type_carry_their_numbers() -> None:
    assert read_zones(open_host("xeon-2s-dram")) == [
        Temperature("x86_pkg_temp", "x86_pkg_temp-0", 62_000),
        Temperature("x86_pkg_temp", "x86_pkg_temp-1", 55_500),
    ]


def test_one_silent_zone_takes_no_other_down(tmp_path: Path, fs: HostFS) -> None:
    write(tmp_path, "sys/class/thermal/thermal_zone0/type", "modem\n")
    write(tmp_path, "sys/class/thermal/thermal_zone1/type", "soc\n")
    write(tmp_path, "sys/class/thermal/thermal_zone1/temp", "41250\n")
    write(tmp_path, "sys/class/thermal/thermal_zone2/temp", "1\n")
    write(tmp_path, "sys/class/thermal/cooling_device0/type", "Fan\n")

    assert read_zones(fs) == [Temperature("soc", "soc", 41_250)]


@pytest.mark.parametrize(
    ("name", "sensors"),
    [
        ("epyc-2s", {"k10temp-0/Tctl": 55_250, "k10temp-1/Tctl": 48_125}),
        ("xeon-2s-dram", {"coretemp/Package id 0": 62_000, "coretemp/Core 0": 60_000, "coretemp/Package id 1": 55_500}),
        (
            "laptop-psys-mmio",
            {
                "coretemp/Package id 0": 51_000,
                "coretemp/Core 0": 50_000,
                "coretemp/Core 1": 51_000,
                "nvme/Composite": 38_850,
                "iwlwifi_1/temp1": 41_000,
                "acpitz": 25_000,
            },
        ),
        ("vm-no-meter", {}),
    ],
)
def test_every_sensor_is_shown_once(name: str, sensors: dict[str, int]) -> None:
    found = [(temperature.sensor, temperature.millicelsius) for temperature in read_temperatures(open_host(name))]

    assert dict(found) == sensors
    assert len(found) == len(sensors)


def test_a_faulty_input_and_a_repeated_label(tmp_path: Path, fs: HostFS) -> None:
    for number, (label, value) in enumerate([("Tccd", 40_000), ("Tccd", 41_000), ("Tctl", 42_000)], start=1):
        write(tmp_path, f"sys/class/hwmon/hwmon0/temp{number}_label", label)
        write(tmp_path, f"sys/class/hwmon/hwmon0/temp{number}_input", str(value))
    write(tmp_path, "sys/class/hwmon/hwmon0/temp3_fault", "1\n")
    write(tmp_path, "sys/class/hwmon/hwmon0/name", "k10temp\n")
    write(tmp_path, "sys/class/hwmon/hwmon1/temp1_input", "1000\n")

    assert [t.sensor for t in read_temperatures(fs)] == ["k10temp/Tccd", "k10temp/Tccd temp2"]


def test_no_thermal_directory_is_absent(fs: HostFS) -> None:
    with pytest.raises(Unavailable):
        read_zones(fs)


@pytest.mark.parametrize(
    ("millicelsius", "plausible"),
    [
        (45_000, True),
        (-20_000, True),
        (0, False),
        (-128_000, False),
        (-273_150, False),
        (-274_000, False),
        (255_000, False),
    ],
)
def test_temperatures_that_can_be(millicelsius: int, plausible: bool) -> None:
    assert is_plausible(millicelsius) is plausible


def test_ids(tmp_path: Path, fs: HostFS) -> None:
    write(tmp_path, "proc/sys/kernel/random/boot_id", "b0070000-0000-4000-8000-000000000001\n")
    write(tmp_path, "sys/class/dmi/id/product_uuid", "4C4C4544-0000\n")
    write(tmp_path, "machine-id", "0123456789abcdef0123456789abcdef\n")

    assert boot_id(fs) == "b0070000-0000-4000-8000-000000000001"
    assert product_uuid(fs) == "4c4c4544-0000"
    assert machine_id(tmp_path / "machine-id") == "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("text", ["", "\n", "x" * 200, "a\x00b", "a\nb"])
def test_what_is_no_id_is_refused(tmp_path: Path, fs: HostFS, text: str) -> None:
    write(tmp_path, "proc/sys/kernel/random/boot_id", text)
    write(tmp_path, "machine-id", text)

    with pytest.raises(SourceError):
        boot_id(fs)
    with pytest.raises(SourceError):
        machine_id(tmp_path / "machine-id")
    assert product_uuid(fs) is None


def test_an_image_that_never_booted_has_no_machine_id(tmp_path: Path) -> None:
    write(tmp_path, "machine-id", "uninitialized\n")

    for path in (tmp_path / "machine-id", tmp_path / "none"):
        with pytest.raises(Unavailable) as caught:
            machine_id(path)
        assert caught.value.reason == "absent"


def test_a_host_without_cpuinfo_has_a_nameless_processor(fs: HostFS) -> None:
    assert read_cpu_model(fs).name is None
