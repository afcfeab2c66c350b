"""The power of a node over Redfish, from real HTTP servers that answer like BMCs."""

import json
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import redfish_bmc
from tests.redfish_bmc import PASSWORD, USER, Bmc, Handler, client_settings

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.devices.redfish_chassis import PowerChoice, RedfishBmc
from kwhere.devices.redfish_client import RedfishClient
from kwhere.devices.redfish_power import PowerFigure
from kwhere.devices.redfish_words import PowerResource, RedfishAuth

WATT = 1_000_000
POWER_PATH = "/redfish/v1/Chassis/1/Power"


class Asker:
    """Builds readers of one BMC and closes them with the test."""

    def __init__(self, directory: Path) -> None:
        self.secret_file = directory / "password"
        self._made: list[RedfishBmc] = []

    def __call__(
        self, bmc: Bmc, choice: PowerChoice | None = None, auth: RedfishAuth = RedfishAuth.SESSION, **more: Any
    ) -> RedfishBmc:
        client = RedfishClient(bmc.url, client_settings(self.secret_file, **more), auth)
        made = RedfishBmc(client, choice or PowerChoice())
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    made = Asker(tmp_path)
    yield made
    made.close()


def refused(reader: RedfishBmc, seconds: float = 10) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        reader.read(seconds)
    assert PASSWORD not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("tree", "chassis", "slash"),
    [
        (redfish_bmc.simple(312), "1", False),
        (redfish_bmc.idrac(312), "System.Embedded.1", False),
        (redfish_bmc.ilo(312), "1", True),
        (redfish_bmc.xcc(312), "1", False),
        (redfish_bmc.supermicro(312), "1", False),
        (redfish_bmc.openbmc(312), "chassis", False),
        (redfish_bmc.hgx(312), "Chassis_0", False),
        (redfish_bmc.irmc(312), "0", False),
        (redfish_bmc.paged(312), "Self", False),
    ],
    ids=["simple", "idrac", "ilo", "xcc", "supermicro", "openbmc", "hgx", "irmc", "paged"],
)
def test_the_node_is_made_out_on_every_vendors_bmc(
    asker: Asker, tree: dict[str, Any], chassis: str, slash: bool
) -> None:
    with Bmc(tree, slash=slash) as bmc:
        assert asker(bmc).read(10) == {chassis: PowerFigure(power_uw=312 * WATT)}


def test_after_the_first_question_one_request_is_enough(asker: Asker) -> None:
    with Bmc(redfish_bmc.ilo(312), slash=True) as bmc:
        reader = asker(bmc)
        reader.read(10)
        bmc.asked.clear()

        reader.read(10)

    assert bmc.paths() == ["/redfish/v1/Chassis/1/Power/"]
    assert bmc.logins == 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(0, id="case_energy_m5-zero"),
        pytest.param(None, id="case_energy_m5-null"),
        pytest.param("312", id="case_energy_m5-text"),
        pytest.param("N/A", id="case_energy_m5-words"),
        pytest.param(float("nan"), id="case_energy_m5-nan"),
        pytest.param(float("inf"), id="case_energy_m5-infinite"),
        pytest.param(-5, id="case_energy_m5-negative"),
        pytest.param(True, id="case_energy_m5-true"),
        pytest.param([312], id="case_energy_m5-list"),
        pytest.param({"Reading": 312}, id="case_energy_m5-object"),
        pytest.param(4294967295, id="case_energy_m6-ffffffff"),
        pytest.param(4294967295000, id="case_energy_m6-microwatts"),
        pytest.param(65535, id="case_energy_m6-ffff"),
        pytest.param(10**400, id="case_energy_m6-huge"),
    ],
)
@pytest.mark.parametrize(
    "shape",
    [redfish_bmc.simple, redfish_bmc.openbmc, redfish_bmc.irmc],
    ids=["power", "environment", "fujitsu"],
)
def test_what_is_no_power_is_absent(asker: Asker, shape: Callable[[Any], dict[str, Any]], value: object) -> None:
    with Bmc(shape(value)) as bmc:
        assert refused(asker(bmc)).reason == "absent"


