"""The meter over a BMC: built without asking, asked on its own thread, summed, stamped, ended."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import redfish_bmc
from tests.redfish_bmc import Bmc, client_settings
from tests.sampling_world import SECOND, WATT, HandClock

from kwhere.core.errors import NoData, Unavailable
from kwhere.core.terms import Component, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.background import BackgroundMeter
from kwhere.meters.meter import PLATFORM, MeterContext
from kwhere.meters.redfish import build
from kwhere.meters.redfish_settings import RedfishSettings
from kwhere.meters.settings import MeterSettings


class Site:
    """Settings of one node's BMC, and the meter they make, asked by hand."""

    def __init__(self, directory: Path) -> None:
        self.clock = HandClock()
        self._client = client_settings(directory / "password")

    def meter(self, url: str, **settings: Any) -> BackgroundMeter:
        chosen = RedfishSettings.model_validate({"url": url, "client": self._client, **settings})
        context = MeterContext(HostFS(), {}, None, None, None, dict, settings=MeterSettings(redfish=chosen))
        meter = build(replace(context, clock_ns=self.clock.monotonic_ns, node="node7.example"))
        meter._thread = threading.current_thread()  # the test asks, not a thread of the meter's
        return meter

    def read(self, meter: BackgroundMeter) -> Any:
        meter.ask_once()
        return meter.read(self.clock.monotonic)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_power_of_the_node_has_the_time_of_the_answer(site: Site) -> None:
    with Bmc(redfish_bmc.idrac(312)) as bmc:
        meter = site.meter(bmc.url)
        (reading,) = site.read(meter)
        meter.close()

    assert (reading.domain, reading.power_uw) == (PLATFORM, 312 * WATT)
    assert (reading.time_ns, reading.device_time, reading.zone) == (site.clock.monotonic, True, "System.Embedded.1")
    assert (meter.method, meter.covers, meter.domains) == (Method.INTEGRATED, frozenset(Component), (PLATFORM,))


def test_chassis_that_the_site_names_are_summed_or_none_counts(site: Site) -> None:
    tree = redfish_bmc.two_boards(300)
    with Bmc(tree) as bmc:
        meter = site.meter(bmc.url, chassis=["Host", "GPU_Tray"], includes_gpus=True)
        assert site.read(meter)[0].power_uw == 2300 * WATT
        tree["/redfish/v1/Chassis/GPU_Tray/Power"]["PowerControl"][0]["PowerConsumedWatts"] = None
        with pytest.raises(Unavailable) as caught:
            site.read(meter)
        meter.close()
    assert caught.value.reason == "absent"


def test_gpus_may_be_fed_from_elsewhere(site: Site) -> None:
    meter = site.meter("https://bmc.example", includes_gpus=False)

    assert meter.covers == {Component.CPU, Component.DRAM, Component.OTHER}


def test_an_answer_whose_own_time_stands_still_is_not_fresh_and_then_stuck(site: Site) -> None:
    bmc = Bmc({})
    bmc.tree = redfish_bmc.openbmc(312, lambda: bmc.stamp)
    with bmc:
        meter = site.meter(bmc.url)
        first = site.read(meter)[0].time_ns
        site.clock.advance(5 * SECOND)
        assert site.read(meter)[0].time_ns == first
        bmc.stamp = "2026-11-30T00:00:05Z"
        assert site.read(meter)[0].time_ns == first + 5 * SECOND
        site.clock.advance(301 * SECOND)
        with pytest.raises(Unavailable) as caught:
            site.read(meter)
        meter.close()
    assert caught.value.reason == "stuck"


def test_an_energy_counter_is_a_counter_that_is_new_when_it_moves(site: Site) -> None:
    tree = redfish_bmc.openbmc(312)
    counter = tree["/redfish/v1/Chassis/chassis/EnvironmentMetrics"]["EnergyJoules"]
    with Bmc(tree) as bmc:
        meter = site.meter(bmc.url, resource="energy")
        before = site.read(meter)[0]
        site.clock.advance(5 * SECOND)
        same = site.read(meter)[0]
        counter["Reading"] += 1000
        after = site.read(meter)[0]
        meter.close()

    assert meter.method is Method.COUNTER
    assert (same.counter_uj, same.time_ns) == (before.counter_uj, before.time_ns)
    assert after.counter_uj - before.counter_uj == 1000 * WATT
    assert after.time_ns == before.time_ns + 5 * SECOND


def test_the_session_ends_with_the_meter(site: Site) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        meter = site.meter(bmc.url)
        site.read(meter)
        meter.close()
        assert bmc.sessions == {}
        with pytest.raises(Unavailable):
            site.read(meter)


def test_a_bmc_that_hangs_does_not_keep_the_agent_from_ending(tmp_path: Path) -> None:
    asked = threading.Event()

    def hang(handler: redfish_bmc.Handler) -> bool:
        asked.set()
        handler.owner.release.wait(30)
        return False

    site = Site(tmp_path)
    with Bmc(redfish_bmc.simple(300), fault=hang) as bmc:
        meter = site.meter(bmc.url)
        meter._thread = None
        with pytest.raises(NoData):
            meter.read(site.clock.monotonic)  # starts the thread
        assert asked.wait(20)
        meter.close()  # returns, although the question is under way
        assert not bmc.release.is_set()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (RedfishSettings(), "unconfigured"),
        (RedfishSettings.model_validate({"url": "https://{name}", "node_name": {"pattern": "gpu.*"}}), "unconfigured"),
        (
            RedfishSettings.model_validate(
                {"url": "https://{node}", "client": {"username": "u", "password_file": "/nonexistent/p"}}
            ),
            "credentials",
        ),
        (
            RedfishSettings.model_validate(
                {"url": "https://{node}", "client": {"username": "u", "password_environment": "KWHERE_NO_SUCH"}}
            ),
            "credentials",
        ),
        (
            RedfishSettings.model_validate({"url": "https://{node}", "client": {"ca_file": "/nonexistent"}}),
            "credentials",
        ),
    ],
    ids=["unset", "rule", "file", "variable", "authority"],
)
def test_what_cannot_be_asked_says_why(settings: RedfishSettings, reason: str) -> None:
    context = MeterContext(HostFS(), {}, None, None, None, dict, settings=MeterSettings(redfish=settings), node="n7")
    with pytest.raises(Unavailable) as caught:
        build(context)
    assert caught.value.reason == reason


def test_a_password_never_travels_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="https"):
        Site(tmp_path).meter("http://bmc.example")


def test_a_recorded_host_asks_nobody(tmp_path: Path) -> None:
    settings = MeterSettings(redfish=RedfishSettings(url="https://{node}"))
    recorded = HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup")
    with pytest.raises(Unavailable) as caught:
        build(MeterContext(recorded, {}, None, None, None, dict, settings=settings, node="n7"))
    assert caught.value.reason == "recorded"


@pytest.mark.parametrize(
    "settings",
    [
        {"chassis": [".."]},
        {"chassis": ["a/b"]},
        {"chassis": ["1", "1"]},
        {"sensor": "x"},
        {"resource": "sensor"},
        {"client": {"username": "u"}},
        {"client": {"password_file": "p"}},
        {"client": {"username": "u", "password_file": "p", "password_environment": "P"}},
        {"client": {"username": "u:v", "password_file": "p"}},
        {"client": {"username": "u", "password_file": "p", "token_file": "t"}},
        {"client": {"tls_sha256": "abc"}},
        {"client": {"password": "calvin"}},
    ],
)
def test_settings_that_contradict_themselves_stop_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        RedfishSettings.model_validate({"url": "https://{node}", **settings})
