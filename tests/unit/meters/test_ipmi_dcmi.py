"""The IPMI DCMI meter: which way is taken, what its failures are called, and what is never done."""

import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.sampling_world import HandClock
from tests.unit.devices.dcmi_texts import printed
from tests.unit.devices.test_dcmi_programs import script
from tests.unit.devices.test_openipmi import FakeDriver, Packet

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.terms import Component, Method
from kwhere.devices.dcmi import PowerReading
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.background import BackgroundMeter
from kwhere.meters.ipmi_dcmi import (
    UNSUPPORTED_RETRY_SECONDS,
    DcmiSource,
    DcmiWay,
    Place,
    StampWatch,
    build_at,
    find_device,
    plugin,
)
from kwhere.meters.ipmi_dcmi_settings import IpmiDcmiSettings, Way
from kwhere.meters.meter import PLATFORM, MeterContext
from kwhere.meters.settings import MeterSettings

WATT = 1_000_000


def answer(watts: int, state: int = 0x40, code: int = 0) -> Packet:
    return Packet(bytes([code]) + struct.pack("<BHHHHIIB", 0xDC, watts, 3, 900, watts, 1, 1000, state))


@dataclass
class Machine:
    """A running machine with its own /dev, /sys and programs."""

    root: Path
    driver: FakeDriver = field(default_factory=FakeDriver)
    live: bool = True
    node: str = ""

    def __post_init__(self) -> None:
        for name in ("dev", "sys", "bin", "proc"):
            (self.root / name).mkdir()

    def with_device(self, name: str = "ipmi0") -> "Machine":
        (self.root / "dev" / name).touch()
        return self

    def with_program(self, name: str, text: str, status: int = 0) -> "Machine":
        (self.root / name).mkdir()
        (self.root / "bin" / name).symlink_to(script(self.root / name, name, text, status=status))
        return self

    def with_sys(self, directory: str) -> "Machine":
        (self.root / "sys" / directory).mkdir(parents=True)
        return self

    def build(self, **settings: object) -> BackgroundMeter:
        fs = HostFS(self.root / "proc", self.root / "sys", self.root / "no-cgroup")
        fs.is_recorded = not self.live
        clock = HandClock()
        context = MeterContext(
            fs=fs,
            socket_of_cpu={},
            cpu_vendor=None,
            cpu_model=None,
            memory_bytes=None,
            busy_ns=dict,
            settings=MeterSettings(ipmi_dcmi=IpmiDcmiSettings.model_validate(settings)),
            node=self.node,
            clock_ns=clock.monotonic_ns,
        )
        place = Place(
            self.root / "dev",
            self.driver,
            {"IPMI_PASSWORD": "secret", "OTHER": "x"},
            lambda: "node7.example",
            lambda name: shutil.which(name, path=f"{self.root}/bin"),
        )
        meter = build_at(context, place)
        meter._thread = object()  # type: ignore[assignment]  # the test asks, not a thread
        return meter


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def power_uw(meter: BackgroundMeter) -> int | None:
    meter.ask_once()
    (reading,) = meter.read(0)
    assert (reading.domain, reading.zone) == (PLATFORM, "system")
    return reading.power_uw


def refusal(meter: BackgroundMeter) -> Unavailable:
    meter.ask_once()
    with pytest.raises(Unavailable) as caught:
        meter.read(0)
    return caught.value


def not_built(machine: Machine, **settings: object) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        machine.build(**settings)
    return caught.value


def test_the_kernels_device_is_asked_first(machine: Machine) -> None:
    machine.with_device().with_program("ipmi-dcmi", printed("freeipmi", "999 Watts"))
    machine.driver.script = [answer(164)]

    meter = machine.build()

    assert power_uw(meter) == 164 * WATT
    assert (meter.source, meter.method, meter.domains) == ("ipmi_dcmi", Method.INTEGRATED, (PLATFORM,))
    assert (meter.covers, meter.refresh_seconds) == (frozenset(Component), 10.0)
    assert plugin.source == "ipmi_dcmi"


def test_gpus_with_a_supply_of_their_own_are_outside(machine: Machine) -> None:
    meter = machine.with_device().build(includes_gpus=False)

    assert meter.covers == {Component.CPU, Component.DRAM, Component.OTHER}


