"""Power and energy from HTTP services that answer in JSON: PDUs, Kwollect, Prometheus."""

import base64
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling_world import SECOND, WATT, HandClock

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component, Method
from kwhere.devices.json_answer import parse_json
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.background import BackgroundMeter
from kwhere.meters.http_json import build, take_figure
from kwhere.meters.http_json_settings import HttpJsonSettings, JsonReading
from kwhere.meters.meter import PLATFORM, Domain, MeterContext
from kwhere.meters.settings import MeterSettings

KWOLLECT = b"""[
 {"timestamp":"2026-11-30T01:00:01+01:00","device_id":"taurus-1","metric_id":"wattmetre_power_watt","value":131.5,"labels":{}},
 {"timestamp":"2026-11-30T00:00:03+00:00","device_id":"taurus-1","metric_id":"wattmetre_power_watt","value":140.25,"labels":{}},
 {"timestamp":"2026-11-30T01:00:02+01:00","device_id":"taurus-1","metric_id":"wattmetre_power_watt","value":133,"labels":{}},
 {"timestamp":"2026-11-30T01:00:09+01:00","device_id":"taurus-1","metric_id":"bmc_cpu_temp_celsius","value":45,"labels":{}}
]"""
PROMETHEUS = b"""{"status":"success","data":{"resultType":"vector","result":
 [{"metric":{"outlet":"7"},"value":[1796000000.123,"212.5"]}]}}"""


@dataclass
class Service:
    """An HTTP service; `bodies` maps paths to answers."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Path and Authorization of each request."""
    url: str = ""


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers.get("Authorization", "")))
            body = made.bodies.get(self.path, b"{}")
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


class Asked:
    """A meter asked by hand on a clock moved by hand."""

    def __init__(self, *readings: dict[str, Any], **settings: Any) -> None:
        chosen = HttpJsonSettings.model_validate({"readings": readings, **settings})
        self.clock = HandClock()
        context = MeterContext(HostFS(), {}, None, None, None, dict, settings=MeterSettings(http_json=chosen))
        self.meter: BackgroundMeter = build(replace(context, clock_ns=self.clock.monotonic_ns, node="taurus-1.lyon"))
        self.meter._thread = threading.current_thread()

    def read(self) -> dict[Domain, Any]:
        self.meter.ask_once()
        return {reading.domain: reading for reading in self.meter.read(self.clock.monotonic)}

    def reason(self) -> str:
        with pytest.raises(Unavailable) as caught:
            self.read()
        return caught.value.reason


def test_the_newest_value_of_a_kwollect_answer_counts(service: Service) -> None:
    service.bodies["/metrics?nodes=taurus-1&metrics=wattmetre_power_watt"] = KWOLLECT
    asked = Asked(
        {
            "url": service.url + "/metrics?nodes={short}&metrics=wattmetre_power_watt",
            "path": "[metric_id=wattmetre_power_watt].value",
            "time_path": "[metric_id=wattmetre_power_watt].timestamp",
            "unit": "W",
        }
    )

    first = asked.read()[PLATFORM]
    asked.clock.advance(5 * SECOND)
    again = asked.read()[PLATFORM]

    assert first.power_uw == 140_250_000
    assert again.time_ns == first.time_ns  # told again, not measured again
    assert (asked.meter.source, asked.meter.method, asked.meter.covers) == (
        "http_json",
        Method.INTEGRATED,
        frozenset(Component),
    )


def test_an_old_answer_told_for_ever_is_stuck(service: Service) -> None:
    service.bodies["/"] = b'{"w": 100, "at": 1796000000}'
    asked = Asked({"url": service.url, "path": "w", "time_path": "at", "unit": "W"})
    asked.read()
    asked.clock.advance(301 * SECOND)

    assert asked.reason() == "stuck"


def test_a_prometheus_api_is_a_service_too(service: Service) -> None:
    service.bodies["/api/v1/query?query=outlet_watts"] = PROMETHEUS
    asked = Asked(
        {
            "url": service.url + "/api/v1/query?query=outlet_watts",
            "path": "data.result[metric.outlet=7].value[1]",
            "time_path": "data.result[metric.outlet=7].value[0]",
            "unit": "W",
        }
    )

    assert asked.read()[PLATFORM].power_uw == 212_500_000


