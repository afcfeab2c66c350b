"""Whether doctor sees an exporter that would double our series."""

from pathlib import Path

import pytest
from tests.doctor_place import place_of

from kwhere.kernel.hostfs import HostFS
from kwhere.local.doctor import CheckState
from kwhere.local.doctor_dcgm import check_dcgm_exporter

HEADER = "  sl  local_address rem_address   st\n"
LISTENS = f"{HEADER}   0: 00000000:24B8 00000000:0000 0A 0\n"
CONNECTED = f"{HEADER}   0: 0100007F:24B8 0100007F:24B9 01 0\n"


def host(directory: Path, command: str, table: str = HEADER) -> HostFS:
    (directory / "7").mkdir()
    (directory / "7" / "cmdline").write_text(command.replace(" ", "\0") + "\0")
    (directory / "net").mkdir()
    (directory / "net" / "tcp").write_text(table)
    return HostFS(directory)


@pytest.mark.parametrize(
    ("command", "table", "found"),
    [
        ("/usr/bin/dcgm-exporter -f x", HEADER, "NVIDIA's dcgm-exporter runs here (process 7)"),
        ("/usr/bin/dcgm-exporter", LISTENS, "NVIDIA's dcgm-exporter runs here (process 7)"),
        ("sleep 1", LISTENS, "something answers on port 9400, dcgm-exporter's"),
    ],
)
def test_an_exporter_is_warned_of(command: str, table: str, found: str, tmp_path: Path) -> None:
    [check] = check_dcgm_exporter(place_of(host(tmp_path, command, table)))

    assert (check.state, check.found) == (CheckState.WARNING, found)


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("/usr/bin/python3 /usr/bin/dcgm-exporter", LISTENS),
        ("sleep 1", CONNECTED),
        ("vi dcgm-exporter.yaml", HEADER),
    ],
)
def test_ours_and_nothing_are_no_fault(command: str, table: str, tmp_path: Path) -> None:
    assert check_dcgm_exporter(place_of(host(tmp_path, command, table))) == []