@pytest.mark.parametrize("state", [0x00, 0x3F], ids=["case_energy_m4-off", "case_energy_m4-other-bits"])
def test_an_inactive_measurement_is_absent_and_no_program_is_asked_for_another_word(
    machine: Machine, state: int
) -> None:
    machine.with_device().with_program("ipmi-dcmi", printed("freeipmi", "164 Watts"))
    machine.driver.script = [answer(164, state)]

    assert refusal(machine.build()).reason == "inactive"


@pytest.mark.parametrize("watts", [0, 0xFFFF], ids=["zero", "case_energy_m6"])
def test_what_means_unknown_is_unsupported_never_0_watts(machine: Machine, watts: int) -> None:
    machine.with_device().driver.script = [answer(watts)]

    assert refusal(machine.build()).reason == "unsupported"


def test_a_bmc_without_dcmi_is_left_alone_for_an_hour(machine: Machine) -> None:
    machine.with_device().driver.script = [Packet(b"\xc1")]

    assert machine.build().ask_once() == UNSUPPORTED_RETRY_SECONDS == 3600


def test_a_wrong_password_is_not_tried_so_often_that_the_account_locks(machine: Machine) -> None:
    machine.with_program("ipmitool", "Error: Unable to establish IPMI v2 / RMCP+ session\n", status=1)

    assert machine.build(way="ipmitool").ask_once() == 300


@pytest.mark.parametrize("watts", [0, 0xFFFF])
def test_a_bmc_that_does_not_know_yet_is_asked_again_soon(machine: Machine, watts: int) -> None:
    """It may just be starting, as the node is."""
    machine.with_device().driver.script = [answer(watts)]

    assert machine.build().ask_once() == 10.0


def test_nonsense_is_asked_again_soon(machine: Machine) -> None:
    machine.with_device().driver.script = [Packet(b"")]

    assert machine.build().ask_once() == 10.0


def test_a_bmc_that_worked_before_is_asked_again_soon(machine: Machine) -> None:
    machine.with_device().driver.script = [answer(164), answer(0), answer(0)]
    meter = machine.build()
    assert power_uw(meter) == 164 * WATT

    assert meter.ask_once() == 10.0
    assert refusal(meter).reason != ""


def test_where_the_device_does_not_answer_programs_are_tried_in_order(machine: Machine) -> None:
    machine.with_device()
    machine.with_program("ipmi-dcmi", "", status=1).with_program("ipmitool", printed("ipmitool", "170 Watts"))

    meter = machine.build(timeout_seconds=20)
    machine.driver.script = [Packet(b"")]

    assert power_uw(meter) == 170 * WATT
    machine.driver.script = [answer(164)]
    assert power_uw(meter) == 170 * WATT  # the way that worked is kept


def test_where_nothing_works_the_best_ways_reason_shows(machine: Machine) -> None:
    machine.with_device().with_program("ipmi-dcmi", "", status=1).with_program("ipmitool", "", status=1)
    machine.driver.script = [Packet(b"\xd4")]

    assert refusal(machine.build()).reason == "permission"


def test_a_bmc_that_is_busy_for_a_moment_has_nothing_to_say(machine: Machine) -> None:
    machine.with_device().driver.script = [answer(164), *[Packet(b"\xc0")] * 3]
    meter = machine.build()

    for _ in range(4):
        assert power_uw(meter) == 164 * WATT


def test_a_bmc_that_stays_busy_is_a_failure(machine: Machine) -> None:
    machine.with_device().driver.script = [Packet(b"\xc0")] * 4
    meter = machine.build()
    for _ in range(3):
        meter.ask_once()
        with pytest.raises(NoData):
            meter.read(0)

    assert refusal(meter).reason == "busy"


def test_a_device_that_goes_away_is_absent_and_found_again(machine: Machine) -> None:
    machine.with_device().driver.script = [19, answer(164)]  # ENODEV
    meter = machine.build()

    assert refusal(meter).reason == "absent"
    assert power_uw(meter) == 164 * WATT


def test_without_a_device_nothing_is_executed(machine: Machine) -> None:
    machine.with_program("ipmi-dcmi", printed("freeipmi", "164 Watts")).with_program("capmc", "{}")

    assert not_built(machine).reason == "absent"


