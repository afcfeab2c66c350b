"""Sessions that a BMC forgets or has no more of, in the words of several makers."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests import redfish_bmc
from tests.redfish_bmc import Bmc, Handler, client_settings

from kwhere.core.errors import Unavailable
from kwhere.devices.redfish_client import RedfishClient

PATH = "/redfish/v1/Chassis/1/Power"


@contextmanager
def asking(bmc: Bmc, directory: Path) -> Iterator[RedfishClient]:
    with closing(RedfishClient(bmc.url, client_settings(directory / "password"))) as client:
        yield client


@pytest.mark.parametrize("status", [400, 401, 503])
def test_case_ceems_342_idracs_word_for_no_session_left_is_no_wrong_password(tmp_path: Path, status: int) -> None:
    """Sessions end by themselves; a wrong password is left alone for minutes."""
    said = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.4.RAC0218"}]}}

    def full(handler: Handler) -> bool:
        if handler.command == "POST":
            handler.say(status, said)
        return handler.command == "POST"

    with (
        Bmc(redfish_bmc.simple(300), fault=full) as bmc,
        asking(bmc, tmp_path) as client,
        pytest.raises(Unavailable) as raised,
    ):
        client.get(PATH)

    assert (raised.value.reason, raised.value.retry_after_seconds) == ("busy", None)


def test_case_ceems_267_a_session_that_is_over_may_be_a_403(tmp_path: Path) -> None:
    with Bmc(redfish_bmc.simple(300)) as bmc, asking(bmc, tmp_path) as client:
        before = client.get(PATH)
        bmc.sessions.clear()

        def forgets(handler: Handler) -> bool:
            is_over = handler.command == "GET" and not bmc.is_known(dict(handler.headers.items()))
            if is_over:
                handler.say(403, {"error": {"code": "Base.1.18.NoValidSession"}})
            return is_over

        bmc.fault = forgets

        assert client.get(PATH) == before
        assert bmc.logins == 2


def test_a_403_of_another_kind_is_no_reason_to_log_in_again(tmp_path: Path) -> None:
    def refuses(handler: Handler) -> bool:
        if handler.command == "GET":
            handler.say(403, {"error": {"code": "Base.1.18.InsufficientPrivilege"}})
        return handler.command == "GET"

    with Bmc(redfish_bmc.simple(300), fault=refuses) as bmc, asking(bmc, tmp_path) as client:
        with pytest.raises(Unavailable) as raised:
            client.get(PATH)

        assert (raised.value.reason, bmc.logins) == ("permission", 1)