def test_two_outlets_are_summed_and_both_must_be_there(service: Service) -> None:
    service.bodies["/"] = b'{"outlets": [{"id": 3, "w": 150.5}, {"id": 4, "w": 0}, {"id": 33, "w": 9}]}'
    outlet = {"url": service.url, "unit": "W"}
    asked = Asked({**outlet, "path": "outlets[id=3].w"}, {**outlet, "path": "outlets[id=4].w"})

    assert asked.read()[PLATFORM].power_uw == 150_500_000  # a power supply in reserve draws nothing
    assert len(service.asked) == 1  # one address, one question
    for gone in (b'{"outlets": [{"id": 3, "w": 150.5}]}', b'{"outlets": [{"id": 3, "w": 150}, {"id": 4, "w": null}]}'):
        service.bodies["/"] = gone
        assert asked.reason() == "absent"


def test_a_node_that_draws_nothing_at_all_is_absent(service: Service) -> None:
    service.bodies["/"] = b'{"w": 0}'

    assert Asked({"url": service.url, "path": "w", "unit": "W"}).reason() == "absent"


def test_domains_are_kept_apart(service: Service) -> None:
    service.bodies["/"] = b'{"cpu": [50, 60], "mem": 9}'
    base = {"url": service.url, "unit": "W"}
    asked = Asked(
        {**base, "path": "cpu[0]", "domain": "cpu", "index": "0"},
        {**base, "path": "cpu[1]", "domain": "cpu", "index": "1"},
        {**base, "path": "mem", "domain": "dram", "index": "0"},
    )

    powers = {str(domain): reading.power_uw // WATT for domain, reading in asked.read().items()}
    assert powers == {"cpu[0]": 50, "cpu[1]": 60, "dram[0]": 9}
    assert asked.meter.covers == frozenset()


@pytest.mark.parametrize(
    ("unit", "value", "micro"),
    [
        ("mW", 1500, 1_500_000),
        ("W", 1.5, 1_500_000),
        ("kW", 0.0015, 1_500_000),
        ("J", 1.5, 1_500_000),
        ("kJ", 0.0015, 1_500_000),
        ("Wh", 2, 7_200_000_000),
        ("kWh", 0.002, 7_200_000_000),
    ],
)
def test_units(unit: str, value: float, micro: int) -> None:
    reading = JsonReading.model_validate({"url": "http://x", "path": "v", "unit": unit})

    assert take_figure(reading, {"v": value}, "p") == (micro, "")
    assert take_figure(reading, {"v": str(value)}, "p") == (micro, "")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="case_energy_m5-null"),
        pytest.param("", id="case_energy_m5-empty"),
        pytest.param("N/A", id="case_energy_m2-words"),
        pytest.param("1,5", id="case_energy_m2-locale"),
        pytest.param("١٢", id="case_energy_m2-digits"),
        pytest.param(True, id="case_energy_m5-true"),
        pytest.param(-1, id="case_energy_m5-negative"),
        pytest.param(float("nan"), id="case_energy_m5-nan"),
        pytest.param("nan", id="case_energy_m5-nan-text"),
        pytest.param(4294967295, id="case_energy_m6"),
        pytest.param([1], id="case_energy_m5-list"),
    ],
)
def test_what_is_no_figure_is_absent(value: Any) -> None:
    reading = JsonReading.model_validate({"url": "http://x", "path": "v", "unit": "W"})
    with pytest.raises(Unavailable) as caught:
        take_figure(reading, {"v": value}, "p")
    assert caught.value.reason == "absent"


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([{"k": 1, "v": 1}, {"k": 1, "v": 2}], "expected a time for each figure"),
        ([{"k": 1, "v": 1, "t": 5}, {"k": 1, "v": 2}], "expected a time for each figure"),
        ([{"k": 1, "v": 1, "t": "yesterday"}], "expected a time"),
        ([{"k": 1, "v": 1, "t": None}], "expected a time"),
    ],
)
def test_a_time_that_lacks_is_nonsense(document: Any, error: str) -> None:
    reading = JsonReading.model_validate({"url": "http://x", "path": "[k=1].v", "time_path": "[k=1].t", "unit": "W"})
    with pytest.raises(SourceError, match=error):
        take_figure(reading, document, "p")


def test_several_figures_without_a_time_are_nonsense() -> None:
    reading = JsonReading.model_validate({"url": "http://x", "path": "[k=1].v", "unit": "W"})
    with pytest.raises(SourceError, match="expected one figure"):
        take_figure(reading, [{"k": 1, "v": 1}, {"k": 1, "v": 2}], "p")


@given(body=st.binary(max_size=60) | st.sampled_from([KWOLLECT, PROMETHEUS]).map(lambda body: body[:-3]))
def test_any_answer_is_a_figure_or_a_drawn_error(body: bytes) -> None:
    reading = JsonReading.model_validate({"url": "http://x", "path": "[0].v", "time_path": "[0].t", "unit": "kWh"})
    figure = 0
    with contextlib.suppress(SourceError, Unavailable):
        figure, _ = take_figure(reading, parse_json(body, "p"), "p")
    assert 0 <= figure < 1 << 62