def test_capmc_tells_of_a_whole_system_and_is_taken_only_by_name(machine: Machine) -> None:
    text = '{"e":0,"err_msg":"","avg":5942,"min":5748,"max":6132,"window_len":600}'
    machine.with_device().with_program("capmc", text)
    machine.driver.script = [Packet(b"")]

    assert refusal(machine.build()).reason == "unsupported"  # the empty answer; no program was tried
    assert power_uw(machine.build(way="capmc")) == 5942 * WATT


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        ("class/ipmi/ipmi0", "no_device"),
        ("firmware/dmi/entries/38-0", "no_driver"),
        ("bus/acpi/devices/IPI0001:00", "no_driver"),
        ("bus/acpi/devices/ACPI000D:00", "absent"),
    ],
)
def test_why_there_is_no_device(machine: Machine, directory: str, reason: str) -> None:
    assert not_built(machine.with_sys(directory)).reason == reason


@pytest.mark.parametrize(("number", "reason"), [(13, "permission"), (1, "permission"), (16, "busy"), (6, "absent")])
def test_a_device_that_cannot_be_opened_has_a_reason(machine: Machine, number: int, reason: str) -> None:
    machine.with_device().driver.opens = number

    error = not_built(machine)

    assert error.reason == reason
    assert "/dev/ipmi0: " in str(error)


def test_a_recorded_tree_is_only_looked_at(machine: Machine) -> None:
    machine.live = False
    machine.with_device().with_program("ipmi-dcmi", printed("freeipmi", "164 Watts"))

    assert not_built(machine, way="freeipmi").reason == "absent"
    assert not_built(machine.with_sys("class/ipmi/ipmi0")).reason == "recorded"


@pytest.mark.parametrize(
    ("way", "program", "text"),
    [("freeipmi", "ipmi-dcmi", "freeipmi"), ("ipmitool", "ipmitool", "ipmitool"), ("ipmiutil", "ipmiutil", "ipmiutil")],
)
def test_the_settings_name_a_program(machine: Machine, way: str, program: str, text: str) -> None:
    """case_energy_m1"""
    machine.with_program(program, printed(text, "164 Watts"), status=1)

    assert power_uw(machine.build(way=way)) == 164 * WATT


def test_a_named_program_that_is_not_installed(machine: Machine) -> None:
    error = not_built(machine, way="ipmitool", command=["/opt/none/ipmitool"])

    assert error.reason == "no_program"
    assert "expected the program /opt/none/ipmitool, found none; Debian's package is ipmitool" in str(error)


ECHO = '#!/bin/sh\necho "$@" >{root}/argv\nenv >{root}/env\nexit 1\n'


def test_arguments_and_environment_of_the_site_reach_the_program(machine: Machine) -> None:
    program = machine.root / "bin" / "as-root"
    program.write_text(ECHO.format(root=machine.root))
    program.chmod(0o755)
    arguments = ["-I", "lanplus", "-H", "{short}-bmc", "-o", "{node}/{name}", "-E"]

    meter = machine.build(
        way="ipmitool",
        command=[str(program), "ipmitool"],
        arguments=arguments,
        environment=["IPMI_PASSWORD", "ABSENT"],
        node_name={"pattern": r"node(\d+)\..*", "replacement": r"b\1"},
    )
    meter.ask_once()

    assert (
        machine.root / "argv"
    ).read_text() == "ipmitool -I lanplus -H node7-bmc -o node7.example/b7 -E dcmi power reading\n"
    environment = (machine.root / "env").read_text().splitlines()
    assert "IPMI_PASSWORD=secret" in environment
    assert not [line for line in environment if line.startswith(("OTHER=", "ABSENT="))]


def test_the_nodes_name_goes_before_the_hosts(machine: Machine) -> None:
    program = machine.root / "bin" / "ipmitool"
    program.write_text(ECHO.format(root=machine.root))
    program.chmod(0o755)
    machine.node = "rack1-n3.site"

    machine.build(way="ipmitool", arguments=["-H", "{node}"]).ask_once()

    assert (machine.root / "argv").read_text() == "-H rack1-n3.site dcmi power reading\n"


def test_a_name_that_no_argument_may_hold_is_refused(machine: Machine) -> None:
    machine.node = "-P"
    machine.with_program("ipmitool", "")

    assert not_built(machine, way="ipmitool", arguments=["-H", "{node}"]).reason == "unconfigured"