def test_case_energy_m5_a_member_that_lacks_is_absent(asker: Asker) -> None:
    tree = redfish_bmc.simple(312)
    del tree[POWER_PATH]["PowerControl"][0]["PowerConsumedWatts"]
    with Bmc(tree) as bmc:
        assert refused(asker(bmc)).reason == "absent"


def test_case_energy_m5_a_node_that_is_off_is_absent_and_comes_back(asker: Asker) -> None:
    bmc = Bmc({})
    bmc.tree = redfish_bmc.simple(lambda: bmc.watts)
    with bmc:
        reader = asker(bmc)
        reader.read(10)
        bmc.watts = 0
        assert refused(reader).reason == "absent"
        bmc.watts = 250

        assert reader.read(10)["1"].power_uw == 250 * WATT


def test_sub_systems_are_never_the_node(asker: Asker) -> None:
    tree = redfish_bmc.xcc(None)
    with Bmc(tree) as bmc:
        assert refused(asker(bmc)).reason == "absent"
    tree["/redfish/v1/Chassis/1/Power"]["PowerControl"].pop(2)
    with Bmc(tree) as bmc:
        assert refused(asker(bmc)).reason == "unsupported"


def test_controls_that_all_may_be_the_node_are_not_summed(asker: Asker) -> None:
    both = [redfish_bmc.control(300, "Node 1"), redfish_bmc.control(310, "Node 2", MemberId="1")]
    tree = redfish_bmc.tree_of(redfish_bmc.chassis("1", Power="Power"), **{"1__Power": {"PowerControl": both}})
    with Bmc(tree) as bmc:
        failure = refused(asker(bmc))
        assert failure.reason == "ambiguous"
        assert "Node 1, Node 2" in str(failure)
        assert asker(bmc, PowerChoice(power_control="Node 2")).read(10)["1"].power_uw == 310 * WATT
        assert asker(bmc, PowerChoice(power_control="1")).read(10)["1"].power_uw == 310 * WATT
        assert refused(asker(bmc, PowerChoice(power_control="Node 3"))).reason == "ambiguous"


def test_several_chassis_are_chosen_or_summed_by_the_site(asker: Asker) -> None:
    with Bmc(redfish_bmc.two_boards(300)) as bmc:
        failure = refused(asker(bmc))
        assert failure.reason == "ambiguous"
        assert "Host, GPU_Tray" in str(failure)
        assert asker(bmc, PowerChoice(("Host",))).read(10).keys() == {"Host"}
        both = asker(bmc, PowerChoice(("Host", "GPU_Tray"))).read(10)
    assert {name: figure.power_uw for name, figure in both.items()} == {"Host": 300 * WATT, "GPU_Tray": 2000 * WATT}


def test_a_chassis_that_a_system_sits_in_is_the_node(asker: Asker) -> None:
    tree = redfish_bmc.two_boards(300)
    tree["/redfish/v1/Systems"] = redfish_bmc.collection("/redfish/v1/Systems/1")
    tree["/redfish/v1/Systems/1"] = {"Links": {"Chassis": [redfish_bmc.link("/redfish/v1/Chassis/Host")]}}
    with Bmc(tree) as bmc:
        assert asker(bmc).read(10).keys() == {"Host"}


def test_a_system_whose_own_chassis_says_nothing_has_no_other_power(asker: Asker) -> None:
    tree = redfish_bmc.two_boards(None)
    tree["/redfish/v1/Systems"] = redfish_bmc.collection("/redfish/v1/Systems/1")
    tree["/redfish/v1/Systems/1"] = {"Links": {"Chassis": [redfish_bmc.link("/redfish/v1/Chassis/Host")]}}
    with Bmc(tree) as bmc:
        assert refused(asker(bmc)).reason == "absent"


