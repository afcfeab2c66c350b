"""Real programs read a real BMC on the network; an agent's `other` is what the BMC shows beyond the components."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.dcmi_bmc import PASSWORD, DcmiBmc
from tests.role_process import RoleProcess

from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.background import BackgroundMeter
from kwhere.meters.ipmi_dcmi import build
from kwhere.meters.ipmi_dcmi_settings import IpmiDcmiSettings
from kwhere.meters.meter import MeterContext
from kwhere.meters.settings import MeterSettings

pytestmark = pytest.mark.service("ipmi")
WATT = 1_000_000
PROGRAMS = ["ipmitool", "freeipmi"]


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[DcmiBmc]:
    found = DcmiBmc(tmp_path)
    yield found
    found.end()


def meter(way: str, arguments: list[str], timeout_seconds: float = 30.0) -> BackgroundMeter:
    """Return the meter as the agent builds it, asked by the test."""
    settings = IpmiDcmiSettings.model_validate({"way": way, "arguments": arguments, "timeout_seconds": timeout_seconds})
    context = MeterContext(HostFS(), {}, None, None, None, dict, MeterSettings(ipmi_dcmi=settings))
    built = build(context)
    built._thread = object()  # type: ignore[assignment]
    return built


def power_uw(built: BackgroundMeter) -> int | None:
    built.ask_once()
    (reading,) = built.read(0)
    return reading.power_uw


def reason_of(built: BackgroundMeter) -> str:
    built.ask_once()
    with pytest.raises(Unavailable) as caught:
        built.read(0)
    assert PASSWORD not in str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize("way", PROGRAMS)
def test_real_programs_read_the_bmc(bmc: DcmiBmc, way: str) -> None:
    arguments = bmc.ipmitool() if way == "ipmitool" else bmc.freeipmi()
    built = meter(way, arguments)

    assert power_uw(built) == 345 * WATT
    bmc.says(412)
    assert power_uw(built) == 412 * WATT


CASES = [
    ({"watts": 345, "state": 0x00}, "inactive", "case_energy_m4"),
    ({"watts": 0}, "unsupported", "zero"),
    ({"watts": 0xFFFF}, "unsupported", "case_energy_m6"),
    ({"watts": 345, "code": 0xC1}, "unsupported", "c1"),
]


@pytest.mark.parametrize("way", PROGRAMS)
@pytest.mark.parametrize(("says", "reason"), [case[:2] for case in CASES], ids=[case[2] for case in CASES])
def test_what_is_no_power_is_absent(bmc: DcmiBmc, way: str, says: dict[str, int], reason: str) -> None:
    bmc.says(says["watts"], state=says.get("state", 0x40), code=says.get("code", 0))

    assert reason_of(meter(way, bmc.ipmitool() if way == "ipmitool" else bmc.freeipmi())) == reason


@pytest.mark.parametrize("way", PROGRAMS)
def test_a_wrong_password_is_named_and_not_shown(bmc: DcmiBmc, way: str) -> None:
    bmc.password_file.write_text("wrong")
    bmc.config_file.write_text("username power\npassword wrong\n")

    assert reason_of(meter(way, bmc.ipmitool() if way == "ipmitool" else bmc.freeipmi())) == "unauthorized"


LAN = """\
name "plain"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  user 2 true "power" "secret" admin 10 none md2 md5 straight
"""
EMULATION = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0xbf 0x1291 0xf02\nmc_enable 0x20\n"


@pytest.mark.parametrize("way", PROGRAMS)
def test_a_bmc_without_dcmi_is_unsupported(bmc: DcmiBmc, tmp_path: Path, way: str) -> None:
    """OpenIPMI's simulator has none: it answers completion code c1."""
    bmc.end()  # its port is free then
    (tmp_path / "lan.conf").write_text(LAN.format(port=bmc.port))
    (tmp_path / "bmc.emu").write_text(EMULATION)
    simulator = shutil.which("ipmi_sim")
    assert simulator is not None
    files = ["-c", f"{tmp_path}/lan.conf", "-f", f"{tmp_path}/bmc.emu", "-s", f"{tmp_path}/state"]
    process = subprocess.Popen([simulator, *files, "-n"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        # the simulator's session answers are loose: both programs need to be told
        arguments = [*bmc.ipmitool(), "-C", "3"] if way == "ipmitool" else [*bmc.freeipmi(), "-W", "opensesspriv"]
        assert reason_of(meter(way, arguments)) == "unsupported"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


AGENT = """
agent: {node: n1, interval_seconds: 0.5, slot_seconds: 5}
web: {listen_addresses: ["127.0.0.1:0"]}
meters: {'off': [powercap, perf, perf_psys, hwmon_energy, hwmon_power, psys], ipmi_dcmi: %s}
"""
REFRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Scrape:
    """What an agent says at a moment."""

    at: float
    samples: dict[str, list[tuple[dict[str, str], float]]]

    def value(self, name: str, **labels: str) -> float | None:
        found = [value for has, value in self.samples.get(name, []) if labels.items() <= has.items()]
        return sum(found) if found else None


def scrape(url: str) -> Scrape:
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}metrics", timeout=10).text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return Scrape(time.monotonic(), samples)


def wait_until(url: str, holds: Callable[[Scrape], bool]) -> Scrape:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = scrape(url)
        if holds(found):
            return found
        time.sleep(0.2)
    raise AssertionError(
        found.samples.get("kwhere_energy_source_up"), found.samples.get("kwhere_node_meter_joules_total")
    )


def platform_joules(found: Scrape) -> float:
    return found.value("kwhere_node_meter_joules_total", source="ipmi_dcmi", domain="platform") or 0.0


def check_agent(agent: RoleProcess, bmc: DcmiBmc, watts: float) -> None:
    """The node's total rises at the BMC's watts, `other` gets what the components leave, an inactive BMC is said."""
    url = agent.url()
    first = wait_until(url, lambda found: platform_joules(found) > 0)
    last = wait_until(url, lambda found: platform_joules(found) > platform_joules(first) + 3 * watts)
    # an answer may be counted up to a refresh and a step after it came
    most = watts * (last.at - first.at + REFRESH_SECONDS + 2)
    assert 3 * watts < platform_joules(last) - platform_joules(first) <= most
    assert last.value("kwhere_energy_source_up", source="ipmi_dcmi") == 1
    assert last.value("kwhere_node_platform_joules_total", source="ipmi_dcmi") == pytest.approx(
        platform_joules(last), abs=watts * (REFRESH_SECONDS + 2)
    )
    booked = wait_until(url, lambda found: (found.value("kwhere_node_energy_joules_total", component="other") or 0) > 0)
    other = booked.value("kwhere_node_energy_joules_total", component="other")
    node = booked.value("kwhere_node_energy_joules_total")
    assert other is not None
    assert node is not None
    assert 0 < other < platform_joules(booked)
    assert node <= platform_joules(booked) + watts * (REFRESH_SECONDS + 2)
    assert booked.value("kwhere_attribution_residual_microjoules") == 0
    bmc.says(345, state=0)
    wait_until(url, lambda found: found.value("kwhere_energy_source_up", source="ipmi_dcmi", reason="inactive") == 0)


@pytest.mark.slow
@pytest.mark.parametrize("way", PROGRAMS)
def test_an_agent_books_other_from_the_bmc_on_the_network(bmc: DcmiBmc, tmp_path: Path, way: str) -> None:
    arguments = bmc.ipmitool() if way == "ipmitool" else bmc.freeipmi()
    settings = {"way": way, "arguments": arguments, "refresh_seconds": REFRESH_SECONDS}
    agent = RoleProcess("agent", tmp_path, AGENT % json.dumps(settings))
    try:
        check_agent(agent, bmc, 345)
    finally:
        agent.end()


@pytest.fixture
def driver(tmp_path: Path, bmc: DcmiBmc, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that processes started from now on take for /dev/ipmi0."""
    library, device = tmp_path / "ipmi_driver.so", tmp_path / "ipmi0"
    compiler = shutil.which("cc")
    assert compiler is not None
    source = Path(__file__).parents[1] / "ipmi_driver.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    device.touch()
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("DCMI_TEST_BMC", str(bmc.state_file))
    return device


@pytest.mark.slow
@pytest.mark.service("cc")
def test_an_agent_books_other_from_the_kernels_device(bmc: DcmiBmc, tmp_path: Path, driver: Path) -> None:
    settings = {"way": "native", "device": str(driver), "refresh_seconds": REFRESH_SECONDS}
    agent = RoleProcess("agent", tmp_path, AGENT % json.dumps(settings))
    try:
        check_agent(agent, bmc, 345)
    finally:
        agent.end()