def test_beside_the_kernels_driver_freeipmi_keeps_to_it(machine: Machine) -> None:
    program = machine.root / "bin" / "ipmi-dcmi"
    program.write_text(ECHO.format(root=machine.root))
    program.chmod(0o755)

    machine.with_device().build(way="freeipmi").ask_once()

    assert (machine.root / "argv").read_text() == "--driver-type=OPENIPMI --get-system-power-statistics\n"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"arguments": ["-H", "bmc"]}, "expected a way that names a program"),
        ({"way": "native", "command": ["sudo"]}, "expected a way that names a program"),
        ({"environment": ["IPMI_PASSWORD"]}, "expected a way that names a program"),
        (
            {"way": "ipmitool", "arguments": ["-P", "hunter2"]},
            "expected no password or key among the arguments, found -P",
        ),
        ({"way": "freeipmi", "arguments": ["--password=hunter2"]}, "found --password"),
        ({"way": "freeipmi", "command": ["ipmi-dcmi", "-phunter2"]}, "found -p"),
        ({"way": "ipmitool", "arguments": ["-H", "{host}-bmc"]}, "expected {node}, {short} or {name}, found {host}"),
        ({"way": "guess"}, "Input should be 'auto', 'native'"),
        ({"refresh_seconds": 0}, "greater than or equal to 1"),
        ({"password": "hunter2"}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        IpmiDcmiSettings.model_validate(settings)

    (error,) = caught.value.errors()
    assert sentence in error["msg"]
    assert "hunter2" not in error["msg"]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["ipmi1", "ipmi0", "ipmi10"], "ipmi0"),
        (["ipmi10", "ipmi2"], "ipmi2"),
        (["ipmi", "ipmidev0", "null"], None),
        ([], None),
    ],
)
def test_the_lowest_device_is_taken(tmp_path: Path, names: Sequence[str], found: str | None) -> None:
    for name in names:
        (tmp_path / name).touch()

    assert find_device(tmp_path) == (None if found is None else tmp_path / found)


@pytest.mark.parametrize("place", ["ipmi/0", "ipmidev/0"])
def test_devices_at_old_places_are_found(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir()
    (tmp_path / place).touch()

    assert find_device(tmp_path) == tmp_path / place


def test_a_closed_source_asks_no_more() -> None:
    def never() -> PowerReading:
        raise AssertionError

    source = DcmiSource([DcmiWay(Way.NATIVE, never)], StampWatch(10))
    source.close()

    with pytest.raises(NoData):
        source.ask()


def test_nonsense_from_one_way_leads_to_the_next() -> None:
    def broken() -> PowerReading:
        raise SourceError("x: nonsense")

    ways = [DcmiWay(Way.FREEIPMI, broken), DcmiWay(Way.IPMITOOL, lambda: PowerReading(5 * WATT, active=True))]

    (reading,) = DcmiSource(ways, StampWatch(10)).ask()

    assert reading.power_uw == 5 * WATT


@dataclass
class Seconds:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def reading(stamp: int, watts: int = 164, period_ms: int = 1000) -> PowerReading:
    return PowerReading(watts * WATT, active=True, stamp=str(stamp), period_ms=period_ms)


def seen(watch: StampWatch, clock: Seconds, *readings: tuple[float, PowerReading]) -> str | None:
    for at, found in readings:
        clock.now = at
        try:
            watch.check(found)
        except Unavailable as error:
            return f"{error.reason} at {at:g}"
    return None


def test_a_stamp_that_stops_with_its_power_is_stuck() -> None:
    clock = Seconds()

    assert (
        seen(StampWatch(10, clock), clock, (0, reading(1)), (10, reading(2)), (70, reading(2)), (71, reading(2)))
        == "stuck at 71"
    )


@pytest.mark.parametrize(
    "readings",
    [
        [(0, reading(0)), (100, reading(0)), (9000, reading(0))],
        [(0, reading(1)), (10, reading(2)), (100, reading(2, watts=165)), (160, reading(2, watts=165))],
        [(0, reading(1)), (10, reading(2)), (190, reading(2, period_ms=60_000))],
        [(0, reading(50)), (10, reading(2)), (100, reading(3)), (200, reading(1))],
    ],
    ids=["never moved", "power moves", "long period", "backwards"],
)
def test_what_is_not_stuck(readings: list[tuple[float, PowerReading]]) -> None:
    clock = Seconds()

    assert seen(StampWatch(10, clock), clock, *readings) is None