@pytest.mark.parametrize(("status", "body"), [(500, b"<html>"), (403, b"{}"), (404, b"{}"), (200, b"<html>")])
def test_a_chassis_that_cannot_be_read_hides_no_other(asker: Asker, status: int, body: bytes) -> None:
    def answer(handler: Handler) -> bool:
        if "Enclosure.Internal" in handler.path:
            handler.say(status, body)
        return "Enclosure.Internal" in handler.path

    with Bmc(redfish_bmc.idrac(312), fault=answer) as bmc:
        assert asker(bmc).read(10)["System.Embedded.1"].power_uw == 312 * WATT


@pytest.mark.parametrize(
    "place",
    ["", "http://[::1", "/redfish/v1/AccountService/Accounts/1", "/redfish/v1/SessionService/Sessions/../../x", "/é"],
)
def test_a_session_is_ended_at_its_own_place_or_not_at_all(asker: Asker, place: str) -> None:
    def answer(handler: Handler) -> bool:
        if handler.command == "POST":
            handler.owner.sessions["x"] = "t"
            handler.say(201, b"{}", X_Auth_Token="t", Location=place)
        return handler.command == "POST"

    with Bmc(redfish_bmc.simple(300), fault=answer) as bmc:
        reader = asker(bmc)
        assert reader.read(10)["1"].power_uw == 300 * WATT
        reader.close()
        assert [asked.path for asked in bmc.asked if asked.method == "DELETE"] == []


def test_cards_alone_are_not_taken_for_the_node(asker: Asker) -> None:
    tree = redfish_bmc.hgx(300)
    tree["/redfish/v1/Chassis"]["Members"] = [redfish_bmc.link(f"/redfish/v1/Chassis/HGX_GPU_SXM_{n}") for n in (1, 2)]
    with Bmc(tree) as bmc:
        assert refused(asker(bmc)).reason == "ambiguous"


def test_chassis_that_hold_each_other_end_the_search(asker: Asker) -> None:
    power = {"PowerControl": [redfish_bmc.control(100)]}
    tree = redfish_bmc.tree_of(
        redfish_bmc.chassis("A", inside="B", Power="Power"),
        redfish_bmc.chassis("B", inside="A", Power="Power"),
        A__Power=power,
        B__Power=power,
    )
    with Bmc(tree) as bmc:
        assert refused(asker(bmc)).reason == "ambiguous"


def test_a_named_sensor_and_the_energy_counters_are_read(asker: Asker) -> None:
    with Bmc(redfish_bmc.openbmc(312.5, "2026-11-30T00:00:01Z")) as bmc:
        sensor = asker(bmc, PowerChoice(resource=PowerResource.SENSOR, sensor="power_total")).read(10)
        energy = asker(bmc, PowerChoice(resource=PowerResource.ENERGY)).read(10)
        del bmc.tree["/redfish/v1/Chassis/chassis/EnvironmentMetrics"]["EnergyJoules"]
        kwh = asker(bmc, PowerChoice(resource=PowerResource.ENERGY)).read(10)
    assert sensor == {"chassis": PowerFigure(312_500_000, None, "2026-11-30T00:00:01Z")}
    assert energy["chassis"].energy_uj == 5_000_000_250_000
    assert kwh["chassis"].energy_uj == 5_400_000_000_000


