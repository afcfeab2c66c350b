"""Programs as real children: judged by what they print, whatever their exit status."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.devices.dcmi_texts import CAPMC as CAPMC_TEXT
from tests.unit.devices.dcmi_texts import printed

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.dcmi_programs import (
    CAPMC,
    FREEIPMI,
    IPMITOOL,
    IPMIUTIL,
    Program,
    ask_program,
    failure_of,
    find_program,
    named_secret,
)
from kwhere.transport.commands import Finished

WATT = 1_000_000


def script(directory: Path, name: str, stdout: str, stderr: str = "", status: int = 0) -> str:
    """Write a program that prints and ends with a status; return its path."""
    (directory / "out").write_text(stdout)
    (directory / "err").write_text(stderr)
    program = directory / name
    program.write_text(f'#!/bin/sh\ncat "{directory}/out"\ncat "{directory}/err" >&2\nexit {status}\n')
    program.chmod(0o755)
    return str(program)


def ask(program: Program, path: str, timeout_seconds: float = 20.0) -> int | None:
    return ask_program(program, program.argv([path], []), timeout_seconds, {}).current_uw


@pytest.mark.parametrize("status", [0, 1, 255], ids=lambda status: f"case_energy_m1-{status}")
@pytest.mark.parametrize(
    ("program", "text"), [(FREEIPMI, "freeipmi"), (IPMITOOL, "ipmitool"), (IPMIUTIL, "ipmiutil")], ids=["f", "t", "u"]
)
def test_the_exit_status_says_nothing(tmp_path: Path, program: Program, text: str, status: int) -> None:
    path = script(tmp_path, program.executable, printed(text, "164 Watts"), "internal IPMI error\n", status)

    assert ask(program, path) == 164 * WATT


def test_capmc_is_judged_by_its_answer_too(tmp_path: Path) -> None:
    assert ask(CAPMC, script(tmp_path, "capmc", CAPMC_TEXT.format(avg=345, code=0), status=1)) == 345 * WATT


def test_success_without_a_reading_is_nonsense(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="ipmitool: expected a power reading with its state, found 'hello'"):
        ask(IPMITOOL, script(tmp_path, "ipmitool", "hello\n"))


def test_a_failure_without_a_word_names_the_status(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="ipmitool: ended with status 3, it says nothing") as caught:
        ask(IPMITOOL, script(tmp_path, "ipmitool", "", status=3))
    assert caught.value.reason == "failed"


def test_a_program_that_hangs_is_a_time_out(tmp_path: Path) -> None:
    program = tmp_path / "ipmitool"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)

    with pytest.raises(Unavailable) as caught:
        ask(IPMITOOL, str(program), 0.2)
    assert caught.value.reason == "timeout"


@pytest.mark.parametrize("rest", ["sleep 60", "exec >&- 2>&-; sleep 60"], ids=["outputs open", "outputs closed"])
def test_case_energy_m1_a_program_that_hangs_after_it_has_printed_is_believed(tmp_path: Path, rest: str) -> None:
    path = script(tmp_path, "ipmitool", printed("ipmitool", "164 Watts"))
    Path(path).write_text(Path(path).read_text().replace("exit 0", rest))

    assert ask(IPMITOOL, path, 3.0) == 164 * WATT


# Each of these was printed by the program itself, but for ipmiutil's and sudo's, which their sources hold.
SAID = [
    (IPMITOOL, "    DCMI request failed because: Invalid command (c1)\n", "unsupported"),
    (IPMITOOL, "    DCMI request failed because: Node busy (c0)\n", "busy"),
    (IPMITOOL, "    DCMI request failed because: Timeout (c3)\n", "timeout"),
    (IPMITOOL, "    DCMI request failed because: Insufficient privilege level (d4)\n", "permission"),
    (IPMITOOL, "    DCMI request failed because: Command not supported in present state (d5)\n", "inactive"),
    (IPMITOOL, "    DCMI request failed because: Invalid data field in request (cc)\n", "unsupported"),
    (IPMITOOL, "Address lookup for no-such-bmc failed\nError: Unable to establish IPMI v2 / RMCP+ session\n", "dns"),
    (FREEIPMI, "ipmi-dcmi: invalid hostname\n", "dns"),
    (FREEIPMI, "ipmi-dcmi: internal IPMI error\n", "failed"),
    (IPMITOOL, "Error: Unable to establish IPMI v2 / RMCP+ session\n", "unauthorized"),
    (IPMITOOL, "Could not open device at /dev/ipmi0 or /dev/ipmi/0: No such file or directory\n", "absent"),
    (IPMITOOL, "Could not open device at /dev/ipmi0 or /dev/ipmi/0: Permission denied\n", "permission"),
    (FREEIPMI, "ipmi_cmd_dcmi_get_power_reading: command invalid or unsupported\n", "unsupported"),
    (FREEIPMI, "ipmi_cmd_dcmi_get_power_reading: BMC busy\n", "busy"),
    (FREEIPMI, "ipmi_cmd_dcmi_get_power_reading: bad completion code\n", "unsupported"),
    (FREEIPMI, "ipmi-dcmi: password invalid\n", "unauthorized"),
    (FREEIPMI, "ipmi-dcmi: username invalid\n", "unauthorized"),
    (FREEIPMI, "ipmi-dcmi: connection timeout\n", "timeout"),
    (FREEIPMI, "ipmi-dcmi: permission denied\n", "permission"),
    (FREEIPMI, "could not find inband device\n", "absent"),
    (FREEIPMI, "sudo: a password is required\n", "permission"),
    (IPMIUTIL, "Cannot open an IPMI driver: ia, mv, ldipmi, or direct\n", "absent"),
]


@pytest.mark.parametrize(("program", "said", "reason"), SAID, ids=[said.strip()[:60] for _, said, _ in SAID])
def test_what_a_program_says_is_the_reason(program: Program, said: str, reason: str) -> None:
    done = Finished(("x",), 1, b"", said.encode(), 0.1)

    found = failure_of(done, program, SourceError("x"))

    assert isinstance(found, Unavailable)
    assert found.reason == reason
    assert str(found).startswith(f"{program.executable}: ")
    assert f"it says {said.lower().split()[0]!r}"[:-1] in str(found)


@given(st.binary(max_size=500), st.binary(max_size=500), st.integers(-9, 255))
def test_any_bytes_have_a_reason(stdout: bytes, stderr: bytes, status: int) -> None:
    found = failure_of(Finished(("x",), status, stdout, stderr, 0.1), FREEIPMI, SourceError("x"))

    assert isinstance(found, Unavailable | SourceError)
    assert len(str(found)) < 700


def test_arguments_stand_where_each_program_wants_them() -> None:
    assert FREEIPMI.argv(["sudo", "-n", "/usr/sbin/ipmi-dcmi"], ["-h", "bmc"]) == (
        *("sudo", "-n", "/usr/sbin/ipmi-dcmi", "-h", "bmc"),
        "--get-system-power-statistics",
    )
    assert IPMITOOL.argv(["ipmitool"], ["-H", "bmc"]) == ("ipmitool", "-H", "bmc", "dcmi", "power", "reading")
    assert IPMIUTIL.argv(["ipmiutil"], ["-N", "bmc"]) == ("ipmiutil", "dcmi", "-N", "bmc", "power")
    assert CAPMC.argv(["capmc"], []) == ("capmc", "get_system_power", "-w", "600")


@pytest.mark.parametrize(
    ("program", "arguments", "flag"),
    [
        (IPMITOOL, ["-U", "admin", "-P", "secret"], "-P"),
        (IPMITOOL, ["-Psecret"], "-P"),
        (IPMITOOL, ["-y", "0a0b"], "-y"),
        (FREEIPMI, ["-p", "secret"], "-p"),
        (FREEIPMI, ["--password=secret"], "--password"),
        (FREEIPMI, ["--password", "secret"], "--password"),
        (FREEIPMI, ["-ksecret"], "-k"),
        (IPMIUTIL, ["-P", "secret"], "-P"),
        (IPMITOOL, ["-H", "bmc", "-p", "623", "-E"], None),
        (IPMITOOL, ["-f", "/etc/kwhere/bmc.password"], None),
        (FREEIPMI, ["--config-file=/etc/kwhere/freeipmi.conf", "-P", "--password-prompt"], None),
        (CAPMC, ["-p"], None),
    ],
)
def test_secrets_among_the_arguments_are_seen(program: Program, arguments: list[str], flag: str | None) -> None:
    assert named_secret(program, arguments) == flag


def test_administration_programs_are_found_outside_the_path(tmp_path: Path) -> None:
    script(tmp_path, "ipmi-dcmi-of-ours", "")

    assert find_program("ipmi-dcmi-of-ours", f"/nowhere:{tmp_path}") == str(tmp_path / "ipmi-dcmi-of-ours")
    assert find_program("no-such-program-at-all", os.defpath) is None