@given(
    value=st.recursive(st.none() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2))
)
def test_any_value_and_time_is_a_figure_or_a_drawn_error(value: Any) -> None:
    reading = JsonReading.model_validate({"url": "http://x", "path": "v", "time_path": "t", "unit": "kWh"})
    figure = 0
    for document in ({"v": value, "t": 1}, {"v": 1, "t": value}):
        try:
            figure, _ = take_figure(reading, document, "p")
        except (SourceError, Unavailable):
            continue
        assert 0 <= figure < 1 << 62


def test_counters_are_new_when_they_move_and_may_start_again(service: Service) -> None:
    service.bodies["/"] = b'{"a": 10.5, "b": 7}'
    base = {"url": service.url, "unit": "kWh"}
    asked = Asked({**base, "path": "a"}, {**base, "path": "b"})
    asked.meter.ask_once()
    first = asked.meter.read(asked.clock.monotonic)
    asked.clock.advance(60 * SECOND)
    service.bodies["/"] = b'{"a": 10.6, "b": 7}'
    asked.meter.ask_once()
    second = asked.meter.read(asked.clock.monotonic)

    assert asked.meter.method is Method.COUNTER
    assert [reading.zone for reading in first] == ["0:a", "1:b"]
    assert [reading.counter_uj for reading in first] == [37_800_000_000_000, 25_200_000_000_000]
    assert [reading.counter_uj for reading in second] == [38_160_000_000_000, 25_200_000_000_000]
    assert [after.time_ns - before.time_ns for before, after in zip(first, second, strict=True)] == [60 * SECOND, 0]


def test_credentials_come_from_files_and_go_to_one_host(service: Service, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("p:w d\n")
    service.bodies["/"] = b'{"w": 5}'
    reading = {"url": service.url, "path": "w", "unit": "W"}
    Asked(reading, client={"username": "u", "password_file": secret}).read()
    secret.write_text("t0ken\n")
    Asked(reading, client={"token_file": secret}).read()

    basic = "Basic " + base64.b64encode(b"u:p:w d").decode()
    assert service.asked == [("/", basic), ("/", "Bearer t0ken")]
    with pytest.raises(ValueError, match="one host"):
        Asked(reading, {**reading, "url": "http://127.0.0.2:1"}, client={"token_file": secret})
    with pytest.raises(Unavailable, match="https"):
        Asked({**reading, "url": "http://pdu.example"}, client={"token_file": secret})


def test_a_refused_password_is_not_tried_again_soon_unless_it_was_changed(service: Service, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old\n")
    service.status = 401
    asked = Asked({"url": service.url, "path": "w", "unit": "W"}, client={"username": "u", "password_file": secret})

    assert asked.meter.ask_once() == 300
    secret.write_text("new\n")
    assert asked.meter.ask_once() == 1
    service.status, service.bodies["/"] = 200, b'{"w": 5}'
    asked.read()
    assert service.asked[-1][1] == "Basic " + base64.b64encode(b"u:new").decode()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, b"", "unauthorized"),
        (403, b"", "permission"),
        (404, b"", "not_found"),
        (503, b"", "busy"),
        (500, b"<html>", "server_error"),
        (418, b"", "unsupported"),
        (200, b"<html>login</html>", "unsupported"),
        (200, b'{"w": 1', "unsupported"),
        (200, b"[]", "absent"),
    ],
)
def test_failures_have_reasons(service: Service, status: int, body: bytes, reason: str) -> None:
    service.status, service.bodies["/"] = status, body

    assert Asked({"url": service.url, "path": "w", "unit": "W"}).reason() == reason


@pytest.mark.parametrize(
    "reading",
    [
        {"unit": "BTU"},
        {"path": "a..b"},
        {"domain": "cpu"},
        {"index": "0"},
        {"domain": "other", "index": "0"},
        {"url": "http://user:pw@x"},
        {"url": "http://x/?token=1"},
        {"password": "x"},
    ],
)
def test_a_wrong_reading_stops_the_start(reading: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        JsonReading.model_validate({"url": "http://x", "path": "w", "unit": "W", **reading})


def test_powers_and_counters_are_not_mixed() -> None:
    reading = {"url": "http://x", "path": "w"}
    with pytest.raises(ValueError, match="found both"):
        HttpJsonSettings.model_validate({"readings": [{**reading, "unit": "W"}, {**reading, "unit": "J"}]})


def test_without_readings_it_is_unconfigured() -> None:
    with pytest.raises(Unavailable) as caught:
        build(MeterContext(HostFS(), {}, None, None, None, dict))
    assert caught.value.reason == "unconfigured"