def test_after_a_404_the_chassis_are_found_anew(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        bmc.tree = redfish_bmc.idrac(310)

        assert reader.read(10) == {"System.Embedded.1": PowerFigure(power_uw=310 * WATT)}
        bmc.tree = {}
        assert refused(reader).reason == "not_found"
        bmc.tree = redfish_bmc.simple(320)
        assert reader.read(10)["1"].power_uw == 320 * WATT


def test_a_session_that_ended_is_made_again_once__case_ceems_267(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        bmc.sessions.clear()

        assert reader.read(10)["1"].power_uw == 300 * WATT
        assert bmc.logins == 2


def test_a_bmc_that_restarts_is_a_failure_and_then_goes_on(asker: Asker) -> None:
    bmc = Bmc(redfish_bmc.simple(300))
    bmc.start()
    reader = asker(bmc)
    reader.read(10)

    bmc.stop()
    assert refused(reader).reason in ("refused", "closed")
    bmc.start()
    assert reader.read(10)["1"].power_uw == 300 * WATT
    bmc.stop()


def test_a_kept_connection_that_the_bmc_ended_costs_nothing(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        dropped: list[str] = []

        def drop_once(handler: Handler) -> bool:
            if not dropped:
                dropped.append(handler.path)
                handler.close_connection = True
                return True
            return False

        bmc.fault = drop_once

        assert reader.read(10)["1"].power_uw == 300 * WATT
        assert dropped


def test_a_wrong_password_is_not_tried_again_soon(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300), password="another") as bmc:
        failure = refused(asker(bmc))
        assert (failure.reason, failure.retry_after_seconds, bmc.logins) == ("unauthorized", 300, 1)


def test_a_password_that_was_changed_is_taken_up(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        for auth in RedfishAuth:
            bmc.password = PASSWORD
            reader = asker(bmc, None, auth)
            reader.read(10)
            bmc.sessions.clear()
            bmc.password = "the-next-one"
            asker.secret_file.write_text("the-next-one\n")
            assert reader.read(10)["1"].power_uw == 300 * WATT


def test_basic_authentication_needs_no_session_and_asks_once_with_a_wrong_password(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc, None, RedfishAuth.BASIC)
        assert reader.read(10)["1"].power_uw == 300 * WATT
        assert bmc.logins == 0
        bmc.password, bmc.asked = "another", []
        assert refused(reader).reason == "unauthorized"
        assert len(bmc.asked) == 1


def test_the_session_is_ended_at_close(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        assert len(bmc.sessions) == 1
        reader.close()
        assert bmc.sessions == {}
        assert bmc.asked[-1].path == f"{redfish_bmc.SESSIONS}/1"


def test_no_session_left_is_busy(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300), session_limit=0) as bmc:
        assert refused(asker(bmc)).reason == "busy"


def _html(handler: Handler) -> bool:
    handler.say(500, b"<html><body>Internal Server Error</body></html>")
    return True


def _status(status: int, **headers: str) -> Callable[[Handler], bool]:
    def answer(handler: Handler) -> bool:
        if handler.path == POWER_PATH:
            handler.say(status, {}, **headers)
        return handler.path == POWER_PATH

    return answer


@pytest.mark.parametrize(
    ("status", "headers", "reason", "wait"),
    [
        (403, {}, "permission", None),
        (503, {"Retry_After": "77"}, "busy", 77),
        (429, {"Retry_After": "soon"}, "busy", None),
        (500, {}, "server_error", None),
        (502, {}, "server_error", None),
    ],
)
def test_statuses_have_reasons(
    asker: Asker, status: int, headers: dict[str, str], reason: str, wait: float | None
) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        bmc.fault = _status(status, **headers)
        failure = refused(reader)
    assert (failure.reason, failure.retry_after_seconds) == (reason, wait)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>login</html>", b'{"PowerControl": [{"PowerCons', b"[]", b"null", b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "html", "truncated", "list", "null", "bytes", "deep"],
)
def test_what_is_no_redfish_is_nonsense(asker: Asker, body: bytes) -> None:
    def answer(handler: Handler) -> bool:
        if handler.path == POWER_PATH:
            handler.say(200, body)
        return handler.path == POWER_PATH

    with Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        bmc.fault = answer
        with pytest.raises(SourceError, match="expected"):
            reader.read(10)


def test_an_html_error_page_at_login_is_a_failure(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300), fault=_html) as bmc:
        assert refused(asker(bmc)).reason == "server_error"


def test_credentials_never_follow_a_redirect(asker: Asker) -> None:
    with Bmc(redfish_bmc.simple(300)) as elsewhere, Bmc(redfish_bmc.simple(300)) as bmc:
        reader = asker(bmc)
        reader.read(10)
        targets = [f"{elsewhere.url}{POWER_PATH}", "/redfish/v1/Systems", "//127.0.0.1/x", f"{POWER_PATH}/?to=x"]
        for target in [*targets, ""]:
            bmc.fault = _status(308, Location=target)
            with pytest.raises(SourceError, match="redirects"):
                reader.read(10)
        for target in ("http://[::1", "http://x:99999/", "\x7f"):
            bmc.fault = _status(308, Location=target)
            with pytest.raises((SourceError, Unavailable)):
                reader.read(10)
    assert elsewhere.asked == []


def test_a_bmc_that_hangs_ends_with_the_time_allowed__case_ceems_268(asker: Asker) -> None:
    def hang(handler: Handler) -> bool:
        handler.owner.release.wait(20)
        return False

    with Bmc(redfish_bmc.simple(300)) as bmc:
        bmc.fault = hang
        began = time.monotonic()
        assert refused(asker(bmc), seconds=0.2).reason == "timeout"
        assert time.monotonic() - began < 15


def test_a_slow_bmc_with_many_chassis_is_found_in_several_questions__case_ceems_342(asker: Asker) -> None:
    def slow(handler: Handler) -> bool:
        time.sleep(0.03)
        return False

    with Bmc(redfish_bmc.hgx(312), fault=slow) as bmc:
        reader = asker(bmc)
        rounds = 0
        while True:
            rounds += 1
            try:
                found = reader.read(0.15)
            except (NoData, Unavailable) as error:
                assert isinstance(error, NoData) or error.reason == "timeout", error  # noqa: PT017 - ended by time alone
                continue
            break
    assert found == {"Chassis_0": PowerFigure(power_uw=312 * WATT)}
    assert rounds > 1


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A certificate with its key in one file, and its SHA-256."""
    file = tmp_path_factory.mktemp("tls") / "bmc.pem"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch"]
    subprocess.run(
        [*new, "-days", "30", "-subj", "/CN=bmc", "-keyout", file, "-out", file.with_suffix(".crt")],
        check=True,
        capture_output=True,
    )
    file.write_text(file.read_text() + file.with_suffix(".crt").read_text())
    shown = subprocess.run(
        ["openssl", "x509", "-in", file, "-noout", "-fingerprint", "-sha256"],
        check=True,
        capture_output=True,
        text=True,
    )
    return file, shown.stdout.strip().partition("=")[2]


def _tls(file: Path) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def test_a_self_signed_certificate_is_refused_pinned_or_let_pass(asker: Asker, self_signed: tuple[Path, str]) -> None:
    file, digest = self_signed
    with Bmc(redfish_bmc.simple(300), tls=_tls(file)) as bmc:
        assert refused(asker(bmc)).reason == "tls"
        assert refused(asker(bmc, tls_sha256="00" * 32)).reason == "tls"
        assert bmc.asked == []
        assert asker(bmc, tls_sha256=digest).read(10)["1"].power_uw == 300 * WATT
        assert asker(bmc, tls_verify=False).read(10)["1"].power_uw == 300 * WATT
        authority = file.with_suffix(".crt")
        assert asker(bmc, ca_file=authority, server_name="bmc").read(10)["1"].power_uw == 300 * WATT
        assert refused(asker(bmc, ca_file=authority, server_name="other")).reason == "tls"


def test_a_password_is_shown_by_no_text(tmp_path: Path) -> None:
    settings = client_settings(tmp_path / "password")
    with Bmc(redfish_bmc.simple(300)) as bmc:
        client = RedfishClient(bmc.url, settings)
        shown = [repr(client), repr(settings), json.dumps(settings.model_dump(mode="json")), repr(vars(client))]
        client.close()
    assert not [text for text in shown if PASSWORD in text or "s3cret" in text]
    assert USER in shown[1]
