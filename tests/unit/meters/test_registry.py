from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.unit.meters.powercap_tree import EACCES, FaultyFS, context, write_zone
from tests.unit.meters.test_hwmon import WATT, write_chip

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component
from kwhere.meters.meter import PLATFORM, Meter, MeterContext, Plugin
from kwhere.meters.registry import SourceStatus, build_meters, plugins
from kwhere.meters.settings import MeterSettings
from kwhere.meters.sources import SOURCES


def speakers(root: Path | FaultyFS) -> dict[str, str]:
    return {str(c): meter.source for c, meter in build_meters(context(root)).by_component.items()}


def test_every_module_with_a_plugin_is_found() -> None:
    found = [plugin.source for plugin in plugins()]

    assert {"hwmon_energy", "hwmon_power", "model", "perf", "perf_psys", "powercap", "psys"} <= set(found)
    assert found == sorted(set(found))


def test_a_machine_without_any_meter_runs_on_the_model_case_energy_r18(tmp_path: Path) -> None:
    built = build_meters(context(tmp_path))

    assert [meter.source for meter in built.meters] == ["model"]
    assert {str(c): m.source for c, m in built.by_component.items()} == {"cpu": "model", "dram": "model"}
    assert built.platforms == ()
    assert [s.source for s in built.sources if s.up] == ["model"]
    assert {s.reason for s in built.sources if not s.up} <= {"absent", "unconfigured"}


def test_beside_measured_cpus_unmeasured_memory_is_missing_not_guessed(tmp_path: Path) -> None:
    """case_energy_r12, case_energy_a6"""
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)

    assert speakers(tmp_path) == {"cpu": "powercap"}


def test_closed_counters_leave_the_model_and_a_reason_case_energy_r16(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    fs = FaultyFS(tmp_path)
    fs.closed["energy_uj"] = EACCES

    built = build_meters(context(fs))

    assert speakers(fs) == {"cpu": "model", "dram": "model"}
    (status,) = [status for status in built.sources if status.source == "powercap"]
    assert (status.up, status.reason) == (False, "permission")
    assert "intel-rapl:0/energy_uj" in status.detail


def test_platforms_come_best_first_and_are_all_kept(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "psys", 0)
    write_chip(tmp_path, 0, "power_meter", {"power1_average": 300 * WATT})
    write_chip(tmp_path, 1, "aem0", {"energy1_input": 5})

    built = build_meters(context(tmp_path))

    assert [meter.source for meter in built.platforms] == ["hwmon_energy", "hwmon_power", "psys"]
    assert built.by_component[Component.CPU].source == "powercap"


def test_powercap_comes_before_hwmon(tmp_path: Path) -> None:
    write_chip(tmp_path, 0, "amd_energy", {"energy1_input": 5, "energy1_label": "Esocket0"})
    before = speakers(tmp_path)
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)

    assert (before, speakers(tmp_path)) == ({"cpu": "hwmon_energy"}, {"cpu": "powercap"})


@pytest.mark.parametrize(
    ("error", "reason"), [(Unavailable("permission", "closed"), "permission"), (SourceError("odd"), "nonsense")]
)
def test_a_plugin_that_fails_is_a_status_and_the_others_go_on(tmp_path: Path, error: Exception, reason: str) -> None:
    def fail(_: MeterContext) -> Meter:
        raise error

    good = next(plugin for plugin in plugins() if plugin.source == "model")

    built = build_meters(context(tmp_path), [Plugin("broken", fail), good])

    assert built.sources[0] == SourceStatus("broken", up=False, reason=reason, detail=str(error))
    assert len(built.meters) == 1


def test_settings_leave_a_source_out_and_name_the_platform(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0)
    write_zone(tmp_path, "intel-rapl:1", "psys", 0)
    write_chip(tmp_path, 0, "power_meter", {"power1_average": 300 * WATT})

    without = build_meters(context(tmp_path, settings=MeterSettings(off=frozenset({"powercap"}))))
    named = build_meters(context(tmp_path, settings=MeterSettings(platform="psys", platform_headroom_watts=50.5)))
    unheard = build_meters(context(tmp_path, settings=MeterSettings(platform="redfish")))

    assert without.by_component[Component.CPU].source == "model"
    assert SourceStatus("powercap", up=False, reason="off", detail="meters.off names it") in without.sources
    assert [meter.source for meter in named.platforms] == ["psys"]
    assert named.platforms[0].p_max_uw(PLATFORM) == 50_500_000
    assert unheard.platforms == ()


@pytest.mark.parametrize("key", ["headroom", "Off"])
def test_an_unknown_key_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        MeterSettings.model_validate({key: 1})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"off": ["powercap", "powrcap"]}, r"off\n.*expected names of sources \(amdgpu, .*found 'powrcap'"),
        ({"platform": "redfsh"}, r"platform\n.*expected a source of the node's total \(cray, hwmon_energy, .*battery"),
        ({"platform": "powercap"}, r"platform\n.*expected a source of the node's total"),
    ],
)
def test_a_name_that_no_source_has_is_refused(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MeterSettings.model_validate(setting)


def test_every_source_has_its_place_in_the_order() -> None:
    assert {plugin.source for plugin in plugins()} <= SOURCES


def test_every_source_and_setting_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "meters.md").read_text()

    assert [plugin.source for plugin in plugins() if f"\n| `{plugin.source}` |" not in page] == []
    assert [name for name in MeterSettings.model_fields if f"`meters.{name}`" not in page] == []
