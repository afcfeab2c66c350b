"""Which calibration is used: the named one, the state directory's, none of another machine, none that is broken."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.unit.meters.powercap_tree import context

from kwhere.apps.calibrate import by_hand, check_writable, file_of, write
from kwhere.apps.calibration import FILE_NAME, read_calibration, with_calibration
from kwhere.apps.settings import Settings
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.energy.calibration import Calibration, Scope
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.meter import MeterContext
from kwhere.meters.model_settings import ModelSettings
from kwhere.meters.settings import MeterSettings

FOUND = Calibration("powercap", Scope.CPU, "A CPU", 1, 2, 10.0, 5.0, 0.05, "2026-11-30T00:00:00+00:00")


def here(named: Path | None = None) -> MeterContext:
    return context(HostFS(), model="A CPU", settings=MeterSettings(model=ModelSettings(calibration=named)))


def test_the_state_directory_s_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "new" / FILE_NAME, FOUND)

    assert with_calibration(here(), tmp_path / "new").calibration == FOUND
    assert with_calibration(here(), tmp_path).calibration is None
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "new"))
    assert with_calibration(here(), None).calibration == FOUND
    assert [path.name for path in (tmp_path / "new").iterdir()] == [FILE_NAME]


def test_a_named_one_comes_first(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, FOUND)
    write(tmp_path / "other.json", replace(FOUND, idle_watts=11.0))

    found = with_calibration(here(tmp_path / "other.json"), tmp_path).calibration

    assert found is not None
    assert found.idle_watts == 11.0


def test_one_of_another_machine_is_not_used(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, replace(FOUND, cpus=64))

    with capture_logs() as logs:
        found = with_calibration(here(), tmp_path).calibration

    assert found is None
    assert logs[0]["event"] == "calibration is of another machine"
    assert "this machine has 2 CPUs" in logs[0]["reason"]


def test_a_recorded_host_has_none_of_ours(tmp_path: Path) -> None:
    write(tmp_path / FILE_NAME, FOUND)

    assert with_calibration(context(tmp_path, model="A CPU"), tmp_path).calibration is None


def test_a_broken_file_stops_only_whom_names_it(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"\xff{")

    with capture_logs() as logs:
        assert with_calibration(here(), tmp_path).calibration is None
    with pytest.raises(ConfigError, match=r"meters\.model\.calibration: .*expected JSON in UTF-8"):
        with_calibration(here(path), None)

    assert logs[0]["event"] == "calibration cannot be used"


@pytest.mark.parametrize("data", [b"x" * 70_000, b"", b"[]", json.dumps({"format": 9}).encode()])
def test_what_is_no_calibration_is_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(data)

    with pytest.raises(SourceError, match="expected"):
        read_calibration(path)
    with pytest.raises(SourceError, match="cannot be read"):
        read_calibration(tmp_path / "absent")


def test_a_place_that_cannot_be_written_is_told_before_the_load(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Unavailable, match="cannot be made"):
        check_writable(tmp_path / "file" / "deep" / "c.json")
    with pytest.raises(Unavailable, match="--output names another"):
        check_writable(tmp_path)
    assert file_of(None, tmp_path) == tmp_path / FILE_NAME
    assert file_of(tmp_path / "x", tmp_path / "s") == tmp_path / "x"


def test_watts_by_hand_are_a_whole_node_s() -> None:
    fit, found = by_hand(Settings(), {0: 40.0, 100: 40.0 + 5 * cpus()})

    assert fit.watts_per_cpu == pytest.approx(5)
    assert (found.source, found.scope, found.uncertainty_ratio) == ("hand", Scope.NODE, 0.15)
    with pytest.raises(Unavailable, match="does not move"):
        by_hand(Settings(), {0: 40.0, 100: 40.0})


def cpus() -> int:
    from kwhere.apps.agent import topology_of

    return sum(topology_of(HostFS()).cpus_by_socket)
