"""The Redfish proxy: a fixed list, a few resources, known callers; and what someone hostile tries."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import redfish_bmc
from tests.redfish_bmc import PASSWORD, Bmc, Handler
from tests.unit.agent.certificates import Authority

from kwhere.agent.redfish_proxy import ProxyFace, parse_target
from kwhere.agent.redfish_proxy_settings import RedfishProxySettings
from kwhere.agent.redfish_targets import RedfishTarget, close_targets
from kwhere.apps.redfish_proxy import build_face, build_targets
from kwhere.core.errors import ConfigError, Unavailable
from kwhere.devices.redfish_chassis import PowerChoice, RedfishBmc
from kwhere.devices.redfish_client import RedfishClient
from kwhere.transport.device_settings import DeviceClientSettings

TOKEN = "t0ken-of-the-agents-0123456789"
POWER = "/redfish/v1/Chassis/1/Power"
WATT = 1_000_000


class Proxy:
    """A running proxy before one or two BMCs."""

    def __init__(self, directory: Path, bmcs: dict[str, str], **more: Any) -> None:
        (directory / "bmc-password").write_text(PASSWORD)
        self.token_file = directory / "token"
        self.token_file.touch(0o600)
        self.token_file.write_text(TOKEN)
        tree = {
            "listen_addresses": ["127.0.0.1:0"],
            "token_file": self.token_file,
            "targets": {node: {"url": url} for node, url in bmcs.items()},
            "client": {"username": redfish_bmc.USER, "password_file": directory / "bmc-password"},
            **more,
        }
        self.settings = RedfishProxySettings.model_validate({key: value for key, value in tree.items() if value})
        self.targets: dict[str, RedfishTarget] = build_targets(self.settings)
        self.face: ProxyFace = build_face(self.settings, self.targets)
        self.face.start()
        self._client = httpx.Client(trust_env=False, timeout=30)

    @property
    def url(self) -> str:
        return self.face.urls[0].rstrip("/")

    def get(self, path: str, *, method: str = "GET", token: str | None = TOKEN, **headers: str) -> httpx.Response:
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return self._client.request(method, self.url + path, headers=headers)

    def raw(self, request: bytes) -> int:
        """Return the status of a request sent byte by byte; 0 where the connection is ended without one."""
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(request)
            answer = connection.makefile("rb").readline().split()
        return int(answer[1]) if answer else 0

    def close(self) -> None:
        self._client.close()
        self.face.stop()
        close_targets(list(self.targets.values()))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bmc, Proxy]]:
    with Bmc(redfish_bmc.simple(312)) as bmc:
        bmc.tree["/redfish/v1/Systems/1"] = {"SerialNumber": "secret"}  # type: ignore[index]
        proxy = Proxy(tmp_path_factory.mktemp("proxy"), {"n1": bmc.url, "n2": "http://127.0.0.1:1"})
        yield bmc, proxy
        proxy.close()


@pytest.fixture
def bmc(running: tuple[Bmc, Proxy]) -> Bmc:
    made = running[0]
    made.fault, made.password, made.logins = None, PASSWORD, 0
    made.asked.clear()
    return made


@pytest.fixture
def proxy(running: tuple[Bmc, Proxy], bmc: Bmc) -> Proxy:
    """The running proxy, as if it had just started."""
    made = running[1]
    for target in made.targets.values():
        target._kept.clear()
        target._paused, target._failures = None, 0
        target.close()
        target._client = None
    bmc.asked.clear()
    return made


def test_the_meter_reads_its_node_through_the_proxy(proxy: Proxy, bmc: Bmc) -> None:
    settings = DeviceClientSettings(token_file=proxy.token_file)
    reader = RedfishBmc(RedfishClient(f"{proxy.url}/n1", settings), PowerChoice())

    figures = reader.read(20)
    reader.close()

    assert figures["1"].power_uw == 312 * WATT
    assert bmc.logins == 1


def test_the_reason_of_a_bmc_that_fails_comes_through(proxy: Proxy) -> None:
    reader = RedfishBmc(
        RedfishClient(f"{proxy.url}/n2", DeviceClientSettings(token_file=proxy.token_file)), PowerChoice()
    )
    with pytest.raises(Unavailable) as caught:
        reader.read(20)
    reader.close()
    assert caught.value.reason == "refused"
    assert (caught.value.retry_after_seconds or 0) >= 1


def test_one_question_answers_however_many_callers(proxy: Proxy, bmc: Bmc) -> None:
    def slow(handler: Handler) -> bool:
        time.sleep(0.2)
        return False

    bmc.fault = slow
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: proxy.get(f"/n1{POWER}"), range(16)))

    assert {answer.status_code for answer in answers} == {200}
    assert bmc.paths() == [POWER]


def test_nothing_of_the_caller_travels_on_and_nothing_but_json_comes_back(proxy: Proxy, bmc: Bmc) -> None:
    answer = proxy.get(
        f"/n1{POWER}",
        **{
            "x-auth-token": "mine",
            "cookie": "a=b",
            "host": "evil.example",
            "x-forwarded-host": "evil.example",
            "x-forwarded-for": "1.2.3.4",
            "forwarded": "host=evil.example",
            "x-original-url": "/redfish/v1/Systems/1",
            "x-rewrite-url": "/redfish/v1/Systems/1",
            "x-target": "http://evil.example",
            "target": "evil.example",
            "accept": "text/html",
            "range": "bytes=0-1",
        },
    )

    assert answer.status_code == 200
    assert answer.json()["PowerControl"][0]["PowerConsumedWatts"] == 312
    assert {name.lower() for name in answer.headers} == {
        "cache-control",
        "content-length",
        "content-security-policy",
        "content-type",
        "date",
        "referrer-policy",
        "x-clock-utc-ns",
        "x-content-type-options",
    }
    sent = bmc.asked[-1].headers
    assert {name.lower() for name in sent} == {
        "host", "accept", "accept-encoding", "connection", "user-agent", "odata-version", "x-auth-token",
    }  # fmt: skip
    assert sent["Host"] == bmc.url.removeprefix("http://")
    assert TOKEN not in json.dumps(dict(sent))
    assert "mine" not in sent.values()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/n3/redfish/v1/Chassis", 404),
        ("/N1/redfish/v1/Chassis", 404),
        ("/127.0.0.1/redfish/v1/Chassis", 404),
        ("/evil.example/redfish/v1/Chassis", 404),
        ("/n1/redfish/v1/Systems/1", 403),
        ("/n1/redfish/v1/Systems", 403),
        ("/n1/redfish/v1/SessionService/Sessions", 403),
        ("/n1/redfish/v1/AccountService/Accounts", 403),
        ("/n1/redfish/v1/Managers/1", 403),
        ("/n1/redfish/v1/Chassis/1/Power/x", 403),
        ("/n1/redfish/v1/Chassis/1/Thermal", 403),
        ("/n1/redfish/v1/Chassis/1/LogServices", 403),
        ("/n1/redfish/v1/chassis/1/power", 403),
        ("/n1/redfish/v1/", 403),
        ("/n1/redfish/v1", 400),
        ("/n1", 400),
        ("/", 400),
        ("/redfish/v1/Chassis", 400),
        ("//n1/redfish/v1/Chassis", 400),
        ("/n1//redfish/v1/Chassis", 400),
        ("/n1/redfish/v1//Chassis", 400),
        ("/n1/redfish/v1/Chassis/../Systems/1", 400),
        ("/n1/redfish/v1/Chassis/./1", 400),
        ("/n1/redfish/v1/Chassis/1/..", 400),
        ("/n1/redfish/v1/Chassis/..;/Systems/1", 400),
        ("/n1/redfish/v1/Chassis/%2e%2e/Systems/1", 400),
        ("/n1/redfish/v1/Chassis/1%2f..%2f..%2fSystems%2f1", 400),
        ("/n1/redfish/v1/Chassis/1%2FPower", 400),
        ("/n1/redfish/v1/Chassis/%252e%252e/Systems/1", 400),
        ("/n1/redfish/v1/Chassis%00", 400),
        ("/n1/redfish/v1/Chassis%0d%0aX:y", 400),
        ("/n1/redfish/v1/Chassis%3fx", 400),
        ("/n1/redfish/v1/Chassis\\..\\Systems", 400),
        ("/n1/redfish/v1/Chassis;x=1", 400),
        ("/n1/redfish/v1/Chassis?target=evil.example", 400),
        ("/n1/redfish/v1/Chassis?$expand=*", 400),
        ("/n1@evil.example/redfish/v1/Chassis", 400),
        ("/n1:8443/redfish/v1/Chassis", 400),
        ("/..%2fn1/redfish/v1/Chassis", 400),
        ("http://evil.example/redfish/v1/Chassis", 400),
        ("http://127.0.0.1/n1/redfish/v1/Chassis", 400),
        ("n1/redfish/v1/Chassis", 400),
        ("*", 400),
        ("/n1/redfish/v1/Chassis/" + "a" * 2000, 400),
        ("/n1/redfish/v1/Chassis/\xe9", 400),
        ("/n1/redfish/v1/Chassis/\uff0e\uff0e/Systems/1", 400),
    ],
)
def test_no_path_leads_anywhere_else(proxy: Proxy, bmc: Bmc, path: str, status: int) -> None:
    request = (
        b"GET " + path.encode() + b" HTTP/1.1\r\nhost: n1\r\nauthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
    )

    assert proxy.raw(request) == status
    assert bmc.asked == []


@given(path=st.text(alphabet="n12./%\\;?#@:aZ-_~ é", max_size=40))
@example(path="/redfish/v1/Chassis/../../x")
@example(path="@evil/redfish/v1/Chassis")
def test_any_path_is_refused_or_plain(path: str) -> None:
    for raw in (b"/n1" + path.encode(), path.encode(), b"/n1/redfish/v1/" + path.encode()):
        found = parse_target(raw, "")
        if found is not None:
            node, resource = found
            assert f"/{node}{resource}".encode() == raw
            assert "." not in (node[0], node.strip("."))
            assert resource.startswith("/redfish/v1/")
            assert not {".", "..", ""} & set(resource.strip("/").split("/"))
            assert "%" not in resource


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_get_alone_is_answered(proxy: Proxy, bmc: Bmc, method: str) -> None:
    request = (
        f"{method} /n1{POWER} HTTP/1.1\r\nhost: n1\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 2\r\n\r\n{{}}"
    )

    assert proxy.raw(request.encode()) in (400, 405)
    assert bmc.asked == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /n1/redfish/v1/Chassis HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0",
        b"GET /n1/redfish/v1/Chassis\r\n\r\n",
        b"GET /n1/redfish/v1/Chassis HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /n1/redfish/v1/Chassis HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /n1/redfish/v1/Chassis HTTP/1.1\r\nhost: a\r\nauthorization: Basic \xff\xfe\r\n\r\n",
    ],
    ids=["smuggling", "http09", "version", "tls", "huge", "bytes"],
)
def test_what_is_no_plain_request_reaches_no_bmc(proxy: Proxy, bmc: Bmc, request_bytes: bytes) -> None:
    assert proxy.raw(request_bytes + b"\r\n\r\n") in (0, 400, 401, 431)
    assert bmc.asked == []


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"bearer,{TOKEN}", TOKEN],
)
def test_strangers_learn_nothing(proxy: Proxy, bmc: Bmc, authorization: str) -> None:
    paths = [f"/n1{POWER}", f"/n3{POWER}", "/n1/redfish/v1/Systems", "/"]
    answers = [proxy.get(path, token=None, authorization=authorization) for path in paths]

    assert {(answer.status_code, answer.content) for answer in answers} == {(401, answers[0].content)}
    assert bmc.asked == []


def test_whether_it_is_alive_anyone_may_ask(proxy: Proxy) -> None:
    assert proxy.get("/healthz", token=None).json() == {"status": "ok"}


def test_a_redirect_of_the_bmc_is_not_followed(proxy: Proxy, bmc: Bmc) -> None:
    with Bmc(redfish_bmc.simple(666)) as evil:
        for place in (f"{evil.url}{POWER}", "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1/../../Systems/1"):

            def redirect(handler: Handler, place: str = place) -> bool:
                if handler.path == POWER:
                    handler.say(307, {}, Location=place)
                return handler.path == POWER

            bmc.fault = redirect
            answer = proxy.get(f"/n1{POWER}")
            assert answer.status_code == 502
            assert "secret" not in answer.text
            proxy.targets["n1"]._kept.clear()
        assert evil.asked == []
    assert "/redfish/v1/Systems/1" not in bmc.paths()


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (b"<html>login</html>", {}),
        (b'{"PowerControl": [', {}),
        (b"[]", {}),
        (b'{"x": "' + b"y" * 5_000_000 + b'"}', {}),
        (b"{}", {"Content_Encoding": "br"}),
    ],
    ids=["html", "truncated", "list", "huge", "encoding"],
)
def test_what_is_no_redfish_does_not_come_through(proxy: Proxy, bmc: Bmc, body: bytes, more: dict[str, str]) -> None:
    def answer(handler: Handler) -> bool:
        if handler.path == POWER:
            handler.say(200, body, **more)
        return handler.path == POWER

    bmc.fault = answer
    said = proxy.get(f"/n1{POWER}")

    assert said.status_code == 502
    assert said.json()["reason"] == "nonsense"
    assert len(said.content) < 500


def test_an_answer_tells_no_address_of_a_bmc(proxy: Proxy) -> None:
    answer = proxy.get(f"/n2{POWER}")

    assert answer.status_code == 502
    assert answer.json()["reason"] == "refused"
    assert "127.0.0.1" not in answer.text


def test_a_bmc_that_fails_is_left_alone_for_a_while(proxy: Proxy, bmc: Bmc) -> None:
    bmc.password = "changed"
    first = proxy.get(f"/n1{POWER}")
    for number in range(5):
        again = proxy.get(f"/n1/redfish/v1/Chassis/{number}")
        assert (again.status_code, again.json()["reason"]) == (502, "unauthorized")

    assert int(first.headers["retry-after"]) == 300
    assert bmc.logins == 1  # accounts lock


def test_a_resource_that_is_not_there_does_not_stop_the_others(proxy: Proxy) -> None:
    assert proxy.get("/n1/redfish/v1/Chassis/7").status_code == 404
    assert proxy.get(f"/n1{POWER}").status_code == 200


def test_a_bmc_that_hangs_delays_no_other(tmp_path: Path, bmc: Bmc) -> None:
    asked = threading.Event()

    def hang(handler: Handler) -> bool:
        asked.set()
        handler.owner.release.wait(30)
        return False

    with Bmc(redfish_bmc.simple(1), fault=hang) as stuck:
        proxy = Proxy(tmp_path, {"n1": bmc.url, "stuck": stuck.url})
        waiting = threading.Thread(target=proxy.get, args=(f"/stuck{POWER}",))
        waiting.start()
        assert asked.wait(20)

        assert proxy.get(f"/n1{POWER}").status_code == 200
        stuck.release.set()
        waiting.join()
        proxy.close()


def test_answers_kept_are_few_however_many_are_asked(proxy: Proxy) -> None:
    for number in range(80):
        proxy.get(f"/n1/redfish/v1/Chassis/{number}")

    assert len(proxy.targets["n1"]._kept) <= 64


def test_sessions_end_with_the_proxy(tmp_path: Path, bmc: Bmc) -> None:
    proxy = Proxy(tmp_path, {"n1": bmc.url})
    proxy.get(f"/n1{POWER}")
    assert len(bmc.sessions) == 1

    proxy.close()

    assert bmc.sessions == {}


def test_a_client_certificate_stands_for_a_token(tmp_path: Path, bmc: Bmc, authority: Authority) -> None:
    certificate, key = authority.issue("proxy.example")
    config = tmp_path / "web.yaml"
    config.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}, client_ca_file: {authority.ca_file},"
        " client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [n1]}\n"
    )
    proxy = Proxy(tmp_path, {"n1": bmc.url}, token_file=None, config_file=config)
    try:
        found: dict[str, int | str] = {}
        for name in ("n1", "other"):
            shown, secret = authority.issue(name)
            settings = DeviceClientSettings(
                ca_file=authority.ca_file, client_certificate_file=shown, client_key_file=secret
            )
            reader = RedfishBmc(RedfishClient(f"{proxy.url}/n1", settings), PowerChoice())
            try:
                found[name] = reader.read(20)["1"].power_uw or 0
            except Unavailable as error:
                found[name] = error.reason
            reader.close()
    finally:
        proxy.close()
    assert found == {"n1": 312 * WATT, "other": "permission"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"token_file": None}, "answers nobody it does not know"),
        ({"targets": None}, "at least one node"),
        ({"targets": {"n1": {"url": "http://bmc.example"}}}, "over https"),
        ({"listen_addresses": ["0.0.0.0:0"]}, "with TLS"),
    ],
)
def test_what_would_be_open_does_not_start(tmp_path: Path, more: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Proxy(tmp_path, {"n1": "http://127.0.0.1:1"}, **more)


@pytest.mark.parametrize(
    "tree",
    [
        {"targets": {"n1": {"url": "https://{node}"}}},
        {"targets": {"n1": {"url": "https://u:p@bmc"}}},
        {"targets": {"../n1": {"url": "https://bmc"}}},
        {"targets": {"n1/x": {"url": "https://bmc"}}},
        {"targets": {"n1": {"url": "https://bmc", "password": "x"}}},
        {"resources": ["("]},
        {"resources": [".*"]},
    ],
)
def test_a_list_that_is_not_fixed_is_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        RedfishProxySettings.model_validate(tree)
